"""What else learns from past studies: a Gaussian process, and the best past configurations as first trials."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optuna
from scipy.optimize import minimize

from mpnp.bayesopt.acquisition import LOG_EXPECTED_IMPROVEMENT
from mpnp.bayesopt.gaussian_process import JITTER
from mpnp.bayesopt.history import History
from mpnp.bayesopt.surrogates import AbstractSurrogate
from mpnp.integrations.optuna.beliefs import AbstractBelief, StudyUnits, suggest_in_units
from mpnp.integrations.optuna.space import Space
from mpnp.tables.curves import Curves

__all__ = ["ProcessOfStudies", "portfolio", "warm_start"]

DEGREE = 2
"""Of the polynomial mean."""


class ProcessOfStudies(AbstractBelief, AbstractSurrogate):
    """A Gaussian process whose mean and kernel maximise the joint likelihood of all past studies, in their units.

    Matérn-5/2 with one length scale per parameter and a quadratic mean. It suggests from the first trial on, and maximises the
    expected improvement in the same way as a model of past studies.
    """

    def __init__(self, curves: Curves) -> None:
        self.curves, self.units = curves, StudyUnits.of_curves(curves)
        x, z = self.past = self._past()
        start = np.concatenate([np.log([1.0, 0.3, 0.3, 0.1]), np.zeros(_features(x[:1]).shape[-1])])
        with jax.enable_x64(True):
            loss = jax.jit(jax.value_and_grad(lambda p: _negative_log_likelihood(p, x, z)))
            found = minimize(lambda p: [np.asarray(part, np.float64) for part in loss(p)], start, jac=True, method="L-BFGS-B")
        self.parameters, self.loss = found.x, float(found.fun)

    def require(self, space: Space) -> None:
        """Any."""

    def require_inputs(self, num_inputs: int) -> None:
        """Any."""

    def num_startup(self, space: Space) -> int:
        return 0

    def suggest(self, space: Space, history: History, seed: int) -> np.ndarray:
        return suggest_in_units(self.units, [self], LOG_EXPECTED_IMPROVEMENT, space, history, seed)

    def moments(self, x: Any, z: Any, candidates: Any, seeds: Any) -> tuple[np.ndarray, np.ndarray]:
        means, stds = [], []
        noise, amplitude = np.exp(2 * self.parameters[3]), np.exp(2 * self.parameters[0])
        for some, costs in zip(x, z, strict=True):
            factor = np.linalg.cholesky(_kernel(self.parameters, some, some) + (noise + JITTER) * np.eye(len(some)))
            across = np.linalg.solve(factor, _kernel(self.parameters, some, candidates))
            rest = np.linalg.solve(factor, costs - self._mean(some))
            means.append(self._mean(candidates) + across.T @ rest)
            stds.append(np.sqrt(np.maximum(amplitude - (across**2).sum(axis=0), JITTER * amplitude)))
        return np.stack(means), np.stack(stds)

    def draw(self, x: Any, z: Any, candidates: Any, seeds: Any) -> np.ndarray:
        """Not needed here."""
        raise NotImplementedError

    def log_density(self, x: Any, z: Any, point: Any, output: float) -> float:
        """Not needed here."""
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        return {
            "kernel": "Matérn-5/2",
            "degree_of_mean": DEGREE,
            "parameters": [float(f"{value:.4g}") for value in self.parameters],
            "negative_log_likelihood": self.loss,
        }

    def _past(self) -> tuple[np.ndarray, np.ndarray]:
        pairs = [self.curves.pair(number) for number in range(len(self.curves))]
        return np.stack([self.units.inputs(x) for x, _ in pairs]), np.stack([self.units.costs(y[:, 0]) for _, y in pairs])

    def _mean(self, x: np.ndarray) -> np.ndarray:
        return _features(x) @ self.parameters[4:]


def portfolio(process: ProcessOfStudies, count: int) -> np.ndarray:
    """Configurations that together do best on past studies, one row each, greedily chosen among the studies' best trials.

    What a configuration costs in a study where it was not tried is what the process expects given the study, and costs are
    standardised by study.
    """
    pairs = [process.curves.pair(number) for number in range(len(process.curves))]
    best = np.unique([x[np.argmin(y[:, 0])] for x, y in pairs], axis=0)
    x, z = process.past
    costs, _ = process.moments(x, z, process.units.inputs(best), None)
    costs = (costs - z.mean(axis=1, keepdims=True)) / z.std(axis=1, keepdims=True)
    chosen: list[int] = []
    reached = np.full(len(costs), np.inf)
    for _ in range(count):
        chosen.append(int(np.argmin(np.minimum(costs, reached[:, None]).mean(axis=0))))
        reached = np.minimum(reached, costs[:, chosen[-1]])
    return best[chosen]


def warm_start(study: optuna.Study, space: Space, places: np.ndarray) -> None:
    """Make these points the first trials of a study."""
    for params in space.values(places):
        study.enqueue_trial(params)


def _features(x: Any) -> Any:
    """All monomials of the two inputs up to a degree."""
    powers = [(i, j) for i in range(DEGREE + 1) for j in range(DEGREE + 1 - i)]
    return np.stack([x[..., 0] ** i * x[..., 1] ** j for i, j in powers], axis=-1)


def _kernel(parameters: Any, a: Any, b: Any, xp: Any = np) -> Any:
    """Of every pair, in numpy, or in JAX where it is differentiated."""
    scaled = (a[:, None] - b[None]) / xp.exp(parameters[1:3])
    distance = xp.sqrt(5 * (scaled**2).sum(axis=-1) + 1e-12)
    return xp.exp(2 * parameters[0]) * (1 + distance + distance**2 / 3) * xp.exp(-distance)


def _negative_log_likelihood(parameters: Any, x: np.ndarray, z: np.ndarray) -> Any:
    rest = z - _features(x) @ parameters[4:]
    noise = (jnp.exp(2 * parameters[3]) + 1e-6) * jnp.eye(x.shape[1])

    def one(x: Any, rest: Any) -> Any:
        factor = jnp.linalg.cholesky(_kernel(parameters, x, x, jnp) + noise)
        white = jax.scipy.linalg.solve_triangular(factor, rest, lower=True)
        return (white**2).sum() / 2 + jnp.log(jnp.diag(factor)).sum()

    return jax.vmap(one)(jnp.asarray(x), rest).mean()
