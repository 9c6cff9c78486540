"""The exact Gaussian process posterior with known kernel parameters. No model can beat it on average."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Integer
from tinygp.kernels import Kernel

from mpnp.errors import InputError
from mpnp.evaluation.metrics import score_task
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.tasks.base import AbstractTaskFamily, FunctionFamily, TaskSource
from mpnp.tasks.gaussian_process import GaussianProcessPrior
from mpnp.tasks.task import PointSet, Task

__all__ = [
    "draw_with_kernels",
    "exact_function_posterior",
    "exact_joint_log_prob",
    "exact_log_evidence",
    "exact_posterior",
    "gaussian_process",
    "has_oracle",
    "noisy_log_density",
    "noisy_predictive",
    "oracle_scores",
    "to_float64",
]

NoiseStd = float | Float[Array, ""] | Float[Array, " point"]
"""Noise standard deviation, shared or per observation."""


def has_oracle(family: AbstractTaskFamily) -> bool:
    """Whether the exact posterior is a Gaussian process. With Student-t noise it has no closed form."""
    return isinstance(family, FunctionFamily) and isinstance(family.process, GaussianProcessPrior)


def oracle_scores(
    source: TaskSource, indices: Integer[np.ndarray, " task"], *, sigma_min: float = 0.0, chunk: int = 1024
) -> dict[str, Float[np.ndarray, " task"]]:
    """Metrics of the exact posterior on these tasks, with standard deviations floored at `sigma_min`.

    The joint log-likelihood uses the full posterior covariance and has no floor.
    """
    chunks = [_score_chunk(source, indices[i : i + chunk], sigma_min) for i in range(0, len(indices), chunk)]
    return {name: np.concatenate([part[name] for part in chunks]) for name in chunks[0]}


def _score_chunk(
    source: TaskSource, indices: Integer[np.ndarray, " task"], sigma_min: float
) -> dict[str, Float[np.ndarray, " task"]]:
    # Tasks and kernels are drawn in float32, as for the models; only the linear algebra uses float64.
    drawn = jax.device_get(draw_with_kernels(source, jnp.asarray(indices)))
    _, prior = gaussian_process(source.family)
    with jax.enable_x64(True):
        tasks, kernels = jax.tree.map(to_float64, drawn)
        return jax.device_get(_score(tasks, kernels, prior.noise_std, jnp.asarray(sigma_min, jnp.float64)))


@eqx.filter_jit
def draw_with_kernels(source: TaskSource, indices: Integer[Array, " task"]) -> tuple[Task, Kernel]:
    """The tasks with these indices, and the kernels behind their functions."""
    family, prior = gaussian_process(source.family)

    def draw(index: Integer[Array, ""]) -> tuple[Task, Kernel]:
        key = source.task_key(index)
        return family.sample(key), prior.kernel(family.process_key(key))

    return jax.vmap(draw)(indices)


@eqx.filter_jit
def _score(tasks: Task, kernels: Kernel, noise_std: float, sigma_min: Float[Array, ""]) -> dict[str, Float[Array, " task"]]:
    def score(task: Task, kernel: Kernel) -> dict[str, Float[Array, ""]]:
        mean, covariance = exact_function_posterior(kernel, noise_std, task)
        posterior = noisy_predictive(mean, covariance, noise_std)
        floored = Predictive(posterior.loc, jnp.maximum(posterior.scale, sigma_min))
        joint = noisy_log_density(task.y[:, 0] - mean, covariance, task.target_mask, noise_std)
        return score_task(floored, task) | {"joint": joint / jnp.maximum(task.target_mask.sum(), 1)}

    return jax.vmap(score)(tasks, kernels)


def gaussian_process(family: AbstractTaskFamily) -> tuple[FunctionFamily, GaussianProcessPrior]:
    """The family and its prior. Raises an error if its functions are not a Gaussian process."""
    if isinstance(family, FunctionFamily) and isinstance(family.process, GaussianProcessPrior):
        return family, family.process
    raise InputError("only Gaussian process families have an exact posterior")


def exact_posterior(kernel: Kernel, noise_std: float, task: Task) -> Predictive:
    """Predictive distribution of a noisy observation at every input of the task, given its context."""
    return noisy_predictive(*exact_function_posterior(kernel, noise_std, task), noise_std)


def exact_joint_log_prob(kernel: Kernel, noise_std: float, task: Task) -> Float[Array, ""]:
    """Joint log density of all targets, given the context."""
    mean, covariance = exact_function_posterior(kernel, noise_std, task)
    return noisy_log_density(task.y[:, 0] - mean, covariance, task.target_mask, noise_std)


def exact_log_evidence(kernel: Kernel, noise_std: NoiseStd, points: PointSet) -> Float[Array, ""]:
    """Log marginal likelihood of the points under the kernel."""
    return noisy_log_density(points.y[:, 0], kernel(points.x, points.x), points.mask, noise_std)


def exact_function_posterior(
    kernel: Kernel, noise_std: NoiseStd, task: Task
) -> tuple[Float[Array, " point"], Float[Array, "point point"]]:
    """Posterior mean and covariance of the noise-free function at all slots, given the context.

    Use it once in a program, and factorise nothing else independently of it: two concurrent batches of factorisations or of
    triangular solves can deadlock jaxlib's threads on few cores.
    """
    prior = kernel(task.x, task.x)
    factor = jnp.linalg.cholesky(_identity_outside(prior, task.context_mask, noise_std))
    cross = jnp.where(task.context_mask[:, None], prior, 0)
    # Solve both at once, for the same reason.
    solved = jax.scipy.linalg.solve_triangular(factor, jnp.column_stack([cross, task.context.y[:, 0]]), lower=True)
    whitened, observed = solved[:, :-1], solved[:, -1]
    return whitened.T @ observed, prior - whitened.T @ whitened


def noisy_predictive(mean: Float[Array, " point"], covariance: Float[Array, "point point"], noise_std: float) -> Predictive:
    """Predictive distribution of noisy observations of a function with this mean and covariance."""
    variance = jnp.maximum(jnp.diagonal(covariance), 0) + noise_std**2
    return Predictive(mean[None, :, None], jnp.sqrt(variance)[None, :, None])


def noisy_log_density(
    residual: Float[Array, " point"], covariance: Float[Array, "point point"], mask: Bool[Array, " point"], noise_std: NoiseStd
) -> Float[Array, ""]:
    """Log density of the noisy observations in the mask."""
    factor = jnp.linalg.cholesky(_identity_outside(covariance, mask, noise_std))
    whitened = jax.scipy.linalg.solve_triangular(factor, jnp.where(mask, residual, 0), lower=True)
    log_density = -(whitened**2) / 2 - jnp.log(jnp.diagonal(factor)) - jnp.log(2 * jnp.pi) / 2
    return jnp.sum(log_density, where=mask)


def _identity_outside(
    covariance: Float[Array, "point point"], mask: Bool[Array, " point"], noise_std: NoiseStd
) -> Float[Array, "point point"]:
    """Covariance of the noisy observations in the mask. Slots outside it become independent and drop out."""
    both = mask[:, None] & mask[None, :]
    return jnp.where(both, covariance, 0) + jnp.diag(jnp.where(mask, noise_std**2, 1.0))


def to_float64(leaf: Float[np.ndarray, "..."] | Bool[np.ndarray, "..."]) -> Array:
    """Convert numbers to float64 and leave masks alone. Needs 64-bit mode."""
    return jnp.asarray(leaf, jnp.float64) if np.issubdtype(leaf.dtype, np.floating) else jnp.asarray(leaf)
