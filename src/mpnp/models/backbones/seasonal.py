"""The backbone of STNP: a transformer, and beside it what the context says at each target if it repeats with some period."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from mpnp.models.backbones.base import AbstractBackbone, InputFeatures, Partial, Query, Tokens
from mpnp.models.backbones.transformer import TransformerBackbone
from mpnp.models.parts import Parts
from mpnp.nn.encoders import AbstractSetEncoder, PreparedPoints
from mpnp.nn.folding import Folded, cycles, fold, num_features, summarise
from mpnp.nn.linear import MLP
from mpnp.tasks.task import PointSet

__all__ = ["SeasonalBackbone"]

READ_WIDTH = 32
"""Width of what is read from the folded context."""


class SeasonalBackbone(AbstractBackbone):
    """The representation of a transformer, followed by features of the context folded at candidate periods.

    A token is that of the transformer, followed by the point's output and a one. Generated points have zeros there: they are no
    observations, and are not folded.
    """

    transformer: TransformerBackbone
    reader: MLP
    num_periods: int = eqx.field(static=True)
    x_dim: int = eqx.field(static=True)
    y_dim: int = eqx.field(static=True)
    width: int = eqx.field(static=True)

    @classmethod
    def assemble(cls, parts: Parts) -> "SeasonalBackbone":
        transformer = TransformerBackbone.assemble(parts)
        return cls(
            transformer=transformer,
            reader=parts.feature_reader(num_features(parts.y_dim), READ_WIDTH),
            num_periods=parts.settings.num_periods,
            x_dim=parts.x_dim,
            y_dim=parts.y_dim,
            width=transformer.width + READ_WIDTH,
        )

    @staticmethod
    def set_encoder(parts: Parts, out_dim: int, depth: int) -> AbstractSetEncoder:
        return TransformerBackbone.set_encoder(parts, out_dim, depth)

    @property
    def generated_dim(self) -> int:
        """That of the transformer."""
        return self.transformer.generated_dim

    @property
    def token_dim(self) -> int:
        """That of the transformer, the output, and whether it was observed."""
        return self.transformer.token_dim + self.y_dim + 1

    @property
    def direct_dim(self) -> int:
        """None, as for the transformer: only differences of inputs matter."""
        return self.transformer.direct_dim

    def prepare(self, points: PointSet, input_features: InputFeatures) -> tuple[PreparedPoints, Float[Array, "..."]]:
        return self.transformer.prepare(points, input_features), points.y

    def relate(self, prepared: tuple[PreparedPoints, Float[Array, "..."]], counts: Float[Array, "*#batch point"]) -> Tokens:
        points, y = prepared
        return _observed(self.transformer.relate(points, counts), jnp.concatenate([y, jnp.ones_like(y[..., :1])], axis=-1))

    def generated(self, features: Float[Array, "*batch point generated_dim"]) -> Tokens:
        return _observed(self.transformer.generated(features), jnp.zeros(self.y_dim + 1, features.dtype))

    def query_encoded(self, input_features: InputFeatures) -> tuple[Query, InputFeatures]:
        return self.transformer.query_encoded(input_features), input_features

    def attend(self, query: tuple[Query, InputFeatures], tokens: Tokens) -> tuple[Partial, Folded]:
        generated, token = self.transformer.generated_dim, self.transformer.token_dim
        own, y, observed = jnp.split(tokens.features, [token, token + self.y_dim], axis=-1)
        inner, x_target = query
        # Observations do not depend on weights. Without this line, the backward pass of training would not know.
        x, y, observed = jax.lax.stop_gradient((jnp.split(own, [generated], axis=-1)[1], y, observed))
        weights = observed.squeeze(-1) * tokens.weights
        folded = fold(cycles(self.num_periods, self.x_dim), x, y, weights, x_target)
        return self.transformer.attend(inner, Tokens(own, tokens.weights)), folded

    def combine(
        self, query: tuple[Query, InputFeatures], *partials: tuple[Partial, Folded]
    ) -> Float[Array, "*#batch target width"]:
        rows = self.transformer.combine(query[0], *(own for own, _ in partials))
        features = self.reader(summarise([folded for _, folded in partials]))
        features = jnp.broadcast_to(features, (*rows.shape[:-1], READ_WIDTH))
        return jnp.concatenate([rows, features], axis=-1)


def _observed(tokens: Tokens, columns: Float[Array, "*#batch column"]) -> Tokens:
    """The tokens with these columns behind their features."""
    columns = jnp.broadcast_to(columns, (*tokens.features.shape[:-1], columns.shape[-1]))
    return Tokens(jnp.concatenate([tokens.features, columns], axis=-1), tokens.weights)
