"""The exact posterior of a Gaussian process whose kernel parameters must be inferred, to show beside a model."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from mpnp.evaluation.ceilings.gaussian import infer_parameters, uniform_gaussian_process
from mpnp.evaluation.ceilings.quadrature import quadrature_for
from mpnp.evaluation.oracle import exact_posterior
from mpnp.inference.predictor import round_up
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.tasks.base import FunctionFamily
from mpnp.tasks.task import PointSet, Task

__all__ = ["exact_mixture"]

NUM_KERNELS = 32
"""Kernels that represent the posterior of its parameters."""


def exact_mixture(
    family: FunctionFamily,
    x: Float[np.ndarray, "row 1"],
    y: Float[np.ndarray, "row 1"],
    x_target: Float[np.ndarray, "target 1"],
) -> Predictive:
    """The predictive distribution at the targets, as a mixture over kernels; in double precision."""
    slots = round_up(len(x))
    padding = [(0, slots - len(x)), (0, 0)]
    with jax.enable_x64(True):
        answer = _solver(family)(
            jnp.asarray(np.pad(x, padding), jnp.float64),
            jnp.asarray(np.pad(y, padding), jnp.float64),
            jnp.asarray(np.arange(slots) < len(x)),
            jnp.asarray(x_target, jnp.float64),
        )
        loc, scale = (np.asarray(part) for part in (answer.loc, answer.scale))
    return Predictive(loc, scale)


@functools.cache
def _solver(family: FunctionFamily):  # noqa: ANN202 - what it returns is compiled
    """A compiled function for one family."""
    prior, noise_std = uniform_gaussian_process(family)
    integrator = quadrature_for(prior)

    @eqx.filter_jit
    def solve(
        x: Float[Array, "slot 1"], y: Float[Array, "slot 1"], mask: Array, x_target: Float[Array, "target 1"]
    ) -> Predictive:
        posterior = infer_parameters(prior, noise_std, PointSet(x, y, mask), integrator)
        num_targets = len(x_target)
        task = Task(
            jnp.concatenate([x_target, x]),
            jnp.concatenate([jnp.zeros_like(x_target), y]),
            jnp.concatenate([jnp.zeros(num_targets, bool), mask]),
            jnp.ones(num_targets + len(x), bool),
        )

        def predict(parameters: Float[Array, " parameter"]) -> Predictive:
            return exact_posterior(prior.build(parameters), noise_std, task)

        components = jax.lax.map(predict, posterior.representatives(NUM_KERNELS))
        return Predictive(components.loc[:, 0, :num_targets], components.scale[:, 0, :num_targets])

    return solve
