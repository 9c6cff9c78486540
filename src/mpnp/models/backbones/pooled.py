"""The backbone of CNP: the mean of the context points' features, the same at every target."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from mpnp.models.backbones.base import AbstractBackbone, InputFeatures, Tokens
from mpnp.models.parts import Parts
from mpnp.nn.encoders import AbstractSetEncoder, PointwiseEncoder, PreparedPoints
from mpnp.tasks.task import PointSet

__all__ = ["PooledBackbone"]


class Pool(eqx.Module):
    """The weighted sum of a token set, and its total weight."""

    total: Float[Array, "*#batch width"]
    count: Float[Array, "*#batch"]


class PooledBackbone(AbstractBackbone):
    """$r_c = \\frac{1}{|c|}\\sum_{i \\in c} \\mathrm{MLP}(z_i)$; the empty set has the representation zero."""

    encoder: AbstractSetEncoder
    x_dim: int = eqx.field(static=True)
    width: int = eqx.field(static=True)

    @classmethod
    def assemble(cls, parts: Parts) -> "PooledBackbone":
        width, depth = parts.settings.width, parts.settings.encoder_depth
        return cls(encoder=cls.set_encoder(parts, width, depth), x_dim=parts.x_dim, width=width)

    @staticmethod
    def set_encoder(parts: Parts, out_dim: int, depth: int) -> AbstractSetEncoder:
        return PointwiseEncoder(parts.point_encoder(out_dim, depth))

    @property
    def token_dim(self) -> int:
        """A token is the point's representation itself."""
        return self.width

    def prepare(self, points: PointSet, input_features: InputFeatures) -> PreparedPoints:
        return self.encoder.prepare(points)

    def relate(self, prepared: PreparedPoints, counts: Float[Array, "*#batch point"]) -> Tokens:
        return Tokens(self.encoder.relate(prepared, counts), counts)

    def query_encoded(self, input_features: InputFeatures) -> None:
        return None

    def attend(self, query: None, tokens: Tokens) -> Pool:
        return Pool(jnp.einsum("...p,...pd->...d", tokens.weights, tokens.features), tokens.weights.sum(axis=-1))

    def combine(self, query: None, *partials: Pool) -> Float[Array, "*#batch 1 width"]:
        # Add sums, never means: each token of the union must count by its weight alone, whichever set it belongs to.
        total, count = sum(partial.total for partial in partials), sum(partial.count for partial in partials)
        mean = total / jnp.where(count > 0, count, 1)[..., None]
        return mean[..., None, :]
