"""Tasks: sets of points of one function, some observed (context), some to be predicted (target).

Arrays have fixed numbers of slots, so that tasks of many sizes share one compiled program; boolean masks say which slots
hold a point. Both classes zero every slot outside their masks on construction, so what was in a padded slot, even a NaN,
cannot reach a number or a gradient.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

from mpnp.errors import InputError

__all__ = ["PointSet", "Task", "concatenate", "masked_mean"]


class PointSet(eqx.Module):
    """Observed points $Z_c = \\{(x_i, y_i)\\}$: what a model conditions on.

    Leading axes, if any, are sets of their own (one bootstrap sample each, say); the fields broadcast along them. A point
    may have been observed more than once, or have been left out of a bootstrap sample: `counts` says how often it counts.

    >>> PointSet.observed(x=[0.0, 1.0], y=[0.5, -0.5]).x.shape
    (2, 1)
    """

    x: Float[Array, "*#batch point x_dim"]
    y: Float[Array, "*#batch point y_dim"]
    mask: Bool[Array, "*#batch point"]
    counts: Float[Array, "*#batch point"]

    def __init__(
        self,
        x: Float[Array, "*#batch point x_dim"],
        y: Float[Array, "*#batch point y_dim"],
        mask: Bool[Array, "*#batch point"],
        counts: Shaped[Array, "*#batch point"] | None = None,
    ) -> None:
        self.x = jnp.where(mask[..., None], x, 0)
        self.y = jnp.where(mask[..., None], y, 0)
        self.mask = mask
        self.counts = (mask if counts is None else jnp.where(mask, counts, 0)).astype(self.x.dtype)

    @staticmethod
    def observed(x: object, y: object) -> "PointSet":
        """Check a user's arrays or lists and make a context of all their points; both may be empty."""
        inputs, outputs = _matrix("x", x), _matrix("y", y)
        if len(inputs) != len(outputs):
            raise InputError(
                f"x and y must have one row a point: x has {len(inputs)} rows, y has {len(outputs)}; "
                "drop or fill the points that lack a partner"
            )
        return PointSet(jnp.asarray(inputs), jnp.asarray(outputs), jnp.ones(len(inputs), bool))

    def union(self, other: "PointSet") -> "PointSet":
        """All points of both sets, side by side along the point axis."""
        mask, counts = (
            concatenate([a[..., None], b[..., None]])[..., 0] for a, b in ((self.mask, other.mask), (self.counts, other.counts))
        )
        return PointSet(concatenate([self.x, other.x]), concatenate([self.y, other.y]), mask, counts)


class Task(eqx.Module):
    """One task $\\tau = (Z, c)$: all points with the masks of the context and of the target.

    Losses sum over the points that are `asked`: all of them, as in the paper, unless something else is said.
    If it is known that the context lies in the leading slots, `context_slots` says how many: models then work on no others
    when they look at the context.
    """

    x: Float[Array, "point x_dim"]
    y: Float[Array, "point y_dim"]
    context_mask: Bool[Array, " point"]
    target_mask: Bool[Array, " point"]
    asked: Bool[Array, " point"]
    context_slots: int = eqx.field(static=True)

    def __init__(
        self,
        x: Float[Array, "point x_dim"],
        y: Float[Array, "point y_dim"],
        context_mask: Bool[Array, " point"],
        target_mask: Bool[Array, " point"],
        context_slots: int | None = None,
        asked: Bool[Array, " point"] | None = None,
    ) -> None:
        used = context_mask | target_mask
        self.x = jnp.where(used[:, None], x, 0)
        self.y = jnp.where(used[:, None], y, 0)
        self.context_mask = context_mask
        self.target_mask = target_mask
        self.asked = used if asked is None else used & asked
        self.context_slots = len(context_mask) if context_slots is None else context_slots

    def context_first(self) -> "Task":
        """The same task with its points in another order: context, then target, then empty slots."""
        order = jnp.argsort(jnp.where(self.context_mask, 0, jnp.where(self.target_mask, 1, 2)), stable=True)
        return Task(self.x[order], self.y[order], self.context_mask[order], self.target_mask[order], asked=self.asked[order])

    def in_slots(self, context_slots: int, num_slots: int) -> "Task":
        """The same task without its last slots, if all points lie in the leading ones and the context in the first of them."""
        x, y, context_mask, target_mask, asked = (
            array[:num_slots] for array in (self.x, self.y, self.context_mask, self.target_mask, self.asked)
        )
        return Task(x, y, context_mask, target_mask, context_slots, asked)

    def asking(self, asked: Bool[Array, " point"]) -> "Task":
        """The same task, of which only these points count in a loss."""
        return Task(self.x, self.y, self.context_mask, self.target_mask, self.context_slots, asked)

    @staticmethod
    def split(x: object, y: object, num_context: int) -> "Task":
        """A task from a user's arrays, whose first `num_context` points are the context and the rest the target."""
        points = PointSet.observed(x, y)
        if not 0 <= num_context <= len(points.mask):
            raise InputError(f"num_context must lie between 0 and the {len(points.mask)} points given, got {num_context}")
        is_context = jnp.arange(len(points.mask)) < num_context
        return Task(points.x, points.y, is_context, ~is_context)

    @property
    def mask(self) -> Bool[Array, " point"]:
        """All points of the task, $[n] = c \\cup t$."""
        return self.context_mask | self.target_mask

    @property
    def num_asked(self) -> Int[Array, ""]:
        """The number of points that are asked, the paper's $n$; at least one so that it can divide."""
        return jnp.maximum(self.asked.sum(), 1)

    @property
    def context(self) -> PointSet:
        """The context $Z_c$, with no trace of the other points."""
        leading = slice(self.context_slots)
        return PointSet(self.x[leading], self.y[leading], self.context_mask[leading])

    @property
    def points(self) -> PointSet:
        """All points $Z$, context and target alike."""
        return PointSet(self.x, self.y, self.mask)


def masked_mean(values: Float[Array, "*batch point"], mask: Bool[Array, "*#batch point"]) -> Float[Array, "*batch"]:
    """The mean over the points in the mask, zero where there is none."""
    total = jnp.sum(values, axis=-1, where=mask)
    return total / jnp.maximum(mask.sum(axis=-1), 1)


def concatenate(parts: Sequence[Shaped[Array, "..."]]) -> Shaped[Array, "..."]:
    """Join along the point axis, the last but one, after broadcasting the axes before it."""
    if len(parts) == 1:
        return parts[0]
    batch = jnp.broadcast_shapes(*(part.shape[:-2] for part in parts))
    return jnp.concatenate([jnp.broadcast_to(part, (*batch, *part.shape[-2:])) for part in parts], axis=-2)


def _matrix(name: str, values: object) -> Float[np.ndarray, "point dim"]:
    """A finite float matrix of one row a point from what a user gave; a plain sequence becomes one column."""
    if values is None:
        raise InputError(f"{name} is missing: every point needs both x and y")
    try:
        matrix = np.asarray(values)
        if matrix.dtype.kind in "cmMSU":
            raise TypeError(f"got {matrix.dtype}")
        if matrix.dtype not in (np.float32, np.float64):
            matrix = matrix.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} must hold numbers in rows of equal length: {error}") from None
    if matrix.ndim == 1:
        matrix = matrix[:, None]
    if matrix.ndim != 2:
        raise InputError(
            f"{name} must have shape (points,) or (points, dimensions), got {matrix.shape}; pass one task at a time"
        )
    with np.errstate(over="ignore"):  # a number too large for the precision in use is refused as infinite
        matrix = matrix.astype(jax.dtypes.canonicalize_dtype(matrix.dtype))
    if not np.isfinite(matrix).all():
        row = int(np.argmax(~np.isfinite(matrix).all(axis=1)))
        raise InputError(f"{name} must be finite, but row {row} is {matrix[row].tolist()}; drop or repair such points")
    return matrix
