"""Predictive resampling: draw functions from the martingale posterior (Fong, Holmes and Walker, 2021).

Draw the next observation from the model's own prediction, append it to the context, and repeat. The prediction given the
completed context is one function from the martingale posterior. This needs no training and works for every model.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from mpnp.models.backbones.base import InputFeatures
from mpnp.models.base import AbstractNeuralProcess, AbstractTokenReader, Noise
from mpnp.nn.encoders import GrowingPoints
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.tasks.task import PointSet

__all__ = ["chain_log_prob", "complete_contexts", "read_functions"]


STEPS_AT_ONCE = 16
"""Steps of the chain rule that are computed in parallel. All contexts are known in advance, so no step waits for another."""


def complete_contexts(
    model: AbstractNeuralProcess,
    context: PointSet,
    inputs: Float[Array, "draw future x_dim"],
    num_future: Int[Array, ""] | int,
    *,
    key: PRNGKeyArray,
) -> PointSet:
    """Append future observations at the first `num_future` inputs, drawn one after another; one completed context per draw.

    Inputs beyond them are padding, so that one program serves many numbers at the cost of each.
    """
    keys = jax.random.split(key, len(inputs))
    return jax.vmap(lambda x_future, key: _complete(model, context, x_future, num_future, key))(inputs, keys)


def read_functions(
    model: AbstractNeuralProcess, completed: PointSet, x_target: Float[Array, "target x_dim"], *, key: PRNGKeyArray
) -> Predictive:
    """One function per completed context: its values as location, and the observation noise as scale."""

    def read(context: PointSet, key: PRNGKeyArray) -> Predictive:
        return model.predict_given(context, x_target, model.draw_noise(context, 1, key=key))

    functions = jax.vmap(read)(completed, jax.random.split(key, len(completed.mask)))
    return jax.tree.map(lambda leaf: leaf[:, 0], functions)


def chain_log_prob(
    model: AbstractNeuralProcess,
    context: PointSet,
    points: PointSet,
    order: Int[Array, " point"],
    *,
    key: PRNGKeyArray,
    num_samples: int,
) -> Float[Array, ""]:
    """$\\sum_i \\log p(y_i | Z_c, Z_{<i})$ of the points in this order: a joint log density by the chain rule."""
    rank = jnp.argsort(order)

    def step(number: Int[Array, ""], key: PRNGKeyArray) -> Float[Array, ""]:
        point = order[number]
        before = context.union(PointSet(points.x, points.y, points.mask & (rank < number)))
        noise = model.draw_noise(before, num_samples, key=key)
        log_prob = model.predict_given(before, points.x[point][None], noise).log_prob(points.y[point][None])[0]
        return jnp.where(points.mask[point], log_prob, 0.0)

    numbered = jnp.arange(len(order)), jax.random.split(key, len(order))
    return jax.lax.map(lambda arguments: step(*arguments), numbered, batch_size=STEPS_AT_ONCE).sum()


def _complete(
    model: AbstractNeuralProcess,
    context: PointSet,
    x_future: Float[Array, "future x_dim"],
    num_future: Int[Array, ""] | int,
    key: PRNGKeyArray,
) -> PointSet:
    """Complete the context once."""
    keys = jax.random.split(key, len(x_future))
    if isinstance(model, AbstractTokenReader):
        growing = _GrowingTokens(model, context, x_future)
    else:
        growing = _GrowingPoints(model, context, x_future)

    def known(y_future: Float[Array, "future y_dim"], number: Int[Array, ""] | int) -> PointSet:
        return context.union(PointSet(x_future, y_future, jnp.arange(len(x_future)) < number))

    def draw_next(number: Int[Array, ""], grown: Grown) -> Grown:
        y_future, state = grown
        noise_key, output_key = jax.random.split(keys[number])
        before = known(y_future, number)
        # One sampled function plus noise is one draw from the predictive mixture.
        predictive = growing.predict(state, before, number, model.draw_noise(before, 1, key=noise_key))
        (y,) = predictive.sample(1, key=output_key, noise=True)
        y_future = y_future.at[number].set(y[0])
        return y_future, growing.append(state, y, number, known(y_future, number + 1))

    start = jnp.zeros((len(x_future), context.y.shape[-1]), context.y.dtype), growing.start()
    y_future, _ = jax.lax.fori_loop(0, num_future, draw_next, start)
    return known(y_future, num_future)


Grown = tuple[Float[Array, "future y_dim"], Any]
"""Outputs drawn so far, and the encoded context."""


class _GrowingPoints(eqx.Module):
    """Encodes the whole context anew for each prediction, for models that read its points themselves."""

    model: AbstractNeuralProcess
    context: PointSet
    x_future: Float[Array, "future x_dim"]

    def start(self) -> None:
        return None

    def predict(self, state: None, known: PointSet, number: Int[Array, ""], noise: Noise) -> Predictive:
        return self.model.predict_given(known, self.x_future[number][None], noise)

    def append(self, state: None, y: Float[Array, "1 y_dim"], number: Int[Array, ""], known: PointSet) -> None:
        return None


class _GrowingTokens(eqx.Module):
    """Encodes only the new point, for models that read the context only through tokens."""

    model: AbstractTokenReader
    context: PointSet
    x_future: Float[Array, "future x_dim"]
    features: InputFeatures

    def __init__(self, model: AbstractTokenReader, context: PointSet, x_future: Float[Array, "future x_dim"]) -> None:
        self.model, self.context, self.x_future = model, context, x_future
        self.features = model.backbone.encode_inputs(x_future)

    def start(self) -> GrowingPoints:
        backbone, num_future = self.model.backbone, len(self.x_future)
        prepared = backbone.prepare(self.context, backbone.encode_inputs(self.context.x))
        padded = jax.tree.map(lambda rows: jnp.pad(rows, [(0, num_future)] + [(0, 0)] * (rows.ndim - 1)), prepared)
        return backbone.start_growing(padded, jnp.pad(self.context.counts, (0, num_future)))

    def predict(self, state: GrowingPoints, known: PointSet, number: Int[Array, ""], noise: Noise) -> Predictive:
        backbone = self.model.backbone
        tokens, query = backbone.relate_grown(state, known.counts), backbone.query_encoded(self.features[number][None])
        return self.model.predict_tokens(tokens, self.x_future[number][None], query, noise)

    def append(
        self, state: GrowingPoints, y: Float[Array, "1 y_dim"], number: Int[Array, ""], known: PointSet
    ) -> GrowingPoints:
        point = PointSet(self.x_future[number][None], y, jnp.ones(1, bool))
        row = self.model.backbone.prepare(point, self.features[number][None])
        slot = len(self.context.mask) + number
        return self.model.backbone.grow(state, row, slot, known.counts)
