"""The backbone of CANP: self-attention among the context, cross-attention from each target."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from mpnp.networks.attention import Attended, KeyValues, MultiHeadAttention
from mpnp.networks.backbones.contract import AbstractBackbone, Tokens
from mpnp.networks.dense import MLP
from mpnp.networks.encoders import AbstractSetEncoder
from mpnp.tasks.task import PointSet

__all__ = ["AttentiveBackbone"]


class AttentiveBackbone(AbstractBackbone):
    """$r_c(x) = \\mathrm{MHA}(r_q(x), r_k, r_v)$, where one network makes queries and keys from inputs.

    A token is the key $r_k$ and the value $r_v$ of a point side by side.
    """

    value_encoder: AbstractSetEncoder
    coordinate_encoder: MLP
    cross_attention: MultiHeadAttention
    width: int = eqx.field(static=True)

    @property
    def token_dim(self) -> int:
        """Key and value, each of the representation's width."""
        return 2 * self.width

    def embed(self, points: PointSet) -> Tokens:
        keys, values = self.coordinate_encoder(points.x), self.value_encoder(points)
        keys = jnp.broadcast_to(keys, (*values.shape[:-1], keys.shape[-1]))
        return Tokens(jnp.concatenate([keys, values], axis=-1), points.counts)

    def ask(self, x_target: Float[Array, "*#batch target x_dim"]) -> Float[Array, "*#batch target width"]:
        return self.cross_attention.query_projection(self.coordinate_encoder(x_target))

    def look(self, question: Float[Array, "*#batch target width"], tokens: Tokens) -> Attended:
        keys, values = jnp.split(tokens.features, 2, axis=-1)
        return self.cross_attention.look(question, KeyValues(keys, values, tokens.weights))

    def conclude(
        self, question: Float[Array, "*#batch target width"], *views: Attended
    ) -> Float[Array, "*#batch target width"]:
        return self.cross_attention.conclude(question, *views)
