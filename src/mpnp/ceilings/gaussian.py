"""What the best predictor scores that knows the prior of the kernel's parameters, but must infer them from the context."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer

from mpnp.ceilings.parameters import AbstractIntegrator, ParameterPosterior
from mpnp.errors import InputError
from mpnp.metrics import score_task
from mpnp.networks.predictive import Predictive
from mpnp.oracle import exact_log_evidence, exact_posterior, to_float64
from mpnp.tasks.families import AbstractTaskFamily, FunctionFamily
from mpnp.tasks.gaussian_process import AbstractUniformKernelPrior, GaussianProcessPrior
from mpnp.tasks.sources import TaskSource
from mpnp.tasks.task import PointSet, Task

__all__ = ["infer_parameters", "inferred_scores", "mixture", "uniform_gaussian_process"]

NUM_REPRESENTATIVES = 256
"""Components of the predictive mixture."""

PREDICTED = 64
"""Components predicted at once, so that memory stays flat."""

CHUNK = 100
"""Tasks scored in one call."""

METRICS = ("context", "target", "task", "rmse", "coverage_50", "coverage_90", "coverage_95")
"""Of the mixture. The ranked probability score compares all pairs of components, which costs more than all the rest."""


def inferred_scores(
    source: TaskSource, indices: Integer[np.ndarray, " task"], integrator: AbstractIntegrator, *, sigma_min: float
) -> dict[str, dict[str, Float[np.ndarray, " task"]]]:
    """Metrics of the exact posterior predictive on these tasks: `exact`, and `floored` with no narrower components."""
    uniform_gaussian_process(source.family)
    parts = []
    for start in range(0, len(indices), CHUNK):
        # Tasks are drawn in float32, as for the models; only the linear algebra on them is in float64.
        drawn = jax.device_get(eqx.filter_jit(source.batch)(jnp.asarray(indices[start : start + CHUNK])))
        with jax.enable_x64(True):
            tasks = jax.tree.map(to_float64, drawn)
            parts.append(jax.device_get(_score(source.family, tasks, integrator, jnp.asarray(sigma_min, jnp.float64))))
    return jax.tree.map(lambda *values: np.concatenate(values), *parts)


def uniform_gaussian_process(family: AbstractTaskFamily) -> tuple[AbstractUniformKernelPrior, float]:
    """The prior of the kernel's parameters and the noise's standard deviation."""
    process = family.process if isinstance(family, FunctionFamily) else None
    if isinstance(process, GaussianProcessPrior) and isinstance(process.kernel_prior, AbstractUniformKernelPrior):
        return process.kernel_prior, process.noise_std
    raise InputError("parameters can be inferred exactly for Gaussian process families with uniform kernel parameters only")


@eqx.filter_jit
def _score(
    family: AbstractTaskFamily, tasks: Task, integrator: AbstractIntegrator, sigma_min: Float[Array, ""]
) -> dict[str, dict[str, Float[Array, " task"]]]:
    prior, noise_std = uniform_gaussian_process(family)

    def score(task: Task) -> dict[str, dict[str, Float[Array, ""]]]:
        # One after the other, for the reason given at `evaluate`.
        both = jax.tree.map(lambda *leaves: jnp.stack(leaves), task.context, task.points)
        inferred = jax.lax.map(lambda points: infer_parameters(prior, noise_std, points, integrator), both)
        posterior, of_all = (jax.tree.map(lambda leaf, place=place: leaf[place], inferred) for place in (0, 1))
        predictive = mixture(prior, noise_std, task, posterior)
        floored = Predictive(predictive.loc, jnp.maximum(predictive.scale, sigma_min))
        exact, floored = ({name: score_task(p, task)[name] for name in METRICS} for p in (predictive, floored))
        # The density of the targets given the context is that of all points over that of the context.
        joint = of_all.log_evidence - posterior.log_evidence
        return {"exact": exact | {"joint": joint / jnp.maximum(task.target_mask.sum(), 1)}, "floored": floored}

    return jax.lax.map(score, tasks)


def infer_parameters(
    prior: AbstractUniformKernelPrior, noise_std: float, points: PointSet, integrator: AbstractIntegrator
) -> ParameterPosterior:
    """What the points say about the kernel's parameters, by the exact marginal likelihood."""
    return integrator(prior, lambda parameters: exact_log_evidence(prior.build(parameters), noise_std, points))


def mixture(prior: AbstractUniformKernelPrior, noise_std: float, task: Task, posterior: ParameterPosterior) -> Predictive:
    """The exact posteriors under all parameters that the context supports, mixed, at every input of the task."""

    def predict(parameters: Float[Array, " parameter"]) -> Predictive:
        return exact_posterior(prior.build(parameters), noise_std, task)

    components = jax.lax.map(predict, posterior.representatives(NUM_REPRESENTATIVES), batch_size=PREDICTED)
    return Predictive(components.loc[:, 0], components.scale[:, 0])
