"""The backbone of CANP: self-attention among context points, cross-attention from each target to them."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from mpnp.models.backbones.base import AbstractBackbone, InputFeatures, Tokens
from mpnp.models.parts import Parts
from mpnp.nn.attention import Attended, KeyValues, MultiHeadAttention
from mpnp.nn.encoders import AbstractSetEncoder, GrowingPoints, PreparedPoints, SelfAttentiveEncoder, set_row
from mpnp.nn.linear import MLP
from mpnp.tasks.task import PointSet

__all__ = ["AttentiveBackbone"]


class AttentiveBackbone(AbstractBackbone):
    """$r_c(x) = \\mathrm{MHA}(r_q(x), r_k, r_v)$, where one network computes queries and keys from inputs.

    A token is the concatenation of the key $r_k$ and the value $r_v$ of a point.
    """

    value_encoder: AbstractSetEncoder
    coordinate_encoder: MLP
    cross_attention: MultiHeadAttention
    x_dim: int = eqx.field(static=True)
    width: int = eqx.field(static=True)

    @classmethod
    def assemble(cls, parts: Parts) -> "AttentiveBackbone":
        width, depth = parts.settings.width, parts.settings.encoder_depth
        return cls(
            value_encoder=cls.set_encoder(parts, width, depth),
            coordinate_encoder=parts.input_encoder(width, depth),
            cross_attention=parts.attention(width),
            x_dim=parts.x_dim,
            width=width,
        )

    @staticmethod
    def set_encoder(parts: Parts, out_dim: int, depth: int) -> AbstractSetEncoder:
        return SelfAttentiveEncoder(parts.point_encoder(out_dim, depth), parts.attention(out_dim))

    @property
    def token_dim(self) -> int:
        """Key and value, each of the representation's width."""
        return 2 * self.width

    def encode_inputs(self, x: Float[Array, "*#batch point x_dim"]) -> Float[Array, "*#batch point width"]:
        return self.coordinate_encoder(x)

    def prepare(self, points: PointSet, input_features: InputFeatures) -> tuple[InputFeatures, PreparedPoints]:
        return input_features, self.value_encoder.prepare(points)

    def relate(self, prepared: tuple[InputFeatures, PreparedPoints], counts: Float[Array, "*#batch point"]) -> Tokens:
        input_features, prepared_values = prepared
        return self._tokens(input_features, self.value_encoder.relate(prepared_values, counts), counts)

    def start_growing(
        self, prepared: tuple[InputFeatures, PreparedPoints], counts: Float[Array, " point"]
    ) -> tuple[InputFeatures, GrowingPoints]:
        input_features, prepared_values = prepared
        return input_features, self.value_encoder.start_growing(prepared_values, counts)

    def grow(
        self,
        growing: tuple[InputFeatures, GrowingPoints],
        row: PreparedPoints,
        slot: Int[Array, ""] | int,
        counts: Float[Array, " point"],
    ) -> tuple[InputFeatures, GrowingPoints]:
        return set_row(growing[0], row[0], slot), self.value_encoder.grow(growing[1], row[1], slot, counts)

    def relate_grown(self, growing: tuple[InputFeatures, GrowingPoints], counts: Float[Array, " point"]) -> Tokens:
        input_features, growing_values = growing
        return self._tokens(input_features, self.value_encoder.relate_grown(growing_values, counts), counts)

    def _tokens(
        self, keys: InputFeatures, values: Float[Array, "*#batch point width"], counts: Float[Array, "*#batch point"]
    ) -> Tokens:
        keys = jnp.broadcast_to(keys, (*values.shape[:-1], keys.shape[-1]))
        return Tokens(jnp.concatenate([keys, values], axis=-1), counts)

    def query_encoded(self, input_features: InputFeatures) -> Float[Array, "*#batch target width"]:
        return self.cross_attention.query_projection(input_features)

    def attend(self, query: Float[Array, "*#batch target width"], tokens: Tokens) -> Attended:
        keys, values = jnp.split(tokens.features, 2, axis=-1)
        source = KeyValues(keys, values, tokens.weights)
        # A lone target, as in predictive resampling, does not pay for projecting all tokens.
        attention, is_alone = self.cross_attention, query.shape[-2] == 1
        return attention.attend_lifted(query, source) if is_alone else attention.attend(query, source)

    def combine(self, query: Float[Array, "*#batch target width"], *partials: Attended) -> Float[Array, "*#batch target width"]:
        return self.cross_attention.combine(query, *partials)
