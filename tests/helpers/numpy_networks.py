"""The networks, written out in NumPy: points without padding in, a normal distribution at each target out."""

import dataclasses

import numpy as np

from mpnp.models.backbones.base import AbstractBackbone
from mpnp.models.backbones.pooled import PooledBackbone
from mpnp.models.backbones.seasonal import SeasonalBackbone
from mpnp.models.backbones.transformer import Layer, TransformerBackbone
from mpnp.models.base import AbstractNeuralProcess
from mpnp.nn.attention import ISAB, LayerNorm, MultiHeadAttention
from mpnp.nn.encoders import AbstractSetEncoder, PointwiseEncoder
from mpnp.nn.likelihoods.decoder import Decoder
from mpnp.nn.linear import MLP, Linear
from mpnp.nn.rotary import RotaryAttention, frequencies

Array = np.ndarray


@dataclasses.dataclass(frozen=True)
class Points:
    """A set of points, one per row."""

    x: Array
    y: Array

    @property
    def rows(self) -> Array:
        return np.concatenate([self.x, self.y], axis=1)

    def __getitem__(self, index: Array) -> "Points":
        return Points(self.x[index], self.y[index])

    def union(self, other: "Points") -> "Points":
        return Points(np.concatenate([self.x, other.x]), np.concatenate([self.y, other.y]))


@dataclasses.dataclass(frozen=True)
class UnpaddedTask:
    """The real points of a task, and the slots its context had, which the noise of bootstraps refers to."""

    context: Points
    target: Points
    context_slots: list[int]

    @staticmethod
    def select(x: Array, y: Array, context_mask: Array, target_mask: Array) -> "UnpaddedTask":
        points = Points(x, y)
        return UnpaddedTask(points[context_mask], points[target_mask], np.flatnonzero(context_mask).tolist())

    @property
    def points(self) -> Points:
        return self.context.union(self.target)

    @property
    def n(self) -> int:
        return len(self.points.x)


@dataclasses.dataclass(frozen=True)
class Normal:
    """Independent normal variables; the last axis holds the dimensions of one of them."""

    loc: Array
    scale: Array

    def log_prob(self, value: Array) -> Array:
        standardised = (value - self.loc) / self.scale
        return np.sum(-0.5 * standardised**2 - np.log(self.scale) - 0.5 * np.log(2 * np.pi), axis=-1)


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def softplus(x: Array) -> Array:
    return np.logaddexp(x, 0)


def linear(layer: Linear, x: Array) -> Array:
    return x @ np.asarray(layer.weight) + np.asarray(layer.bias)


def mlp(network: MLP, x: Array) -> Array:
    *hidden, last = network.layers
    for layer in hidden:
        x = relu(linear(layer, x))
    return linear(last, x)


def layer_norm(norm: LayerNorm, x: Array) -> Array:
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.mean(centred**2, axis=-1, keepdims=True)
    return centred / np.sqrt(variance + 1e-6) * np.asarray(norm.scale) + np.asarray(norm.bias)


def attention(block: MultiHeadAttention, queries: Array, keys: Array, values: Array, weights: Array | None = None) -> Array:
    """MHA(Q, K, V); a key of weight w counts as w copies of it."""
    queries = linear(block.query_projection, queries)
    keys, values = linear(block.key_projection, keys), linear(block.value_projection, values)
    weights = np.ones(len(keys)) if weights is None else weights
    width = queries.shape[1]
    attended = np.zeros_like(queries)
    for head in np.split(np.arange(width), block.num_heads):
        for i, query in enumerate(queries):
            scores = keys[:, head] @ query[head] / np.sqrt(width)
            shares = weights * np.exp(scores - scores.max())
            attended[i, head] = shares @ values[:, head] / shares.sum()
    inner = layer_norm(block.inner_norm, queries + attended)
    return layer_norm(block.outer_norm, inner + relu(linear(block.feed_forward, inner)))


def isab(block: ISAB, noise: Array, inducing: Array) -> Array:
    """ISAB(X, Y) = MAB(X, H) with H = MAB(Y, X), where X is the noise and Y the inducing points."""
    gathered = attention(block.gather, inducing, noise, noise)
    return attention(block.scatter, noise, gathered, gathered)


def encode(encoder: AbstractSetEncoder, points: Points) -> Array:
    """One feature vector per point: an MLP, which with self-attention behind it also ends in a ReLU."""
    features = mlp(encoder.mlp, points.rows)
    if isinstance(encoder, PointwiseEncoder):
        return features
    features = relu(features)
    return attention(encoder.attention, features, features, features)


def rotate(rows: Array, x: Array, waves: Array) -> Array:
    """Each pair of features of a head as a complex number, turned by its angle at x."""
    half = rows.shape[1] // 2
    turned = (rows[:, :half] + 1j * rows[:, half:]) * np.exp(1j * x @ waves.T)
    return np.concatenate([turned.real, turned.imag], axis=1)


def rotary(block: RotaryAttention, queries: Array, x: Array, rows: Array, at: Array, weights: Array | None = None) -> Array:
    """Attention of queries at x to rows at other inputs; a row of weight w counts as w copies of it."""
    queries = linear(block.query_projection, queries)
    keys, values = linear(block.key_projection, rows), linear(block.value_projection, rows)
    weights = np.ones(len(rows)) if weights is None else weights
    head_dim = queries.shape[1] // block.num_heads
    attended = np.zeros_like(queries)
    for number, waves in enumerate(frequencies(x.shape[1], block.num_heads, head_dim // 2).astype(float)):
        head = slice(number * head_dim, (number + 1) * head_dim)
        for i in range(len(queries)):
            # Seen from the query, rows lie at their inputs relative to its own.
            relative_keys, relative_values = (rotate(side[:, head], at - x[i], waves) for side in (keys, values))
            scores = relative_keys @ queries[i, head] / np.sqrt(head_dim)
            shares = weights * np.exp(scores - scores.max())
            attended[i, head] = shares @ relative_values / shares.sum()
    return linear(block.output_projection, attended)


def transformer_layer(layer: Layer, queries: Array, x: Array, rows: Array, at: Array, weights: Array | None = None) -> Array:
    normed = layer_norm(layer.attention_norm, queries), layer_norm(layer.attention_norm, rows)
    queries = queries + rotary(layer.attention, normed[0], x, normed[1], at, weights)
    return queries + mlp(layer.network, layer_norm(layer.network_norm, queries))


def embed(backbone: AbstractBackbone, points: Points) -> Array:
    """One token per point: its representation, or its key and value, or its features before each layer and its input."""
    if isinstance(backbone, PooledBackbone):
        return encode(backbone.encoder, points)
    if isinstance(backbone, SeasonalBackbone):
        tokens = embed(backbone.transformer, points)
        return np.concatenate([tokens, points.y, np.ones((len(tokens), 1))], axis=1)
    if isinstance(backbone, TransformerBackbone):
        features = [mlp(backbone.embedding, points.y)]
        for layer in backbone.layers[:-1]:
            features.append(transformer_layer(layer, features[-1], points.x, features[-1], points.x))
        return np.concatenate([*features, points.x], axis=1)
    return np.concatenate([mlp(backbone.coordinate_encoder, points.x), encode(backbone.value_encoder, points)], axis=1)


def read(backbone: AbstractBackbone, x: Array, tokens: Array, weights: Array | None = None) -> Array:
    """One representation of the tokens an input: their mean, or what cross-attention makes of them."""
    if isinstance(backbone, PooledBackbone):
        return np.tile(np.average(tokens, axis=0, weights=weights), (len(x), 1))
    if isinstance(backbone, SeasonalBackbone):
        return read_seasonal(backbone, x, tokens, weights)
    if isinstance(backbone, TransformerBackbone):
        features, at = np.split(tokens, [len(backbone.layers) * backbone.width], axis=1)
        rows = np.tile(np.asarray(backbone.target), (len(x), 1))
        for layer, source in zip(backbone.layers, np.split(features, len(backbone.layers), axis=1), strict=True):
            rows = transformer_layer(layer, rows, x, source, at, weights)
        return layer_norm(backbone.norm, rows)
    keys, values = np.split(tokens, 2, axis=1)
    return attention(backbone.cross_attention, mlp(backbone.coordinate_encoder, x), keys, values, weights)


def read_seasonal(backbone: SeasonalBackbone, x: Array, tokens: Array, weights: Array | None = None) -> Array:
    """What the transformer makes of the tokens, and what the reader makes of the folded observations among them."""
    own, y, observed = np.split(tokens, [backbone.transformer.token_dim, -1], axis=1)
    is_observed = observed[:, 0] > 0
    at, counts = own[is_observed, -backbone.x_dim :], np.ones(len(tokens)) if weights is None else weights
    folded = folded_features(backbone.num_periods, at, y[is_observed], counts[is_observed], x)
    return np.concatenate([read(backbone.transformer, x, own, weights), mlp(backbone.reader, folded)], axis=1)


def folded_features(num_periods: int, at: Array, y: Array, weights: Array, x: Array) -> Array:
    """Five features per kernel and output, or kernel: one point, one frequency and one target at a time."""
    frequencies = (2 * np.pi * np.linspace(0.5, 10.5, num_periods)).astype(np.float32).astype(float)
    waves = [frequency * axis for axis in np.eye(x.shape[1]) for frequency in frequencies]
    columns, count = [], weights.sum()
    centre = weights @ y / max(count, 1)
    spread = float((weights @ (y - centre) ** 2).mean()) / max(count, 1) + 1e-6
    for sharpness in (4.0, 20.0):

        def average(where: Array, wave: Array, shares: Array, sharpness: float = sharpness) -> tuple[Array, float]:
            kernel = shares * np.exp(sharpness * (np.cos((where - at) @ wave) - 1))
            return kernel @ y / (kernel.sum() + 1e-2), float(kernel.sum())

        support = []
        for wave in waves:
            errors, trusts = [spread], [1.0]
            for i in range(len(at)):
                others = weights - np.minimum(weights, 1) * (np.arange(len(at)) == i)
                mean, mass = average(at[i], wave, others)
                trusts.append(min(mass, 1.0) * weights[i])
                errors.append(trusts[-1] * float(np.mean((y[i] - mean) ** 2)))
            support.append(-0.5 * count * np.log(sum(errors) / sum(trusts) / spread))
        belief = np.exp(np.array(support) - max(support))
        belief /= belief.sum()
        rows = []
        for target in x:
            answers = [average(target, wave, weights) for wave in waves]
            means, masses = np.array([mean for mean, _ in answers]), np.array([mass for _, mass in answers])
            mean = belief @ means
            deviation = np.sqrt(belief @ (means - mean) ** 2 + 1e-6)
            rows.append([*mean, *deviation, np.log(belief @ masses + 1e-2), belief.max(), max(support) / (count + 1)])
        columns.append(np.array(rows))
    return np.concatenate(columns, axis=1)


def decode(decoder: Decoder, features: Array) -> Normal:
    loc, raw = np.split(mlp(decoder.mlp, features), 2, axis=1)
    return Normal(loc, decoder.sigma_min + (1 - decoder.sigma_min) * softplus(raw))


def function_of(model: AbstractNeuralProcess, tokens: Array, x: Array, weights: Array | None = None) -> Normal:
    """The function that a set of tokens stands for, at the inputs."""
    representation = read(model.backbone, x, tokens, weights)
    return decode(model.decoder, np.concatenate([x[:, : model.decoder.direct_dim], representation], axis=1))
