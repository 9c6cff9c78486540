"""Search with a Gaussian process that is fitted anew to each set of evaluations."""

from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.bayesopt.acquisition import (
    EXPECTED_IMPROVEMENT,
    LOG_EXPECTED_IMPROVEMENT,
    find_acquisition,
    log_improvement_slopes,
    stable,
)
from mpnp.bayesopt.climbing import climb, worth
from mpnp.bayesopt.history import History, Snap
from mpnp.bayesopt.process import FittedProcess, fit_process
from mpnp.bayesopt.space import OutputScale, candidate_points
from mpnp.bayesopt.strategies import AbstractStrategy
from mpnp.bayesopt.surrogates import Candidates, Inputs, Outputs, Scores, Seeds

__all__ = ["ProcessSearch", "process_of"]

NUM_POLISHED = 3
"""Candidates from which gradients lead to the maximum of the expected improvement."""

NUM_ITERATIONS = 30
"""Iterations of L-BFGS at most."""

NOISELESS = 1e-3
"""Below this standard deviation of the noise, relative to the outputs', an objective counts as noise-free."""

OPTIMISM = 3.0
"""Standard deviations below the mean where a search that has found a minimum to its precision looks for another."""

Points = Float[np.ndarray, "point input"]


class ProcessSearch(AbstractStrategy):
    """Maximises an acquisition function of a fitted Gaussian process over the whole box.

    Expected improvement is over the lowest posterior mean of the points so far, so a lucky outlier does not mislead it, and is
    maximised on its logarithm. Pending points are believed to have their posterior mean.
    """

    def __init__(self, acquisition: str = EXPECTED_IMPROVEMENT) -> None:
        self.acquisition = stable(acquisition)

    def suggest(self, history: History, snap: Snap, seed: int) -> Float[np.ndarray, " input"]:
        process = process_of(history).believing(history.pending)
        candidates = snap(candidate_points(history.x.shape[1], history.best, [seed]))
        if self.acquisition == LOG_EXPECTED_IMPROVEMENT:
            return self._improve(process, history, candidates, snap, seed)

        def score(points: Points) -> Float[np.ndarray, " point"]:
            return self._score(process, points, seed)

        scores = worth(score(candidates), history.allowed(candidates, history.admissible(candidates)))
        # A sampled function of the process can be evaluated anywhere, so the way up to its minimum is open, too.
        return climb(score, candidates, scores, history.admissible, snap, np.random.default_rng([seed, 2]))

    def _improve(
        self, process: FittedProcess, history: History, candidates: Points, snap: Snap, seed: int
    ) -> Float[np.ndarray, " input"]:
        """Maximise the expected improvement where an evaluation may fail: its product with the probability of success."""

        def score(points: Points) -> Float[np.ndarray, " point"]:
            return self._score(process, points, seed) + history.log_success_probability(points)

        scores = worth(score(candidates), history.allowed(candidates, history.admissible(candidates)))
        polished = snap(np.stack([_polish(process, start) for start in candidates[np.argsort(-scores)[:NUM_POLISHED]]]))
        candidates = np.concatenate([candidates, polished])
        scores = np.concatenate([scores, worth(score(polished), history.admissible(polished))])
        if _is_settled(process, scores.max()):
            mean, std = process.at(candidates)
            elsewhere = history.allowed(candidates, history.uncrowded(candidates))
            return candidates[np.argmax(worth(OPTIMISM * std - mean, elsewhere))]
        return candidates[np.argmax(scores)]

    def best(self, history: History) -> int:
        """The point with the lowest posterior mean, or without noise that with the lowest output."""
        process = process_of(history)
        return int(np.argmin(history.y if process.kernel.noise < NOISELESS else process.fitted_means))

    @property
    def explanation(self) -> str:
        return "the Gaussian process that was chosen"

    def scores(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> Scores:
        pairs = zip(x, z, seeds, strict=True)
        return np.stack([self._score(fit_process(points, y), candidates, int(seed)) for points, y, seed in pairs])

    def expected(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> Scores:
        processes = [fit_process(points, y) for points, y in zip(x, z, strict=True)]
        return np.stack([process.warp.undo(process.at(candidates)[0]) for process in processes])

    def require_inputs(self, num_inputs: int) -> None:
        """Searches any box."""

    def describe(self) -> dict[str, Any]:
        return {"model": "gp", "kernel": "matern-5/2"}

    def _score(self, process: FittedProcess, points: Points, seed: int) -> Float[np.ndarray, " point"]:
        acquisition, seeds = find_acquisition(self.acquisition), np.asarray([seed], np.uint32)
        return acquisition.scores(process, process.x[None], process.fitted_means[None], points, seeds)[0]


def process_of(history: History) -> FittedProcess:
    """The process fitted to the evaluations of a search."""
    return fit_process(history.x, OutputScale.of(history.y[None]).apply(history.y[None])[0])


def _polish(process: FittedProcess, start: Float[np.ndarray, " input"]) -> Float[np.ndarray, " input"]:
    """The local maximum of the expected improvement above a point, by its gradient."""
    from scipy.optimize import minimize  # here, because it takes long to import

    best = process.fitted_means.min()

    def loss(point: Float[np.ndarray, " input"]) -> tuple[float, Float[np.ndarray, " input"]]:
        mean, std = (float(part[0]) for part in process.at(point[None]))
        mean_slope, variance_slope = process.slopes(point)
        value, by_mean, by_std = log_improvement_slopes(mean, std, best)
        return -value, -(by_mean * mean_slope + by_std * variance_slope / (2 * std))

    found = minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=[(0, 1)] * len(start), options={"maxiter": NUM_ITERATIONS}
    )
    return np.clip(found.x, 0, 1)


def _is_settled(process: FittedProcess, log_improvement: float) -> bool:
    """Whether a noise-free search expects to improve by less than it can tell."""
    noise = process.kernel.noise
    return bool(noise < NOISELESS and log_improvement < np.log(noise))
