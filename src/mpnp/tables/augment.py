"""Data augmentation by blends of two curves, which preserve mean and covariance.

A network soon memorises a few hundred curves. If a and b are the deviations of two independent curves from the mean, then
cos t a + sin t b has the same mean and covariance for any angle t. Training on many such blends teaches how the parts of a
curve depend on each other rather than which curves there were. Curves are blended only at inputs that both have, because
interpolation would smooth their noise.
"""

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


def can_mix(curves: Curves) -> bool:
    """Whether the curves can be blended: there are at least two, and they have one input."""
    return curves.x.shape[1] == 1 and len(curves) > 1


def mix_curves(curves: Curves, count: int, *, seed: int) -> Curves:
    """The curves, followed by `count` blends of two of them, or fewer if these would have more than `MOST_ROWS` rows.

    A blend is observed where both of its curves are. If they share fewer than two rows, it is the first of the two curves.
    """
    rng = np.random.default_rng([seed, len(curves)])
    mean = mean_curve(curves)
    deviations = [_deviation(curves, number, mean) for number in range(len(curves))]
    x, y = [curves.x], [curves.y]
    counts = list(curves.counts)
    for _ in range(min(count, int(MOST_ROWS / curves.counts.mean()))):
        first, second = rng.integers(len(curves), size=2)
        inputs, values = _blend(deviations[first], deviations[second], rng.uniform(0, np.pi / 2))
        x.append(inputs[:, None])
        y.append(values + _at(mean, inputs))
        counts.append(len(inputs))
    names = (*curves.names, *(f"blend {number + 1}" for number in range(len(counts) - len(curves))))
    return Curves(
        names=names,
        groups=names,
        x=np.concatenate(x),
        y=np.concatenate(y),
        counts=np.asarray(counts, curves.counts.dtype),
        columns=curves.columns,
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


def _deviation(curves: Curves, number: int, mean: Line) -> Line:
    x, y = curves.pair(number)
    order = np.argsort(x[:, 0], kind="stable")
    return x[order, 0], y[order] - _at(mean, x[order, 0])


def _blend(first: Line, second: Line, angle: float) -> Line:
    _, rows, others = np.intersect1d(first[0], second[0], return_indices=True)
    values = np.cos(angle) * first[1][rows] + np.sin(angle) * second[1][others]
    known = ~np.isnan(values).all(axis=1)
    return first if known.sum() < 2 else (first[0][rows][known], values[known])


def _at(line: Line, inputs: Float[np.ndarray, "_"]) -> Float[np.ndarray, "_ _"]:
    """Linear interpolation between the knots of a line."""
    knots, values = line
    return np.stack([np.interp(inputs, knots, column) for column in values.T], axis=-1)
