"""Points for rivals, from curves in the user's units or from a network's encoded points."""

import numpy as np
from jaxtyping import Float

from mpnp.rivals.base import Places, Points
from mpnp.tables.columns import Schema
from mpnp.tables.curves import Curves
from mpnp.tasks.task import PointSet

__all__ = ["learning_points", "read_places", "read_points"]


def learning_points(columns: Schema, curves: Curves) -> list[Points]:
    """The observed outputs of each curve, in the network's units."""
    x, y = columns.encode_inputs(curves.x), columns.encode_outputs(curves.y)
    points = []
    for start, count in zip(curves.starts, curves.counts, strict=True):
        rows = slice(start, start + count)
        row, output = np.nonzero(~np.isnan(y[rows]))
        points.append(Points(x[rows][row], output, y[rows][row, output]))
    return points


def read_places(columns: Schema, x_target: Float[np.ndarray, "point x_dim"]) -> Places:
    """The network's target inputs, with the output that each is tagged with."""
    x = np.asarray(x_target, np.float64)
    if not columns.separates_outputs:
        return Places(x, np.zeros(len(x), int))
    width = x.shape[1] - len(columns.outputs)
    return Places(x[:, :width], np.argmax(x[:, width:], axis=1))


def read_points(columns: Schema, context: PointSet) -> Points:
    """The points of a context; padding is left out."""
    seen = np.asarray(context.mask)
    places = read_places(columns, np.asarray(context.x)[seen])
    return Points(places.x, places.output, np.asarray(context.y, np.float64)[seen, 0])
