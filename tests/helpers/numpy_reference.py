"""The losses and predictions of every model, written out in NumPy from the paper: one task, one sample at a time.

Nothing is shared with the library but the weights. There is no padding either: the points of a task are picked out
first, so that agreement also shows that padding has no effect.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from helpers.numpy_networks import (
    Array,
    Normal,
    Points,
    UnpaddedTask,
    decode,
    embed,
    encode,
    function_of,
    isab,
    linear,
    read,
    softplus,
)
from mpnp.models.backbones.seasonal import SeasonalBackbone
from mpnp.models.backbones.transformer import TransformerBackbone
from mpnp.models.bootstrap import BootstrapNP, Resamples
from mpnp.models.conditional import ConditionalNP
from mpnp.models.direct import DirectMartingaleNP, PointNoise, SimultaneousGenerator
from mpnp.models.latent import LatentNP
from mpnp.models.martingale import MartingaleNP
from mpnp.models.neural_bootstrap import NeuralBootstrapNP

__all__ = ["ELBO_REFERENCE", "REFERENCES", "Reference", "UnpaddedTask"]

Terms = dict[str, float]


# Averages over samples


def log_mean_exp(values: list[float]) -> float:
    largest = max(values)
    return largest + float(np.log(np.mean(np.exp(np.array(values) - largest))))


def joint_loss(functions: list[Normal], points: Points) -> float:
    """Minus the log of the mean over samples of the likelihood of all points together, divided by their number."""
    return -log_mean_exp([float(function.log_prob(points.y).sum()) for function in functions]) / len(points.y)


def mean_loss(functions: list[Normal], points: Points) -> float:
    """Minus the mean over samples of the log-likelihood, divided by the number of points."""
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
    return decode(
        model.decoder, np.concatenate([x[:, : model.decoder.direct_dim], representation, np.tile(latent, (len(x), 1))], axis=1)
    )


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
    if isinstance(model.backbone, TransformerBackbone | SeasonalBackbone):
        features = np.concatenate([features, features[:, : model.backbone.x_dim]], axis=1)
    if isinstance(model.backbone, SeasonalBackbone):  # generated points are no observations
        features = np.concatenate([features, np.zeros((len(features), model.backbone.y_dim + 1))], axis=1)
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
    "ltnp": _LATENT,
    "mptnp": _MARTINGALE,
    "stnp": _CONDITIONAL,
    "mpstnp": _MARTINGALE,
}
"""By the names of the registry."""

ELBO_REFERENCE = Reference(elbo_loss, latent_predict)
"""Of np and anp with that bound instead of the importance-weighted one."""
