"""Set encoders: one feature vector per point of a set."""

import abc
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float, Int

from mpnp.nn.attention import Attended, MultiHeadAttention, Projected
from mpnp.nn.linear import MLP
from mpnp.tasks.task import PointSet

__all__ = ["AbstractSetEncoder", "GrowingPoints", "PointwiseEncoder", "PreparedPoints", "SelfAttentiveEncoder", "set_row"]

PreparedPoints = Any
"""Features computed from each point by itself: a pytree of arrays with one row per point, after any batch axes."""


GrowingPoints = Any
"""Prepared points to which others will be appended, with what need not be computed anew."""


def set_row(points: PreparedPoints, row: PreparedPoints, slot: Int[Array, ""] | int) -> PreparedPoints:
    """The prepared points with this row, of a single point, in a slot."""
    return jax.tree.map(lambda rows, new: rows.at[slot].set(new[0]), points, row)


class AbstractSetEncoder(eqx.Module):
    """Maps each point of a set to features, equivariantly: permuting the points permutes the features.

    Encoding has two steps, `prepare` and `relate`, so that sets with common points can share the first.
    """

    @abc.abstractmethod
    def prepare(self, points: PointSet) -> PreparedPoints:
        """Compute what depends on each point by itself."""

    @abc.abstractmethod
    def relate(self, prepared: PreparedPoints, counts: Float[Array, "*#batch point"]) -> Float[Array, "*#batch point width"]:
        """Relate the points to each other. Each counts as `counts` points; those with count 0 are absent."""

    def start_growing(self, prepared: PreparedPoints, counts: Float[Array, " point"]) -> GrowingPoints:
        """Prepared points, to which `grow` will append others in slots with count 0."""
        return prepared

    def grow(
        self, growing: GrowingPoints, row: PreparedPoints, slot: Int[Array, ""] | int, counts: Float[Array, " point"]
    ) -> GrowingPoints:
        """Append the prepared row of a point; `counts` are those with it."""
        return set_row(growing, row, slot)

    def relate_grown(self, growing: GrowingPoints, counts: Float[Array, " point"]) -> Float[Array, "point width"]:
        """What `relate` gives for all points so far."""
        return self.relate(growing, counts)

    def __call__(self, points: PointSet) -> Float[Array, "*#batch point width"]:
        """Encode the points. Rows outside the mask are finite but meaningless."""
        return self.relate(self.prepare(points), points.counts)


class PointwiseEncoder(AbstractSetEncoder):
    """Encodes each point by itself: $r_i = \\mathrm{MLP}(z_i)$."""

    mlp: MLP

    def prepare(self, points: PointSet) -> Float[Array, "*#batch point width"]:
        return self.mlp(points.x, points.y)

    def relate(
        self, prepared: Float[Array, "*#batch point width"], counts: Float[Array, "*#batch point"]
    ) -> Float[Array, "*#batch point width"]:
        return prepared


class SelfAttentiveEncoder(AbstractSetEncoder):
    """Self-attention among the points: $\\mathrm{SA}(\\mathrm{ReLU}(\\mathrm{MLP}(z_i)))$."""

    mlp: MLP
    attention: MultiHeadAttention

    def prepare(self, points: PointSet) -> Projected:
        return self.attention.project(jax.nn.relu(self.mlp(points.x, points.y)))

    def relate(self, prepared: Projected, counts: Float[Array, "*#batch point"]) -> Float[Array, "*#batch point width"]:
        return self.attention.attend_within(prepared, counts)

    def start_growing(self, prepared: Projected, counts: Float[Array, " point"]) -> tuple[Projected, Attended]:
        return prepared, self.attention.sums_within(prepared, counts)

    def grow(
        self, growing: tuple[Projected, Attended], row: Projected, slot: Int[Array, ""] | int, counts: Float[Array, " point"]
    ) -> tuple[Projected, Attended]:
        prepared, sums = growing
        prepared = set_row(prepared, row, slot)
        return prepared, self.attention.append_within(sums, prepared, slot, counts)

    def relate_grown(self, growing: tuple[Projected, Attended], counts: Float[Array, " point"]) -> Float[Array, "point width"]:
        prepared, sums = growing
        return self.attention.combine(prepared.query, sums)
