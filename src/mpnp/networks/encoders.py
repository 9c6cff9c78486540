"""Set encoders: from the points of a set to one feature vector a point."""

import abc
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float

from mpnp.networks.attention import MultiHeadAttention, Projected
from mpnp.networks.dense import MLP
from mpnp.tasks.task import PointSet

__all__ = ["AbstractSetEncoder", "Alone", "PointwiseEncoder", "SelfAttentiveEncoder"]

Alone = Any
"""What is computed of each point by itself: a pytree with one row a point, the encoder's own business otherwise."""


class AbstractSetEncoder(eqx.Module):
    """Turns each point of a set into features; permuting the points permutes the features.

    It does so in two steps, so that the first is taken once where sets share points.
    """

    @abc.abstractmethod
    def prepare(self, points: PointSet) -> Alone:
        """What needs to be known of each point by itself."""

    @abc.abstractmethod
    def relate(self, alone: Alone, counts: Float[Array, "*#batch point"]) -> Float[Array, "*#batch point width"]:
        """Each point in the light of those that count."""

    def __call__(self, points: PointSet) -> Float[Array, "*#batch point width"]:
        """Encode the points; rows outside the mask are finite and mean nothing."""
        return self.relate(self.prepare(points), points.counts)


class PointwiseEncoder(AbstractSetEncoder):
    """Each point by itself: $r_i = \\mathrm{MLP}(z_i)$."""

    mlp: MLP

    def prepare(self, points: PointSet) -> Float[Array, "*#batch point width"]:
        return self.mlp(points.x, points.y)

    def relate(
        self, alone: Float[Array, "*#batch point width"], counts: Float[Array, "*#batch point"]
    ) -> Float[Array, "*#batch point width"]:
        return alone


class SelfAttentiveEncoder(AbstractSetEncoder):
    """Each point in the light of the others: $\\mathrm{SA}(\\mathrm{ReLU}(\\mathrm{MLP}(z_i)))$."""

    mlp: MLP
    attention: MultiHeadAttention

    def prepare(self, points: PointSet) -> Projected:
        return self.attention.project(jax.nn.relu(self.mlp(points.x, points.y)))

    def relate(self, alone: Projected, counts: Float[Array, "*#batch point"]) -> Float[Array, "*#batch point width"]:
        return self.attention.attend_within(alone, counts)
