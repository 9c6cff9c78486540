"""The mean curve: the forecast of a rival that knows the training curves but no context."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.rivals.base import AbstractRival, Arrays, Places, Points, as_row

__all__ = ["MeanCurve", "pool"]

MOST_KNOTS = 48
"""Maximum number of knots of the mean curve of one input."""

POINTS_PER_KNOT = 10
"""A knot averages at least so many points, as far as there are as many."""

LEAST_STD = 1e-3
"""Lower bound of standard deviations, in units of the training standard deviation."""

MOST_FEATURES = 8
"""With more features than these, the mean surface is linear."""

RIDGE = 1e-2
"""Penalty on the coefficients of the mean surface, in observations."""


@dataclasses.dataclass(frozen=True)
class MeanCurve(AbstractRival):
    """Mean and spread of each output by its input: lines between knots for one feature, a quadratic surface for more."""

    knots: Float[np.ndarray, "output knot"]
    means: Float[np.ndarray, "output knot"]
    """At the knots; for more than one feature, the coefficients of the surface."""
    stds: Float[np.ndarray, "output knot"]

    kind = "mean"
    title = "mean curve of the training tasks"
    reads_context = False

    @classmethod
    def learn(cls, curves: Sequence[Points], *, context: str, seed: int) -> "MeanCurve":
        points = pool(curves)
        of_outputs = [points.select(points.output == number) for number in range(int(points.output.max()) + 1)]
        learn = _learn_line if points.x.shape[1] == 1 else _learn_surface
        parts = [learn(some) for some in of_outputs]
        longest = max(len(part[0]) for part in parts)
        return cls(*(np.stack([_extend(part[i], longest) for part in parts]) for i in range(3)))

    def predict(self, context: Points, places: Places) -> Predictive:
        return as_row(*self.moments(places))

    def moments(self, places: Places) -> tuple[Float[np.ndarray, " point"], Float[np.ndarray, " point"]]:
        """Mean and standard deviation at each place."""
        mean, std = np.zeros(len(places.x)), np.ones(len(places.x))
        for number in np.unique(places.output):
            rows = places.output == number
            mean[rows], std[rows] = self._of_output(int(number), places.x[rows])
        return mean, std

    def to_arrays(self) -> Arrays:
        return {"knots": self.knots, "means": self.means, "stds": self.stds}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "MeanCurve":
        return cls(arrays["knots"], arrays["means"], arrays["stds"])

    def _of_output(
        self, number: int, x: Float[np.ndarray, "point feature"]
    ) -> tuple[Float[np.ndarray, " point"], Float[np.ndarray, " point"]]:
        if x.shape[1] == 1:
            line = [np.interp(x[:, 0], self.knots[number], values[number]) for values in (self.means, self.stds)]
            return line[0], line[1]
        terms = _surface_terms(x)
        return terms @ self.means[number, : terms.shape[1]], np.full(len(x), self.stds[number, 0])


def pool(curves: Sequence[Points]) -> Points:
    """The points of all curves together."""
    return Points(*(np.concatenate(parts) for parts in zip(*curves, strict=True)))


def _learn_line(points: Points) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Knots, and mean and standard deviation there."""
    x, y = points.x[:, 0], points.y
    knots = np.unique(x)
    most = min(MOST_KNOTS, max(1, len(y) // POINTS_PER_KNOT))
    if len(knots) > most:
        knots = np.unique(np.quantile(x, (np.arange(most) + 0.5) / most))
    nearest = np.searchsorted((knots[1:] + knots[:-1]) / 2, x)
    count = np.maximum(np.bincount(nearest, minlength=len(knots)), 1)
    means = np.bincount(nearest, y, minlength=len(knots)) / count
    squares = np.bincount(nearest, (y - np.interp(x, knots, means)) ** 2, minlength=len(knots))
    pooled = squares.sum() / len(y)
    variances = (squares + pooled) / (count + 1)  # one observation of the pooled spread, for knots with hardly any points
    return knots, means, np.maximum(np.sqrt(variances), LEAST_STD)


def _learn_surface(points: Points) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coefficients of the mean surface, and one standard deviation."""
    terms = _surface_terms(points.x)
    weights = np.linalg.solve(terms.T @ terms + RIDGE * np.eye(terms.shape[1]), terms.T @ points.y)
    std = max(float(np.sqrt(np.mean((points.y - terms @ weights) ** 2))), LEAST_STD)
    return np.zeros(len(weights)), weights, np.full(len(weights), std)


def _surface_terms(x: Float[np.ndarray, "point feature"]) -> Float[np.ndarray, "point term"]:
    one = np.ones((len(x), 1))
    if x.shape[1] > MOST_FEATURES:
        return np.hstack([one, x])
    products = [x[:, i] * x[:, j] for i in range(x.shape[1]) for j in range(i + 1)]
    return np.hstack([one, x, np.stack(products, axis=1)])


def _extend(values: Float[np.ndarray, " knot"], length: int) -> Float[np.ndarray, " longer"]:
    """Repeat the last value, which changes no interpolation."""
    return np.concatenate([values, np.full(length - len(values), values[-1])])
