"""Set encoders: one feature vector per point of a set."""

import abc
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float

from mpnp.nn.attention import MultiHeadAttention, Projected
from mpnp.nn.linear import MLP
from mpnp.tasks.task import PointSet

__all__ = ["AbstractSetEncoder", "PointwiseEncoder", "PreparedPoints", "SelfAttentiveEncoder"]

PreparedPoints = Any
"""Features computed from each point by itself: a pytree of arrays with one row per point, after any batch axes."""


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
