"""Where evaluations are likely to fail: a vote of the points nearby, weighted by a kernel."""

import numpy as np
from jaxtyping import Bool, Float

__all__ = ["admits"]

LENGTHS = (0.05, 0.1, 0.2, 0.4)
"""Lengths of the kernel to choose from, relative to the diagonal of the box."""

GOOD_FAITH = 0.5
"""Weight of the vote for success that every point has from the start."""

Points = Float[np.ndarray, "point input"]


def admits(
    points: Points, succeeded: Float[np.ndarray, "success input"], failed: Float[np.ndarray, "failure input"]
) -> Bool[np.ndarray, " point"]:
    """Mask of the points where the vote is for success.

    The kernel's length is the one with which the evaluations predict each other best, so failures that come in regions exclude
    regions, and failures at random exclude little.

    >>> admits(np.array([[0.1], [0.55]]), np.array([[0.2]]), np.array([[0.6], [0.7]])).tolist()
    [True, False]
    """
    if not len(failed):
        return np.ones(len(points), bool)
    evaluated = np.concatenate([succeeded, failed])
    outcomes = np.repeat([1.0, -1.0], [len(succeeded), len(failed)])
    squares = _squares(evaluated, evaluated)
    length = max(LENGTHS, key=lambda length: _agreement(squares, outcomes, length))
    return GOOD_FAITH + _kernel(_squares(points, evaluated), length) @ outcomes > 0


def _agreement(squares: Float[np.ndarray, "n n"], outcomes: Float[np.ndarray, " n"], length: float) -> float:
    """Mean log probability of each outcome given the others."""
    kernel = _kernel(squares, length)
    np.fill_diagonal(kernel, 0)
    successes, failures = (GOOD_FAITH + kernel @ (outcomes == outcome) for outcome in (1, -1))
    chance = np.where(outcomes > 0, successes, failures) / (successes + failures)
    return float(np.log(chance).mean())


def _squares(a: Points, b: Float[np.ndarray, "other input"]) -> Float[np.ndarray, "point other"]:
    return ((a[:, None] - b[None]) ** 2).mean(axis=-1)


def _kernel(squares: Float[np.ndarray, "point other"], length: float) -> Float[np.ndarray, "point other"]:
    return np.exp(-squares / (2 * length**2))
