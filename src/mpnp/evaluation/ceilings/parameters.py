"""Posterior of the kernel parameters as weighted nodes in the prior's box."""

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
"""Maps kernel parameters to the log density of the observations."""

BATCH = 256
"""Nodes whose matrices are held in memory at once."""

GOLDEN_RATIO = (1 + math.sqrt(5)) / 2

BITS = 10
"""Bits per coordinate of the Z-order curve; three coordinates fit into a 32-bit integer."""


class ParameterPosterior(eqx.Module):
    """A discrete distribution over kernel parameters."""

    nodes: Float[Array, "node parameter"]
    log_weights: Float[Array, " node"]
    log_evidence: Float[Array, ""]
    """Log marginal likelihood of the observations, with parameters integrated out."""

    def __init__(self, nodes: Float[Array, "node parameter"], log_masses: Float[Array, " node"]) -> None:
        """Normalise masses: the likelihood at each node times the prior probability it represents."""
        self.nodes = nodes
        self.log_evidence = jax.nn.logsumexp(log_masses)
        self.log_weights = log_masses - self.log_evidence

    def representatives(self, num: int) -> Float[Array, "representative parameter"]:
        """`num` equally weighted nodes that represent the distribution; heavy nodes appear repeatedly."""
        # Evenly spaced quantiles along a space-filling curve miss no region of sufficient weight.
        order = jnp.argsort(_place_on_curve(self.nodes))
        # Vary the offset within each step, to avoid aliasing with the grid.
        step = jnp.arange(num)
        quantiles = (step + (step * GOLDEN_RATIO) % 1) / num
        chosen = jnp.searchsorted(jnp.cumsum(jnp.exp(self.log_weights[order])), quantiles)
        return self.nodes[order[jnp.minimum(chosen, len(order) - 1)]]


class AbstractIntegrator(eqx.Module):
    """Integrates over the prior of the kernel parameters."""

    @abc.abstractmethod
    def __call__(self, prior: AbstractUniformKernelPrior, log_likelihood: LogLikelihood) -> ParameterPosterior:
        """The posterior of the parameters given a likelihood."""


def evaluate(log_likelihood: LogLikelihood, nodes: Float[Array, "node parameter"]) -> Float[Array, " node"]:
    """The log-likelihood at every node, in batches to bound memory.

    Batches have equal sizes. A smaller last batch would be factorised concurrently with the others, which can deadlock
    jaxlib's threads on few cores.
    """
    batch_size = max(size for size in range(1, BATCH + 1) if len(nodes) % size == 0)
    return jax.lax.map(log_likelihood, nodes, batch_size=batch_size)


def _place_on_curve(nodes: Float[Array, "node parameter"]) -> Int[Array, " node"]:
    """Positions along the Z-order curve: the interleaved bits of the coordinates."""
    low, high = nodes.min(axis=0), nodes.max(axis=0)
    coordinates = ((nodes - low) / (high - low) * (2**BITS - 1)).astype(int)
    place = jnp.zeros(len(nodes), int)
    for bit in reversed(range(BITS)):
        for coordinate in coordinates.T:
            place = 2 * place + (coordinate >> bit) % 2
    return place
