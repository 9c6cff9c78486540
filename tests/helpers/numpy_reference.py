"""The losses and predictions of every model, written out in NumPy from the paper: one task, one sample at a time.

Nothing is shared with the library but the weights. There is no padding either: the points of a task are picked out
first, so that agreement also shows that padding has no effect.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from mpnp.models.backbones.base import AbstractBackbone
from mpnp.models.backbones.pooled import PooledBackbone
from mpnp.models.backbones.transformer import Layer, TransformerBackbone
from mpnp.models.base import AbstractNeuralProcess
from mpnp.models.bootstrap import BootstrapNP, Resamples
from mpnp.models.conditional import ConditionalNP
from mpnp.models.direct import DirectMartingaleNP, PointNoise, SimultaneousGenerator
from mpnp.models.latent import LatentNP
from mpnp.models.martingale import MartingaleNP
from mpnp.models.neural_bootstrap import NeuralBootstrapNP
from mpnp.nn.attention import ISAB, LayerNorm, MultiHeadAttention
from mpnp.nn.encoders import AbstractSetEncoder, PointwiseEncoder
from mpnp.nn.likelihoods.decoder import Decoder
from mpnp.nn.linear import MLP, Linear
from mpnp.nn.rotary import RotaryAttention, frequencies

__all__ = ["ELBO_REFERENCE", "REFERENCES", "Reference", "UnpaddedTask"]

Array = np.ndarray
Terms = dict[str, float]


@dataclasses.dataclass(frozen=True)
class Points:
    """A set of points, one a row."""

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


# Networks


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
    """One feature vector a point: an MLP, which with self-attention behind it also ends in a ReLU."""
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
    """One token a point: its representation, or its key and value, or its features before each layer and its input."""
    if isinstance(backbone, PooledBackbone):
        return encode(backbone.encoder, points)
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
    if isinstance(backbone, TransformerBackbone):
        features, at = np.split(tokens, [len(backbone.layers) * backbone.width], axis=1)
        rows = np.tile(np.asarray(backbone.target), (len(x), 1))
        for layer, source in zip(backbone.layers, np.split(features, len(backbone.layers), axis=1), strict=True):
            rows = transformer_layer(layer, rows, x, source, at, weights)
        return layer_norm(backbone.norm, rows)
    keys, values = np.split(tokens, 2, axis=1)
    return attention(backbone.cross_attention, mlp(backbone.coordinate_encoder, x), keys, values, weights)


def decode(decoder: Decoder, features: Array) -> Normal:
    loc, raw = np.split(mlp(decoder.mlp, features), 2, axis=1)
    return Normal(loc, decoder.sigma_min + (1 - decoder.sigma_min) * softplus(raw))


def function_of(model: AbstractNeuralProcess, tokens: Array, x: Array, weights: Array | None = None) -> Normal:
    """The function that a set of tokens stands for, at the inputs."""
    representation = read(model.backbone, x, tokens, weights)
    return decode(model.decoder, np.concatenate([x[:, : model.decoder.direct_dim], representation], axis=1))


# Averages over samples


def log_mean_exp(values: list[float]) -> float:
    largest = max(values)
    return largest + float(np.log(np.mean(np.exp(np.array(values) - largest))))


def joint_loss(functions: list[Normal], points: Points) -> float:
    """Minus the log of the mean over samples of the likelihood of all points together, a point."""
    return -log_mean_exp([float(function.log_prob(points.y).sum()) for function in functions]) / len(points.y)


def mean_loss(functions: list[Normal], points: Points) -> float:
    """Minus the mean over samples of the log-likelihood, a point."""
    return -float(np.mean([function.log_prob(points.y).sum() for function in functions])) / len(points.y)


# CNP, CANP


def conditional_predict(model: ConditionalNP, task: UnpaddedTask, x: Array, noise: None) -> list[Normal]:
    return [function_of(model, embed(model.backbone, task.context), x)]


def conditional_loss(model: ConditionalNP, task: UnpaddedTask, noise: None) -> Terms:
    functions = conditional_predict(model, task, task.points.x, noise)
    return {"negative_log_likelihood": mean_loss(functions, task.points)}


# NP, ANP


def infer(model: LatentNP, points: Points) -> Normal:
    mean, raw = np.split(encode(model.latent_encoder, points).mean(axis=0), 2)
    return Normal(mean, 0.1 + 0.9 * softplus(raw))


def latent_function(model: LatentNP, context: Points, x: Array, latent: Array) -> Normal:
    representation = read(model.backbone, x, embed(model.backbone, context))
    return decode(model.decoder, np.concatenate([x, representation, np.tile(latent, (len(x), 1))], axis=1))


def latent_predict(model: LatentNP, task: UnpaddedTask, x: Array, noise: Array) -> list[Normal]:
    q = infer(model, task.context)
    return [latent_function(model, task.context, x, q.loc + q.scale * draw) for draw in np.asarray(noise)]


def iwae_loss(model: LatentNP, task: UnpaddedTask, noise: Array) -> Terms:
    prior, posterior = infer(model, task.context), infer(model, task.points)
    log_weights = []
    for draw in np.asarray(noise):
        latent = posterior.loc + posterior.scale * draw
        log_likelihood = latent_function(model, task.context, task.points.x, latent).log_prob(task.points.y).sum()
        log_weights.append(float(log_likelihood + prior.log_prob(latent) - posterior.log_prob(latent)))
    return {"negative_bound": -log_mean_exp(log_weights) / task.n}


def elbo_loss(model: LatentNP, task: UnpaddedTask, noise: Array) -> Terms:
    prior, posterior = infer(model, task.context), infer(model, task.points)
    functions = [
        latent_function(model, task.context, task.points.x, posterior.loc + posterior.scale * draw)
        for draw in np.asarray(noise)
    ]
    kl = np.sum(
        np.log(prior.scale / posterior.scale)
        + (posterior.scale**2 + (posterior.loc - prior.loc) ** 2) / (2 * prior.scale**2)
        - 0.5
    )
    return {"negative_bound": mean_loss(functions, task.points) + float(kl) / task.n}


# BNP, BANP


def bootstrap(model: BootstrapNP, context: Points, points: list[int], residuals: list[int]) -> Points:
    """The context with new outputs: those of a function of resampled points, plus its resampled residuals."""
    fit = function_of(model, embed(model.backbone, context[points]), context.x)
    resampled = ((context.y - fit.loc) / fit.scale)[residuals]
    return Points(context.x, fit.loc + fit.scale * (resampled - resampled.mean(axis=0)))


def bootstrap_predict(model: BootstrapNP, task: UnpaddedTask, x: Array, noise: Resamples) -> list[Normal]:
    slots = task.context_slots

    def positions(indices: Array) -> list[int]:
        return [slots.index(slot) for slot in indices[slots].tolist()]

    base = read(model.backbone, x, embed(model.backbone, task.context))
    functions = []
    for points, residuals in zip(np.asarray(noise.points), np.asarray(noise.residuals), strict=True):
        bootstrapped = bootstrap(model, task.context, positions(points), positions(residuals))
        adapted = linear(model.adaptation, read(model.backbone, x, embed(model.backbone, bootstrapped)))
        functions.append(decode(model.decoder, np.concatenate([x, base], axis=1) + adapted))
    return functions


def bootstrap_loss(model: BootstrapNP, task: UnpaddedTask, noise: Resamples) -> Terms:
    base = function_of(model, embed(model.backbone, task.context), task.points.x)
    return {
        "bootstrap": joint_loss(bootstrap_predict(model, task, task.points.x, noise), task.points),
        "base": mean_loss([base], task.points),
    }


# NeuBNP, NeuBANP


def dirichlet_weights(task: UnpaddedTask, noise: Array) -> Array:
    """Weights of the context points, which sum to their number in each sample."""
    exponentials = np.asarray(noise)[:, task.context_slots]
    return len(task.context_slots) * exponentials / exponentials.sum(axis=1, keepdims=True)


def neural_bootstrap_predict(model: NeuralBootstrapNP, task: UnpaddedTask, x: Array, noise: Array) -> list[Normal]:
    tokens = embed(model.backbone, task.context)
    return [function_of(model, tokens, x, weights) for weights in dirichlet_weights(task, noise)]


def neural_bootstrap_loss(model: NeuralBootstrapNP, task: UnpaddedTask, noise: Array) -> Terms:
    at_context = neural_bootstrap_predict(model, task, task.context.x, noise)
    at_target = neural_bootstrap_predict(model, task, task.target.x, noise)
    weighted = [
        float(np.sum(weights * function.log_prob(task.context.y)))
        for weights, function in zip(dirichlet_weights(task, noise), at_context, strict=True)
    ]
    target = [float(function.log_prob(task.target.y).sum()) for function in at_target]
    return {"weighted_context": -log_mean_exp(weighted) / task.n, "target": -log_mean_exp(target) / task.n}


# MPNP, MPANP, MPTNP


def pseudo_tokens(model: MartingaleNP, draw: Array, tokens: Array) -> Array:
    """The tokens of one pseudo context; in those of a transformer, the first features stand again at the end, as the input."""
    features = isab(model.generator, draw, tokens)
    if isinstance(model.backbone, TransformerBackbone):
        return np.concatenate([features, features[:, : model.backbone.x_dim]], axis=1)
    return features


def martingale_predict(model: MartingaleNP, task: UnpaddedTask, x: Array, noise: Array) -> list[Normal]:
    tokens = embed(model.backbone, task.context)
    draws = np.asarray(noise)
    return [function_of(model, np.concatenate([tokens, pseudo_tokens(model, draw, tokens)]), x) for draw in draws]


def martingale_loss(model: MartingaleNP, task: UnpaddedTask, noise: Array) -> Terms:
    x, tokens = task.points.x, embed(model.backbone, task.context)
    pseudo_only = [function_of(model, pseudo_tokens(model, draw, tokens), x) for draw in np.asarray(noise)]
    return {
        "marginal": joint_loss(martingale_predict(model, task, x, noise), task.points),
        "amortisation": mean_loss([function_of(model, tokens, x)], task.points),
        "pseudo": mean_loss(pseudo_only, task.points),
    }


# Direct MPNP, MPANP


def unions(model: DirectMartingaleNP, context: Points, noise: PointNoise) -> list[Points]:
    """The context together with the pseudo context points of each sample."""
    generator, sets = model.generator, []
    for draw, output_draw in zip(np.asarray(noise.points), np.asarray(noise.outputs), strict=True):
        generated = linear(generator.projection, isab(generator.isab, draw, context.rows))
        if isinstance(generator, SimultaneousGenerator):
            x_dim = context.x.shape[1]
            pseudo = Points(generated[:, :x_dim], generated[:, x_dim:])
        else:
            outputs = function_of(model, embed(model.backbone, context), generated)
            pseudo = Points(generated, outputs.loc + outputs.scale * output_draw)
        sets.append(context.union(pseudo))
    return sets


def direct_predict(model: DirectMartingaleNP, task: UnpaddedTask, x: Array, noise: PointNoise) -> list[Normal]:
    return [function_of(model, embed(model.backbone, union), x) for union in unions(model, task.context, noise)]


def direct_loss(model: DirectMartingaleNP, task: UnpaddedTask, noise: PointNoise) -> Terms:
    own_losses = [
        mean_loss([function_of(model, embed(model.backbone, union), union.x)], union)
        for union in unions(model, task.context, noise)
    ]
    return {
        "marginal": joint_loss(direct_predict(model, task, task.points.x, noise), task.points),
        "amortisation": float(np.mean(own_losses)),
    }


@dataclasses.dataclass(frozen=True)
class Reference:
    """What a model's loss and its samples' predictions at given inputs should be."""

    loss_terms: Callable[[Any, UnpaddedTask, Any], Terms]
    predict: Callable[[Any, UnpaddedTask, Array, Any], list[Normal]]


_CONDITIONAL = Reference(conditional_loss, conditional_predict)
_LATENT = Reference(iwae_loss, latent_predict)
_BOOTSTRAP = Reference(bootstrap_loss, bootstrap_predict)
_NEURAL_BOOTSTRAP = Reference(neural_bootstrap_loss, neural_bootstrap_predict)
_MARTINGALE = Reference(martingale_loss, martingale_predict)
_DIRECT = Reference(direct_loss, direct_predict)

REFERENCES: dict[str, Reference] = {
    "cnp": _CONDITIONAL,
    "np": _LATENT,
    "bnp": _BOOTSTRAP,
    "neubnp": _NEURAL_BOOTSTRAP,
    "mpnp": _MARTINGALE,
    "mpnp-dsi": _DIRECT,
    "mpnp-dse": _DIRECT,
    "canp": _CONDITIONAL,
    "anp": _LATENT,
    "banp": _BOOTSTRAP,
    "neubanp": _NEURAL_BOOTSTRAP,
    "mpanp": _MARTINGALE,
    "mpanp-dsi": _DIRECT,
    "mpanp-dse": _DIRECT,
    "tnp": _CONDITIONAL,
    "mptnp": _MARTINGALE,
}
"""By the names of the registry."""

ELBO_REFERENCE = Reference(elbo_loss, latent_predict)
"""Of np and anp with that bound instead of the importance-weighted one."""
