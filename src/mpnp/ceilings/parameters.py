"""What the context says about the parameters of the kernel: nodes in the prior's box, each with a weight."""

import abc
import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from mpnp.tasks.gaussian_process import AbstractUniformKernelPrior

__all__ = ["AbstractIntegrator", "LogLikelihood", "ParameterPosterior", "evaluate"]

LogLikelihood = Callable[[Float[Array, " parameter"]], Float[Array, ""]]
"""From the parameters of a kernel to the log density of what was observed."""

BATCH = 256
"""Nodes whose matrices are in memory at once."""

GOLDEN_RATIO = (1 + math.sqrt(5)) / 2

BITS = 10
"""Of each coordinate on the curve along which nodes are ordered; three of them fit in an integer of any precision."""


class ParameterPosterior(eqx.Module):
    """A distribution over parameters that is concentrated on nodes."""

    nodes: Float[Array, "node parameter"]
    log_weights: Float[Array, " node"]
    log_evidence: Float[Array, ""]
    """Log density of what was observed, parameters integrated out."""

    def __init__(self, nodes: Float[Array, "node parameter"], log_masses: Float[Array, " node"]) -> None:
        """Weigh nodes by their masses, that is the likelihood at each times the share of the prior that it stands for."""
        self.nodes = nodes
        self.log_evidence = jax.nn.logsumexp(log_masses)
        self.log_weights = log_masses - self.log_evidence

    def representatives(self, num: int) -> Float[Array, "representative parameter"]:
        """So many nodes of equal weight, evenly spread over the weighted nodes; heavy nodes appear repeatedly."""
        # Along a curve that fills the box, evenly spaced quantiles leave out no region that weighs enough.
        order = jnp.argsort(_place_on_curve(self.nodes))
        # The place within each step varies, lest it fall in step with the cells of a grid.
        step = jnp.arange(num)
        quantiles = (step + (step * GOLDEN_RATIO) % 1) / num
        chosen = jnp.searchsorted(jnp.cumsum(jnp.exp(self.log_weights[order])), quantiles)
        return self.nodes[order[jnp.minimum(chosen, len(order) - 1)]]


class AbstractIntegrator(eqx.Module):
    """A way to integrate over the prior of a kernel's parameters."""

    @abc.abstractmethod
    def __call__(self, prior: AbstractUniformKernelPrior, log_likelihood: LogLikelihood) -> ParameterPosterior:
        """The posterior of the parameters."""


def evaluate(log_likelihood: LogLikelihood, nodes: Float[Array, "node parameter"]) -> Float[Array, " node"]:
    """The log-likelihood at every node, a batch at a time so that memory stays flat.

    Batches are of equal size. A smaller last one would be factorised beside the others, and on few cores jaxlib's threads then
    wait for each other forever.
    """
    batch_size = max(size for size in range(1, BATCH + 1) if len(nodes) % size == 0)
    return jax.lax.map(log_likelihood, nodes, batch_size=batch_size)


def _place_on_curve(nodes: Float[Array, "node parameter"]) -> Int[Array, " node"]:
    """Where nodes lie along the Z-order curve: the bits of their coordinates, interleaved."""
    low, high = nodes.min(axis=0), nodes.max(axis=0)
    coordinates = ((nodes - low) / (high - low) * (2**BITS - 1)).astype(int)
    place = jnp.zeros(len(nodes), int)
    for bit in reversed(range(BITS)):
        for coordinate in coordinates.T:
            place = 2 * place + (coordinate >> bit) % 2
    return place
