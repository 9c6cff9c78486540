"""Tasks: points of one function, some observed (context), some to be predicted (target).

Arrays have a fixed number of slots, so that tasks of many sizes share one compiled program; boolean masks mark the slots that
hold a point. The constructors zero every slot outside the masks, so padding, even NaN, never affects a value or a gradient.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Shaped

from mpnp.errors import InputError

__all__ = ["PointSet", "Task", "concatenate", "masked_mean"]


class PointSet(eqx.Module):
    """Observed points $Z_c = \\{(x_i, y_i)\\}$: what a model conditions on.

    Leading axes, if any, index separate sets, such as bootstrap samples; the fields broadcast along them. `counts` is the
    multiplicity of each point, for example how often a bootstrap sample drew it.

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
        """Validate a user's arrays or lists and make a context of all points; both may be empty."""
        inputs, outputs = _matrix("x", x), _matrix("y", y)
        if len(inputs) != len(outputs):
            raise InputError(
                f"x and y must have one row per point: x has {len(inputs)} rows, y has {len(outputs)}; "
                "drop or complete the points that lack one of them"
            )
        return PointSet(jnp.asarray(inputs), jnp.asarray(outputs), jnp.ones(len(inputs), bool))

    def union(self, other: "PointSet") -> "PointSet":
        """All points of both sets, side by side along the point axis."""
        mask, counts = (
            concatenate([a[..., None], b[..., None]])[..., 0] for a, b in ((self.mask, other.mask), (self.counts, other.counts))
        )
        return PointSet(concatenate([self.x, other.x]), concatenate([self.y, other.y]), mask, counts)


class Task(eqx.Module):
    """One task $\\tau = (Z, c)$: all points, with masks for context and target.

    `loss_weights` say how much each point counts in a loss: by default all points equally, as in the paper. `known_noise` is
    the standard deviation of each measurement, which a predictive of the quantity itself does not contain. If the context is
    known to lie in the first `context_slots` slots, models encode only those.

    >>> Task.split(x=[0.0, 1.0, 2.0], y=[0.5, -0.5, 0.1], num_context=2).target_mask.tolist()
    [False, False, True]
    """

    x: Float[Array, "point x_dim"]
    y: Float[Array, "point y_dim"]
    context_mask: Bool[Array, " point"]
    target_mask: Bool[Array, " point"]
    loss_weights: Float[Array, " point"]
    known_noise: Float[Array, " point"] | None
    context_slots: int = eqx.field(static=True)

    def __init__(
        self,
        x: Float[Array, "point x_dim"],
        y: Float[Array, "point y_dim"],
        context_mask: Bool[Array, " point"],
        target_mask: Bool[Array, " point"],
        context_slots: int | None = None,
        loss_weights: Float[Array, " point"] | None = None,
        known_noise: Float[Array, " point"] | None = None,
    ) -> None:
        used = context_mask | target_mask
        self.x = jnp.where(used[:, None], x, 0)
        self.y = jnp.where(used[:, None], y, 0)
        self.context_mask = context_mask
        self.target_mask = target_mask
        self.loss_weights = jnp.where(used, 1.0 if loss_weights is None else loss_weights, 0).astype(self.y.dtype)
        self.known_noise = None if known_noise is None else jnp.where(used, known_noise, 0).astype(self.y.dtype)
        self.context_slots = len(context_mask) if context_slots is None else context_slots

    def context_first(self) -> "Task":
        """The same task, reordered: context first, then target, then empty slots."""
        order = jnp.argsort(jnp.where(self.context_mask, 0, jnp.where(self.target_mask, 1, 2)), stable=True)
        return Task(
            self.x[order],
            self.y[order],
            self.context_mask[order],
            self.target_mask[order],
            loss_weights=self.loss_weights[order],
            known_noise=None if self.known_noise is None else self.known_noise[order],
        )

    def in_slots(self, context_slots: int, num_slots: int) -> "Task":
        """The same task cut to `num_slots` slots. All points must lie in them, and the context in the first `context_slots`."""
        x, y, context_mask, target_mask, loss_weights = (
            array[:num_slots] for array in (self.x, self.y, self.context_mask, self.target_mask, self.loss_weights)
        )
        known_noise = None if self.known_noise is None else self.known_noise[:num_slots]
        return Task(x, y, context_mask, target_mask, context_slots, loss_weights, known_noise)

    def with_loss_weights(self, loss_weights: Float[Array, " point"] | Bool[Array, " point"]) -> "Task":
        """The same task with these loss weights; a mask stands for weights of 0 and 1."""
        weights = loss_weights.astype(self.y.dtype)
        return Task(self.x, self.y, self.context_mask, self.target_mask, self.context_slots, weights, self.known_noise)

    def weigh_targets(self, weight: float | Float[Array, ""]) -> "Task":
        """The same task with targets that count `weight` times as much as context points, and an unchanged sum of weights."""
        weights = jnp.where(self.target_mask & ~self.context_mask, weight, 1) * self.loss_weights
        return self.with_loss_weights(weights * (self.loss_weights.sum() / jnp.where(weights.sum() > 0, weights.sum(), 1)))

    @staticmethod
    def split(x: object, y: object, num_context: int) -> "Task":
        """A task from a user's arrays: the first `num_context` points are the context, the rest the target."""
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
    def loss_count(self) -> Float[Array, ""]:
        """The sum of the loss weights, by default the paper's $n$; at least 1, so that it is safe to divide by."""
        return jnp.maximum(self.loss_weights.sum(), 1)

    def loss_sum(self, values: Float[Array, "*batch point"]) -> Float[Array, "*batch"]:
        """The weighted sum of the points' values."""
        return jnp.sum(self.loss_weights * values, axis=-1, where=self.loss_weights > 0)

    def loss_mean(self, values: Float[Array, "*batch point"]) -> Float[Array, "*batch"]:
        """The weighted mean of the points' values; 0 if no point counts."""
        return self.loss_sum(values) / self.loss_count

    @property
    def context(self) -> PointSet:
        """The context $Z_c$ alone."""
        leading = slice(self.context_slots)
        return PointSet(self.x[leading], self.y[leading], self.context_mask[leading])

    @property
    def points(self) -> PointSet:
        """All points $Z$, context and target."""
        return PointSet(self.x, self.y, self.mask)


def masked_mean(values: Float[Array, "*batch point"], mask: Bool[Array, "*#batch point"]) -> Float[Array, "*batch"]:
    """The mean over the points in the mask; 0 if the mask is empty."""
    total = jnp.sum(values, axis=-1, where=mask)
    return total / jnp.maximum(mask.sum(axis=-1), 1)


def concatenate(parts: Sequence[Shaped[Array, "..."]]) -> Shaped[Array, "..."]:
    """Concatenate along the point axis (the last but one), broadcasting the leading axes."""
    if len(parts) == 1:
        return parts[0]
    batch = jnp.broadcast_shapes(*(part.shape[:-2] for part in parts))
    return jnp.concatenate([jnp.broadcast_to(part, (*batch, *part.shape[-2:])) for part in parts], axis=-2)


def _matrix(name: str, values: object) -> Float[np.ndarray, "point dim"]:
    """A user's values as a finite float matrix with one row per point; a flat sequence becomes one column."""
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
    with np.errstate(over="ignore"):  # too large for the precision in use becomes infinite, and is rejected below
        matrix = matrix.astype(jax.dtypes.canonicalize_dtype(matrix.dtype))
    if not np.isfinite(matrix).all():
        row = int(np.argmax(~np.isfinite(matrix).all(axis=1)))
        raise InputError(f"{name} must be finite, but row {row} is {matrix[row].tolist()}; drop or repair such points")
    return matrix
