"""What a search knows when it chooses its next point, and which points are out of the question."""

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float

from mpnp.bayesopt.feasibility import admits, log_success_probability
from mpnp.bayesopt.space import same_point

__all__ = ["History", "Snap", "anywhere"]

CROWD, NEAR = 3, 1e-3
"""Where this many evaluated points lie within this distance in the unit box, another one teaches nothing."""

APART = 0.01
"""Distance in the unit box from points that are still being evaluated."""

Points = Float[np.ndarray, "point input"]

Snap = Callable[[Points], Points]
"""Moves points of the unit box to the nearest ones that may be evaluated."""


def anywhere(points: Points) -> Points:
    """For a box without steps or categories: every point may be evaluated."""
    return points


@dataclasses.dataclass(frozen=True)
class History:
    """Points of the unit box, with the outputs of those that were evaluated successfully."""

    x: Points
    y: Float[np.ndarray, " point"]
    pending: Float[np.ndarray, "pending input"]
    failed: Float[np.ndarray, "failure input"]

    @property
    def known(self) -> Points:
        """Points not to be suggested again."""
        return np.concatenate([self.x, self.pending, self.failed])

    @property
    def best(self) -> Float[np.ndarray, " input"]:
        """The point with the lowest output."""
        return self.x[int(np.argmin(self.y))]

    def before(self, count: int) -> "History":
        """The first successful evaluations alone."""
        return History(self.x[:count], self.y[:count], self.pending[:0], self.failed[:0])

    def unknown(self, points: Points) -> Bool[np.ndarray, " point"]:
        """Mask of points that are neither evaluated nor pending."""
        return np.logical_not(same_point(points[:, None], self.known).any(axis=-1))

    def admissible(self, points: Points) -> Bool[np.ndarray, " point"]:
        """Mask of unknown points that are neither next to a pending one nor surrounded by failures."""
        beside = (np.abs(points[:, None] - self.pending) <= APART).all(axis=-1).any(axis=-1)
        return self.unknown(points) & ~beside & admits(points, self.x, self.failed)

    def log_success_probability(self, points: Points) -> Float[np.ndarray, " point"]:
        """Logarithm of the probability that evaluations there succeed."""
        return log_success_probability(points, self.x, self.failed)

    def uncrowded(self, points: Points) -> Bool[np.ndarray, " point"]:
        """Mask of admissible points with few evaluations around."""
        around = (np.abs(points[:, None] - self.known) < NEAR).all(axis=-1).sum(axis=1)
        return self.admissible(points) & (around < CROWD)

    def allowed(self, points: Points, mask: Bool[np.ndarray, " point"]) -> Bool[np.ndarray, " point"]:
        """The mask, or if it admits no point that of unknown points, or if there are none either all."""
        masks = mask, self.unknown(points), np.ones(len(points), bool)
        return next(one for one in masks if one.any())
