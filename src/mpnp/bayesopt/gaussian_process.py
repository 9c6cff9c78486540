"""The paper's reference: a Gaussian process whose few parameters were learnt beforehand, from the models' training tasks."""

import dataclasses
import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from mpnp.bayesopt.surrogates import AbstractSurrogate, Candidates, Inputs, Outputs, Scores, Seeds
from mpnp.errors import InputError
from mpnp.options import require_seed
from mpnp.tasks.catalogue import TASKS
from mpnp.tasks.families import FunctionFamily
from mpnp.tasks.sources import TaskSource
from mpnp.tasks.task import Task

__all__ = ["GaussianProcess", "Kernel", "learn_kernel", "pretrained_process"]

NUM_TASKS = 256
"""Tasks that the kernel is learnt from: more change its parameters by less than a few percent."""

JITTER = 1e-8
"""Added to the variance of drawn functions, as a share of the prior's, so that rounding leaves a covariance positive."""

Some = Float[np.ndarray, "*#batch some input"]
Others = Float[np.ndarray, "*#batch other input"]
Pairs = Float[np.ndarray, "*batch some other"]


@dataclasses.dataclass(frozen=True)
class Kernel:
    """$s^2 \\exp(-\\|x - x'\\|^2 / 2\\ell^2)$ and the standard deviation of the noise, for inputs in the unit box."""

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
    """A Gaussian process with a fixed kernel. Its moments and draws are of the function itself, without noise."""

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
        for mean, part, seed in zip(means, whitened, seeds, strict=True):  # one by one: each needs a matrix of its own
            factor = np.linalg.cholesky(prior - part.T @ part)
            draws.append(mean + factor @ np.random.default_rng(seed).standard_normal(len(candidates)))
        return np.stack(draws)

    def require_inputs(self, num_inputs: int) -> None:
        """Any box will do."""

    def describe(self) -> dict[str, Any]:
        return {"model": "gp", **dataclasses.asdict(self.kernel)}

    def _condition(
        self, x: Inputs, z: Outputs, candidates: Candidates
    ) -> tuple[Scores, Float[np.ndarray, "loop point candidate"]]:
        """Means, and what the points take off the prior covariance: the product of the second with itself."""
        factor = np.linalg.cholesky(self.kernel(x, x) + self.kernel.noise**2 * np.eye(x.shape[1]))
        whitened = np.linalg.solve(factor, self.kernel(x, candidates))
        observed = np.linalg.solve(factor, z[..., None])
        return (whitened * observed).sum(axis=1), whitened


@functools.cache
def pretrained_process() -> GaussianProcess:
    """The process that has learnt from the `rbf` tasks that the models of the paper learn from."""
    family = TASKS["rbf"].family
    assert isinstance(family, FunctionFamily)
    return GaussianProcess(learn_kernel(family))


def learn_kernel(family: FunctionFamily, *, num_tasks: int = NUM_TASKS, seed: int = 0) -> Kernel:
    """The one kernel under which the points of many tasks, each a function of its own, are most likely together.

    Its length is given as a share of the family's box. Rounded to four digits, so that machines agree.
    """
    from scipy.optimize import minimize  # here, because it takes long to import

    if num_tasks < 1:
        raise InputError(f"num_tasks must be at least 1, got {num_tasks}")
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
    """Mean over all points of all tasks, and its gradient. Slots outside the mask are independent of all else."""
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
