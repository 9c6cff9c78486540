"""Data augmentation by blends of two curves, which preserve mean and covariance.

A network soon memorises a few hundred curves. If a and b are the deviations of two independent curves from the mean, then
cos t a + sin t b has the same mean and covariance for any angle t. Training on many such blends teaches how the parts of a
curve depend on each other rather than which curves there were. Curves are blended only at inputs that both have, because
interpolation would smooth their noise.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from mpnp.tables.curves import Curves

__all__ = ["can_mix", "mean_curve", "mix_curves"]

MOST_ROWS = 1_000_000
"""Maximum number of rows of all blends together, which bounds memory."""

MOST_KNOTS = 64
"""Maximum number of knots of the mean curve."""

Line = tuple[Float[np.ndarray, "_"], Float[np.ndarray, "_ _"]]
"""Sorted inputs, and the outputs there."""


class Deviation(NamedTuple):
    """How a curve deviates from the mean, at sorted inputs; weights relative to their mean over all rows."""

    x: Float[np.ndarray, "_"]
    y: Float[np.ndarray, "_ _"]
    weights: Float[np.ndarray, "_"]
    noise: Float[np.ndarray, "_ _"]

    def select(self, rows: np.ndarray) -> "Deviation":
        """Some of the rows."""
        return Deviation(*(part[rows] for part in self))


def can_mix(curves: Curves) -> bool:
    """Whether the curves can be blended: there are at least two, and they have one input."""
    return curves.x.shape[1] == 1 and len(curves) > 1


def mix_curves(curves: Curves, count: int, *, seed: int) -> Curves:
    """The curves, followed by `count` blends of two of them, or fewer if these would have more than `MOST_ROWS` rows.

    A blend is observed where both of its curves are. If they share fewer than two rows, it is the first of the two curves.
    Weights multiply, as if both curves were drawn by their weights; variances of known noise are blended as those of curves.
    """
    rng = np.random.default_rng([seed, len(curves)])
    mean = mean_curve(curves)
    deviations = [_deviation(curves, number, mean) for number in range(len(curves))]
    blends = []
    for _ in range(min(count, int(MOST_ROWS / curves.counts.mean()))):
        first, second = rng.integers(len(curves), size=2)
        blends.append(_blend(deviations[first], deviations[second], rng.uniform(0, np.pi / 2)))
    names = (*curves.names, *(f"blend {number + 1}" for number in range(len(blends))))
    counts = [*curves.counts, *(len(blend.x) for blend in blends)]
    return Curves(
        names=names,
        groups=names,
        x=np.concatenate([curves.x, *(blend.x[:, None] for blend in blends)]),
        y=np.concatenate([curves.y, *(blend.y + _at(mean, blend.x) for blend in blends)]),
        counts=np.asarray(counts, curves.counts.dtype),
        columns=curves.columns,
        weights=None
        if curves.weights is None
        else np.concatenate([curves.weights / curves.weights.mean(), *(blend.weights for blend in blends)]),
        noise=None if curves.noise is None else np.concatenate([curves.noise, *(blend.noise for blend in blends)]),
    )


def mean_curve(curves: Curves) -> Line:
    """The mean of each output at each distinct input, or at `MOST_KNOTS` knots."""
    inputs = np.unique(curves.x[:, 0])
    if len(inputs) > MOST_KNOTS:
        inputs = np.unique(np.quantile(curves.x[:, 0], np.linspace(0, 1, MOST_KNOTS)))
    edges = (inputs[1:] + inputs[:-1]) / 2
    knot = np.searchsorted(edges, curves.x[:, 0])
    means = []
    for values in curves.y.T:
        seen = ~np.isnan(values)
        total, number = (np.bincount(knot[seen], weights, minlength=len(inputs)) for weights in (values[seen], None))
        known = number > 0
        means.append(np.interp(inputs, inputs[known], total[known] / number[known]) if known.any() else np.zeros(len(inputs)))
    return inputs, np.stack(means, axis=-1)


def _deviation(curves: Curves, number: int, mean: Line) -> Deviation:
    x, y = curves.pair(number)
    order = np.argsort(x[:, 0], kind="stable")
    rows = curves.starts[number] + order
    weights = np.ones(len(x)) if curves.weights is None else curves.weights[rows] / curves.weights.mean()
    noise = np.zeros_like(y) if curves.noise is None else curves.noise[rows]
    return Deviation(x[order, 0], y[order] - _at(mean, x[order, 0]), weights, noise)


def _blend(first: Deviation, second: Deviation, angle: float) -> Deviation:
    inputs, rows, others = np.intersect1d(first.x, second.x, return_indices=True)
    one, other = first.select(rows), second.select(others)
    values = np.cos(angle) * one.y + np.sin(angle) * other.y
    noise = np.hypot(np.cos(angle) * one.noise, np.sin(angle) * other.noise)
    known = ~np.isnan(values).all(axis=1)
    return first if known.sum() < 2 else Deviation(inputs, values, one.weights * other.weights, noise).select(known)


def _at(line: Line, inputs: Float[np.ndarray, "_"]) -> Float[np.ndarray, "_ _"]:
    """Linear interpolation between the knots of a line."""
    knots, values = line
    return np.stack([np.interp(inputs, knots, column) for column in values.T], axis=-1)
