"""The backbone of TNP: layers in which context points attend to each other, and targets to the context."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from mpnp.models.backbones.base import AbstractBackbone, InputFeatures, Tokens
from mpnp.models.parts import Parts
from mpnp.nn.attention import Attended, LayerNorm
from mpnp.nn.encoders import AbstractSetEncoder, SelfAttentiveEncoder
from mpnp.nn.linear import MLP
from mpnp.nn.rotary import RotaryAttention, phases
from mpnp.tasks.task import PointSet

__all__ = ["TransformerBackbone"]


class Source(eqx.Module):
    """Rotated keys and values of a token set in one layer."""

    keys: Float[Array, "*#batch point head head_dim"]
    values: Float[Array, "*#batch point head head_dim"]
    weights: Float[Array, "*#batch point"]


class Layer(eqx.Module):
    """A layer of a transformer: attention, then a network, each with layer normalisation before and a residual around it."""

    attention: RotaryAttention
    network: MLP
    attention_norm: LayerNorm
    network_norm: LayerNorm

    def source(
        self,
        rows: Float[Array, "*#batch point width"],
        phase: Float[Array, "*#batch point width"],
        weights: Float[Array, "*#batch point"],
    ) -> Source:
        """Rotated keys and values, with which other rows attend to these."""
        return Source(*self.attention.project(self.attention_norm(rows), phase), weights)

    def __call__(
        self, rows: Float[Array, "*#batch point width"], phase: Float[Array, "*#batch point width"], *sources: Source
    ) -> Float[Array, "*#batch point width"]:
        """The rows after this layer, in which each attends to the union of the sources."""
        query = self.attention.query(self.attention_norm(rows), phase)
        rows = rows + self.attention.combine(phase, *(self._attend(query, source) for source in sources))
        return rows + self.network(self.network_norm(rows))

    def _attend(self, query: Float[Array, "*#batch point head head_dim"], source: Source) -> Attended:
        return self.attention.attend(query, source.keys, source.values, source.weights)


class TransformerBackbone(AbstractBackbone):
    """Targets pass through the layers of the context, and attend in each to its points (Nguyen and Grover, 2022).

    Points are known by their outputs alone, and inputs enter only through rotary attention. So moving context and targets
    together moves the predictions with them. A token holds a point's features before each layer, and its input.
    """

    embedding: MLP
    target: Float[Array, " width"]
    layers: tuple[Layer, ...]
    norm: LayerNorm
    x_dim: int = eqx.field(static=True)
    width: int = eqx.field(static=True)

    @classmethod
    def assemble(cls, parts: Parts) -> "TransformerBackbone":
        settings = parts.settings
        width = settings.layer_width
        return cls(
            embedding=parts.output_encoder(width, depth=2),
            target=jax.random.normal(next(parts.keys), (width,), jnp.float32),
            layers=tuple(cls._layer(parts, width) for _ in range(settings.num_layers)),
            norm=LayerNorm(width),
            x_dim=parts.x_dim,
            width=width,
        )

    @staticmethod
    def _layer(parts: Parts, width: int) -> Layer:
        return Layer(
            parts.rotary_attention(width), parts.network(width, hidden_width=2 * width), LayerNorm(width), LayerNorm(width)
        )

    @staticmethod
    def set_encoder(parts: Parts, out_dim: int, depth: int) -> AbstractSetEncoder:
        return SelfAttentiveEncoder(parts.point_encoder(out_dim, depth), parts.attention(out_dim))

    @property
    def generated_dim(self) -> int:
        """Width of a point's features before all layers."""
        return len(self.layers) * self.width

    @property
    def token_dim(self) -> int:
        """Features before all layers, and the input."""
        return self.generated_dim + self.x_dim

    @property
    def direct_dim(self) -> int:
        """None: a prediction that read inputs directly would change if all points were moved."""
        return 0

    def prepare(
        self, points: PointSet, input_features: InputFeatures
    ) -> tuple[InputFeatures, Float[Array, "*#batch point width"]]:
        return input_features, self.embedding(points.y)

    def relate(
        self,
        prepared: tuple[InputFeatures, Float[Array, "*#batch point width"]],
        counts: Float[Array, "*#batch point"],
    ) -> Tokens:
        x, rows = prepared
        phase, features = self._phases(x), [rows]
        for layer in self.layers[:-1]:
            rows = layer(rows, phase, layer.source(rows, phase, counts))
            features.append(rows)
        position = jnp.broadcast_to(x, (*rows.shape[:-1], self.x_dim))
        features = [jnp.broadcast_to(part, rows.shape) for part in features]
        return Tokens(jnp.concatenate([*features, position], axis=-1), counts)

    def generated(self, features: Float[Array, "*batch point generated_dim"]) -> Tokens:
        # The first features of a generated point also serve as its input, so that conditional models need no extra weights.
        position, _ = jnp.split(features, [self.x_dim], axis=-1)
        return super().generated(jnp.concatenate([features, position], axis=-1))

    def query_encoded(self, input_features: InputFeatures) -> Float[Array, "*#batch target width"]:
        return self._phases(input_features)

    def attend(self, query: Float[Array, "*#batch target width"], tokens: Tokens) -> tuple[Source, ...]:
        features, position = jnp.split(tokens.features, [self.generated_dim], axis=-1)
        phase, rows = self._phases(position), jnp.split(features, len(self.layers), axis=-1)
        return tuple(layer.source(part, phase, tokens.weights) for layer, part in zip(self.layers, rows, strict=True))

    def combine(
        self, query: Float[Array, "*#batch target width"], *partials: tuple[Source, ...]
    ) -> Float[Array, "*#batch target width"]:
        rows = jnp.broadcast_to(self.target, (*query.shape[:-1], self.width))
        for layer, *sources in zip(self.layers, *partials, strict=True):
            rows = layer(rows, query, *sources)
        return self.norm(rows)

    def _phases(self, x: InputFeatures) -> Float[Array, "*#batch point width"]:
        return phases(x, self.width, self.layers[0].attention.num_heads)
