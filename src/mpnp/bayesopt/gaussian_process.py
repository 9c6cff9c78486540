"""The paper's baseline: a Gaussian process whose kernel was fitted in advance to the models' training tasks."""

import dataclasses
import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from mpnp.bayesopt.surrogates import (
    AbstractSurrogate,
    Candidates,
    Inputs,
    Outputs,
    Point,
    Points,
    Scores,
    Seeds,
    Values,
    normal_log_density,
)
from mpnp.errors import InputError
from mpnp.options import require_count, require_seed
from mpnp.tasks.base import FunctionFamily, TaskSource
from mpnp.tasks.registry import TASKS
from mpnp.tasks.task import Task

__all__ = ["GaussianProcess", "Kernel", "learn_kernel", "pretrained_process"]

NUM_TASKS = 256
"""Tasks to fit the kernel to: more change its parameters by a few percent at most."""

JITTER = 1e-8
"""Jitter relative to the prior variance; keeps covariances positive definite despite rounding."""

Some = Float[np.ndarray, "*#batch some input"]
Others = Float[np.ndarray, "*#batch other input"]
Pairs = Float[np.ndarray, "*batch some other"]


@dataclasses.dataclass(frozen=True)
class Kernel:
    """RBF kernel $s^2 \\exp(-\\|x - x'\\|^2 / 2\\ell^2)$ and the noise's standard deviation, for inputs in the unit box."""

    amplitude: float
    length: float
    noise: float

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            if not (np.isfinite(value) and value > 0):
                raise InputError(f"the kernel's {name} must be a positive number, got {value}")

    def __call__(self, a: Some, b: Others) -> Pairs:
        return self.amplitude**2 * np.exp(-_squared_distance(a, b) / (2 * self.length**2))


class GaussianProcess(AbstractSurrogate):
    """A Gaussian process with a fixed kernel. Moments and samples are of the noise-free function.

    >>> process = GaussianProcess(Kernel(amplitude=1.0, length=0.2, noise=0.01))
    >>> mean, std = process.moments(np.zeros((1, 1, 1)), np.ones((1, 1)), np.array([[0.0], [1.0]]), np.zeros(1, int))
    >>> [round(float(value), 2) for value in std[0]]
    [0.01, 1.0]
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def moments(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> tuple[Scores, Scores]:
        mean, whitened = self._condition(x, z, candidates)
        variance = self.kernel.amplitude**2 - (whitened**2).sum(axis=1)
        return mean, np.sqrt(np.maximum(variance, JITTER * self.kernel.amplitude**2))

    def draw(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> Scores:
        means, whitened = self._condition(x, z, candidates)
        prior = self.kernel(candidates, candidates) + JITTER * self.kernel.amplitude**2 * np.eye(len(candidates))
        draws = []
        for mean, part, seed in zip(means, whitened, seeds, strict=True):  # one by one: each needs its own covariance matrix
            factor = np.linalg.cholesky(prior - part.T @ part)
            draws.append(mean + factor @ np.random.default_rng(seed).standard_normal(len(candidates)))
        return np.stack(draws)

    def log_density(self, x: Points, z: Values, point: Point, output: float) -> float:
        mean, std = self.moments(x[None], z[None], point[None], np.zeros(1, np.uint32))
        return normal_log_density(output, float(mean[0, 0]), float(np.hypot(std[0, 0], self.kernel.noise)))

    def require_inputs(self, num_inputs: int) -> None:
        """Searches any box."""

    def describe(self) -> dict[str, Any]:
        return {"model": "gp", **dataclasses.asdict(self.kernel)}

    def _condition(
        self, x: Inputs, z: Outputs, candidates: Candidates
    ) -> tuple[Scores, Float[np.ndarray, "loop point candidate"]]:
        """Posterior means, and a factor W such that observing the points reduces the prior covariance by $W^T W$."""
        factor = np.linalg.cholesky(self.kernel(x, x) + self.kernel.noise**2 * np.eye(x.shape[1]))
        whitened = np.linalg.solve(factor, self.kernel(x, candidates))
        observed = np.linalg.solve(factor, z[..., None])
        return (whitened * observed).sum(axis=1), whitened


@functools.cache
def pretrained_process() -> GaussianProcess:
    """A Gaussian process fitted to the `rbf` tasks, which the paper's models are trained on."""
    family = TASKS["rbf"].family
    assert isinstance(family, FunctionFamily)
    return GaussianProcess(learn_kernel(family))


def learn_kernel(family: FunctionFamily, *, num_tasks: int = NUM_TASKS, seed: int = 0) -> Kernel:
    """The maximum-likelihood kernel of many tasks, each an independent function.

    The length scale is relative to the width of the box. Parameters are rounded to four digits, so that machines agree.
    """
    from scipy.optimize import minimize  # here, because it takes long to import

    require_count("num_tasks", num_tasks)
    require_seed(seed)
    source = TaskSource(family, jax.random.key(seed))
    tasks: Task = jax.device_get(eqx.filter_jit(TaskSource.batch)(source, jnp.arange(num_tasks, dtype=jnp.uint32)))
    width = family.high - family.low
    x, y = np.asarray(tasks.x, np.float64) / width, np.asarray(tasks.y[..., 0], np.float64)
    found = minimize(
        _negative_log_likelihood,
        np.log([0.5, 0.1, 0.05]),
        args=(_squared_distance(x, x), y, np.asarray(tasks.context_mask | tasks.target_mask)),
        jac=True,
        method="L-BFGS-B",
        bounds=[(np.log(1e-3), np.log(1e3))] * 3,
    )
    amplitude, length, noise = (float(f"{value:.4g}") for value in np.exp(found.x))
    return Kernel(amplitude, length, noise)


def _negative_log_likelihood(
    log_parameters: Float[np.ndarray, " 3"],
    squared_distance: Float[np.ndarray, "task point point"],
    y: Float[np.ndarray, "task point"],
    mask: Bool[np.ndarray, "task point"],
) -> tuple[float, Float[np.ndarray, " 3"]]:
    """Mean over the points of all tasks, and its gradient. Slots outside the mask are independent and contribute nothing."""
    amplitude, length, noise = np.exp(log_parameters)
    both, own = mask[:, :, None] & mask[:, None, :], np.eye(y.shape[1])
    scaled = squared_distance / length**2
    kernel = np.where(both, amplitude**2 * np.exp(-scaled / 2), 0)
    covariance = kernel + own * np.where(mask, noise**2, 1.0)[:, None, :]
    inverse = np.linalg.inv(covariance)
    y = np.where(mask, y, 0)
    weights = (inverse @ y[..., None])[..., 0]
    count = mask.sum()
    value = ((y * weights).sum() + np.linalg.slogdet(covariance)[1].sum() + count * np.log(2 * np.pi)) / 2
    slope = (inverse - weights[:, :, None] * weights[:, None, :]) / 2
    derivatives = (2 * kernel, kernel * scaled, 2 * noise**2 * own * mask[:, None, :])
    return float(value / count), np.array([(slope * part).sum() for part in derivatives]) / count


def _squared_distance(a: Some, b: Others) -> Pairs:
    return ((a[..., :, None, :] - b[..., None, :, :]) ** 2).sum(axis=-1)
