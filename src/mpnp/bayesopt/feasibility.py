"""Where evaluations are likely to fail: a Gaussian process of the outcomes so far."""

import functools

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import log_ndtr

from mpnp.bayesopt.matern import fit_matern
from mpnp.bayesopt.process import FittedProcess
from mpnp.bayesopt.warping import Linear

__all__ = ["admits", "log_success_probability"]

GOOD_FAITH = 0.5
"""Expected outcome where nothing is known, between -1 for failure and 1 for success."""

Points = Float[np.ndarray, "point input"]
Successes = Float[np.ndarray, "success input"]
Failures = Float[np.ndarray, "failure input"]


def admits(points: Points, succeeded: Successes, failed: Failures) -> Bool[np.ndarray, " point"]:
    """Mask of the points where success is more probable than failure.

    >>> admits(np.array([[0.1], [0.55]]), np.array([[0.2]]), np.array([[0.6], [0.7]])).tolist()
    [True, False]
    """
    return log_success_probability(points, succeeded, failed) > np.log(0.5)


def log_success_probability(points: Points, succeeded: Successes, failed: Failures) -> Float[np.ndarray, " point"]:
    """Logarithm of the probability that an evaluation succeeds: that a Gaussian process of the outcomes is positive.

    Its lengths and noise are fitted, so failures that come in regions exclude regions, as far as each input matters, and
    failures at random exclude little.
    """
    if not len(failed):
        return np.zeros(len(points))
    mean, std = _process(points.shape[1], succeeded.tobytes(), failed.tobytes()).at(points)
    return log_ndtr((mean + GOOD_FAITH) / std)


@functools.lru_cache(maxsize=16)
def _process(num_inputs: int, succeeded: bytes, failed: bytes) -> FittedProcess:
    """Fits are kept: each suggestion asks several times."""
    parts = [np.frombuffer(part).reshape(-1, num_inputs) for part in (succeeded, failed)]
    outcomes = np.repeat([1.0, -1.0], [len(part) for part in parts]) - GOOD_FAITH
    evaluated = np.concatenate(parts)
    return FittedProcess(evaluated, outcomes, fit_matern(evaluated, outcomes).kernel, Linear(0.0, 1.0))
