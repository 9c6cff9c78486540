"""Where a loop may look next: points of the unit box, among which the acquisition chooses."""

import math

import numpy as np
from jaxtyping import Float

__all__ = ["GRID", "candidate_points", "grid", "sobol_points"]

GRID = 1_000
"""Candidates of one input: a regular grid, the paper's."""

SPREAD, NEARBY = 2_048, 256
"""Candidates of more inputs: so many all over the box, and so many around the best point."""

STEPS = (1e-3, 0.2)
"""Smallest and largest standard deviation of the steps from the best point, as shares of the box."""


def grid() -> Float[np.ndarray, "candidate 1"]:
    """A regular grid of the unit interval, both ends included."""
    return np.linspace(0, 1, GRID)[:, None]


def sobol_points(num_inputs: int, count: int, seed: list[int]) -> Float[np.ndarray, "point input"]:
    """The first points of a scrambled Sobol sequence; fewer are the beginning of more."""
    from scipy.stats import qmc  # here, because it takes half a second to import

    # Newer versions of scipy call it rng, but all that we support understand seed.
    sequence = qmc.Sobol(num_inputs, seed=np.random.default_rng(seed))  # pyright: ignore[reportCallIssue]
    return sequence.random_base2(max(0, math.ceil(math.log2(count))))[:count]


def candidate_points(
    num_inputs: int, best: Float[np.ndarray, " input"], seed: list[int]
) -> Float[np.ndarray, "candidate input"]:
    """Candidates for one question: a grid in one dimension, else points all over the box and points around the best."""
    if num_inputs == 1:
        return grid()
    rng = np.random.default_rng([*seed, 1])
    steps = np.exp(rng.uniform(*np.log(STEPS), size=(NEARBY, 1)))  # some to find another valley, some to reach its floor
    nearby = np.clip(best + steps * rng.standard_normal((NEARBY, num_inputs)), 0, 1)
    return np.concatenate([sobol_points(num_inputs, SPREAD, seed), nearby])
