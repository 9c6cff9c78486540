"""The backbone of CANP: self-attention among the context, cross-attention from each target."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from mpnp.networks.attention import Attended, KeyValues, MultiHeadAttention
from mpnp.networks.backbones.contract import AbstractBackbone, Places, Tokens
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

    def locate(self, x: Float[Array, "*#batch point x_dim"]) -> Float[Array, "*#batch point width"]:
        return self.coordinate_encoder(x)

    def embed_at(self, points: PointSet, places: Places) -> Tokens:
        values = self.value_encoder(points)
        keys = jnp.broadcast_to(places, (*values.shape[:-1], places.shape[-1]))
        return Tokens(jnp.concatenate([keys, values], axis=-1), points.counts)

    def ask_at(self, places: Places) -> Float[Array, "*#batch target width"]:
        return self.cross_attention.query_projection(places)

    def look(self, question: Float[Array, "*#batch target width"], tokens: Tokens) -> Attended:
        keys, values = jnp.split(tokens.features, 2, axis=-1)
        return self.cross_attention.look(question, KeyValues(keys, values, tokens.weights))

    def conclude(
        self, question: Float[Array, "*#batch target width"], *views: Attended
    ) -> Float[Array, "*#batch target width"]:
        return self.cross_attention.conclude(question, *views)
