"""Set encoders: from the points of a set to one feature vector a point."""

import abc

import equinox as eqx
import jax
from jaxtyping import Array, Float

from mpnp.networks.attention import KeyValues, MultiHeadAttention
from mpnp.networks.dense import MLP
from mpnp.tasks.task import PointSet

__all__ = ["AbstractSetEncoder", "PointwiseEncoder", "SelfAttentiveEncoder"]


class AbstractSetEncoder(eqx.Module):
    """Turns each point of a set into features; permuting the points permutes the features."""

    @abc.abstractmethod
    def __call__(self, points: PointSet) -> Float[Array, "*batch point width"]:
        """Encode the points; rows outside the mask are finite and mean nothing."""


class PointwiseEncoder(AbstractSetEncoder):
    """Each point by itself: $r_i = \\mathrm{MLP}(z_i)$."""

    mlp: MLP

    def __call__(self, points: PointSet) -> Float[Array, "*batch point width"]:
        return self.mlp(points.x, points.y)


class SelfAttentiveEncoder(AbstractSetEncoder):
    """Each point in the light of the others: $\\mathrm{SA}(\\mathrm{ReLU}(\\mathrm{MLP}(z_i)))$."""

    mlp: MLP
    attention: MultiHeadAttention

    def __call__(self, points: PointSet) -> Float[Array, "*batch point width"]:
        features = jax.nn.relu(self.mlp(points.x, points.y))
        return self.attention(features, KeyValues(features, features, points.counts))
