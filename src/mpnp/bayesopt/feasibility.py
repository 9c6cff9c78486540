"""Where evaluations are likely to fail: a vote of the points nearby, weighted by a kernel."""

import numpy as np
from jaxtyping import Bool, Float

__all__ = ["admits"]

LENGTHS = (0.05, 0.1, 0.2, 0.4)
"""Lengths of the kernel to choose from, relative to the diagonal of the box."""

GOOD_FAITH = 0.5
"""Weight of the vote for success that every point has from the start."""

DOUBT = 0.1
"""Weight of the vote for failure that every point has from the start, once something has failed."""

Points = Float[np.ndarray, "point input"]


def admits(
    points: Points, succeeded: Float[np.ndarray, "success input"], failed: Float[np.ndarray, "failure input"]
) -> Bool[np.ndarray, " point"]:
    """Mask of the points where the vote is for success.

    >>> admits(np.array([[0.1], [0.55]]), np.array([[0.2]]), np.array([[0.6], [0.7]])).tolist()
    [True, False]
    """
    return success_probability(points, succeeded, failed) > 0.5


def success_probability(
    points: Points, succeeded: Float[np.ndarray, "success input"], failed: Float[np.ndarray, "failure input"]
) -> Float[np.ndarray, " point"]:
    """Probability that an evaluation succeeds: the share of votes for success.

    The kernel's length is the one with which the evaluations predict each other best, so failures that come in regions exclude
    regions, and failures at random exclude little.
    """
    if not len(failed):
        return np.ones(len(points))
    evaluated = np.concatenate([succeeded, failed])
    success = np.repeat([True, False], [len(succeeded), len(failed)])
    squares = _squares(evaluated, evaluated)
    length = max(LENGTHS, key=lambda length: _agreement(squares, success, length))
    return _share(_kernel(_squares(points, evaluated), length), success)


def _agreement(squares: Float[np.ndarray, "n n"], success: Bool[np.ndarray, " n"], length: float) -> float:
    """Mean log probability of each outcome given the others."""
    kernel = _kernel(squares, length)
    np.fill_diagonal(kernel, 0)
    share = _share(kernel, success)
    return float(np.log(np.where(success, share, 1 - share)).mean())


def _share(votes: Float[np.ndarray, "point voter"], success: Bool[np.ndarray, " voter"]) -> Float[np.ndarray, " point"]:
    for_success = GOOD_FAITH + votes @ success
    return for_success / (for_success + DOUBT + votes @ ~success)


def _squares(a: Points, b: Float[np.ndarray, "other input"]) -> Float[np.ndarray, "point other"]:
    return ((a[:, None] - b[None]) ** 2).mean(axis=-1)


def _kernel(squares: Float[np.ndarray, "point other"], length: float) -> Float[np.ndarray, "point other"]:
    return np.exp(-squares / (2 * length**2))
