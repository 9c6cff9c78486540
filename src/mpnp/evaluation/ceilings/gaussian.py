"""Scores of the best predictor that knows the prior of the kernel parameters but must infer them from the context."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer

from mpnp.errors import InputError
from mpnp.evaluation.ceilings.parameters import AbstractIntegrator, ParameterPosterior
from mpnp.evaluation.metrics import score_task
from mpnp.evaluation.oracle import exact_log_evidence, exact_posterior, to_float64
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.tasks.base import AbstractTaskFamily, FunctionFamily, TaskSource
from mpnp.tasks.gaussian_process import AbstractUniformKernelPrior, GaussianProcessPrior
from mpnp.tasks.task import PointSet, Task

__all__ = ["infer_parameters", "inferred_scores", "mixture", "uniform_gaussian_process"]

NUM_REPRESENTATIVES = 256
"""Number of components of the predictive mixture."""

PREDICTED = 64
"""Components computed at once; bounds memory."""

CHUNK = 100
"""Tasks scored per call."""

METRICS = ("context", "target", "task", "rmse", "coverage_50", "coverage_90", "coverage_95")
"""Metrics of the mixture. CRPS is left out: it compares all pairs of components and would dominate the cost."""


def inferred_scores(
    source: TaskSource,
    indices: Integer[np.ndarray, " task"],
    integrator: AbstractIntegrator,
    *,
    sigma_min: float,
    chunk_size: int = CHUNK,
) -> dict[str, dict[str, Float[np.ndarray, " task"]]]:
    """Metrics of the exact posterior predictive: `exact`, and `floored` with component scales of at least `sigma_min`."""
    uniform_gaussian_process(source.family)
    parts = []
    for start in range(0, len(indices), chunk_size):
        # Tasks are drawn in float32, as for the models; only the linear algebra uses float64.
        drawn = jax.device_get(eqx.filter_jit(source.batch)(jnp.asarray(indices[start : start + chunk_size])))
        with jax.enable_x64(True):
            tasks = jax.tree.map(to_float64, drawn)
            parts.append(jax.device_get(_score(source.family, tasks, integrator, jnp.asarray(sigma_min, jnp.float64))))
    return jax.tree.map(lambda *values: np.concatenate(values), *parts)


def uniform_gaussian_process(family: AbstractTaskFamily) -> tuple[AbstractUniformKernelPrior, float]:
    """The kernel prior and the noise standard deviation of a Gaussian process family."""
    process = family.process if isinstance(family, FunctionFamily) else None
    if isinstance(process, GaussianProcessPrior) and isinstance(process.kernel_prior, AbstractUniformKernelPrior):
        return process.kernel_prior, process.noise_std
    raise InputError("exact inference of kernel parameters needs a Gaussian process family with uniform kernel parameters")


@eqx.filter_jit
def _score(
    family: AbstractTaskFamily, tasks: Task, integrator: AbstractIntegrator, sigma_min: Float[Array, ""]
) -> dict[str, dict[str, Float[Array, " task"]]]:
    prior, noise_std = uniform_gaussian_process(family)

    def score(task: Task) -> dict[str, dict[str, Float[Array, ""]]]:
        # Sequentially, for the reason given in `evaluate`.
        both = jax.tree.map(lambda *leaves: jnp.stack(leaves), task.context, task.points)
        inferred = jax.lax.map(lambda points: infer_parameters(prior, noise_std, points, integrator), both)
        posterior, of_all = (jax.tree.map(lambda leaf, place=place: leaf[place], inferred) for place in (0, 1))
        predictive = mixture(prior, noise_std, task, posterior)
        floored = Predictive(predictive.loc, jnp.maximum(predictive.scale, sigma_min))
        exact, floored = ({name: score_task(p, task)[name] for name in METRICS} for p in (predictive, floored))
        # p(targets | context) = p(all points) / p(context).
        joint = of_all.log_evidence - posterior.log_evidence
        return {"exact": exact | {"joint": joint / jnp.maximum(task.target_mask.sum(), 1)}, "floored": floored}

    return jax.lax.map(score, tasks)


def infer_parameters(
    prior: AbstractUniformKernelPrior, noise_std: float, points: PointSet, integrator: AbstractIntegrator
) -> ParameterPosterior:
    """Posterior of the kernel parameters given the points, by the exact marginal likelihood."""
    return integrator(prior, lambda parameters: exact_log_evidence(prior.build(parameters), noise_std, points))


def mixture(prior: AbstractUniformKernelPrior, noise_std: float, task: Task, posterior: ParameterPosterior) -> Predictive:
    """Predictive mixture at every input of the task: exact posteriors averaged over the kernel parameters."""

    def predict(parameters: Float[Array, " parameter"]) -> Predictive:
        return exact_posterior(prior.build(parameters), noise_std, task)

    components = jax.lax.map(predict, posterior.representatives(NUM_REPRESENTATIVES), batch_size=PREDICTED)
    return Predictive(components.loc[:, 0], components.scale[:, 0])
