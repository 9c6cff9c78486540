"""Models that look at their own context first: remedies for data unlike those of training.

Either wraps a trained model and is a model itself. Neither sees anything but the context.
"""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from mpnp.models.backbones.base import AbstractBackbone
from mpnp.models.base import AbstractNeuralProcess, LossTerms, Noise
from mpnp.nn.likelihoods.decoder import Decoder
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.tasks.task import PointSet, Task

__all__ = ["Adapted", "Recalibrated"]

FACTORS = jnp.exp(jnp.linspace(math.log(0.5), math.log(8.0), 33))
"""What standard deviations may be multiplied with."""


class AbstractWrapped(AbstractNeuralProcess):
    """A model around a model."""

    model: eqx.AbstractVar[AbstractNeuralProcess]

    @property
    def backbone(self) -> AbstractBackbone:  # pyright: ignore[reportIncompatibleVariableOverride]
        """That of the model inside."""
        return self.model.backbone

    @property
    def decoder(self) -> Decoder:  # pyright: ignore[reportIncompatibleVariableOverride]
        """That of the model inside."""
        return self.model.decoder

    def num_components(self, num_samples: int) -> int:
        return self.model.num_components(num_samples)


class Recalibrated(AbstractWrapped):
    """Standard deviations scaled by the one factor under which parts of the context are best predicted from the rest."""

    model: AbstractNeuralProcess
    num_parts: int = eqx.field(static=True, default=5)

    def draw_noise(self, context: PointSet, num_samples: int, *, key: PRNGKeyArray) -> Noise:
        lot_key, parts_key, model_key = jax.random.split(key, 3)
        lot = jax.random.uniform(lot_key, context.mask.shape)
        rank = jnp.argsort(jnp.argsort(jnp.where(context.mask, lot, jnp.inf)))
        held_out = context.mask & (rank % self.num_parts == jnp.arange(self.num_parts)[:, None])

        def draw(held_out: Bool[Array, " point"], key: PRNGKeyArray) -> Noise:
            return self.model.draw_noise(_without(context, held_out), num_samples, key=key)

        parts = held_out, jax.vmap(draw)(held_out, jax.random.split(parts_key, self.num_parts))
        return parts, self.model.draw_noise(context, num_samples, key=model_key)

    def loss_terms(self, task: Task, noise: Noise) -> LossTerms:
        return self.model.loss_terms(task, noise[1])

    def predict_given(self, context: PointSet, x_target: Float[Array, "target x_dim"], noise: Noise) -> Predictive:
        parts, model_noise = noise
        answer = self.model.predict_given(context, x_target, model_noise)
        return dataclasses.replace(answer, scale=answer.scale * self.factor(context, parts))

    def factor(self, context: PointSet, parts: tuple[Bool[Array, "part point"], Noise]) -> Float[Array, ""]:
        """The best factor for a context, with a prior that it is one, give or take a factor of e."""

        def held_out_scores(part: tuple[Bool[Array, " point"], Noise]) -> Float[Array, " factor"]:
            held_out, noise = part
            answer = self.model.predict_given(_without(context, held_out), context.x, noise)

            def score(factor: Array) -> Array:
                scaled = dataclasses.replace(answer, scale=answer.scale * factor)
                return jnp.sum(scaled.log_prob(context.y), where=held_out)

            return jax.vmap(score)(FACTORS)

        scores = jax.lax.map(held_out_scores, parts).sum(axis=0)
        return FACTORS[jnp.argmax(scores - jnp.log(FACTORS) ** 2 / 2)]


def _without(context: PointSet, held_out: Bool[Array, " point"]) -> PointSet:
    return PointSet(context.x, context.y, context.mask & ~held_out)


class Adapted(AbstractWrapped):
    """The weights after a few steps of training on the context: at each, a random part of it is predicted from the rest."""

    model: AbstractNeuralProcess
    num_steps: int = eqx.field(static=True, default=20)
    learning_rate: float = eqx.field(static=True, default=3e-4)

    def draw_noise(self, context: PointSet, num_samples: int, *, key: PRNGKeyArray) -> Noise:
        def one_step(key: PRNGKeyArray) -> tuple[Bool[Array, " point"], Noise]:
            lot_key, share_key, model_key = jax.random.split(key, 3)
            share = jax.random.uniform(share_key, minval=0.3, maxval=0.8)
            in_part = jax.random.uniform(lot_key, context.mask.shape) < share
            return in_part, self.model.draw_noise(_without(context, ~in_part), num_samples, key=model_key)

        steps_key, model_key = jax.random.split(key)
        steps = jax.vmap(one_step)(jax.random.split(steps_key, self.num_steps))
        return steps, self.model.draw_noise(context, num_samples, key=model_key)

    def loss_terms(self, task: Task, noise: Noise) -> LossTerms:
        return self.model.loss_terms(task, noise[1])

    def predict_given(self, context: PointSet, x_target: Float[Array, "target x_dim"], noise: Noise) -> Predictive:
        steps, model_noise = noise
        return self.adapted(context, steps).predict_given(context, x_target, model_noise)

    def adapted(self, context: PointSet, steps: Noise) -> AbstractNeuralProcess:
        """The model inside, after its steps on the context."""
        optimizer = optax.adam(self.learning_rate)
        parameters, static = eqx.partition(self.model, eqx.is_inexact_array)

        def loss(parameters: AbstractNeuralProcess, in_part: Bool[Array, " point"], noise: Noise) -> Float[Array, ""]:
            task = Task(
                context.x,
                context.y,
                context.mask & in_part,
                context.mask & ~in_part,
                loss_weights=(~in_part).astype(context.y.dtype),
            )
            terms = eqx.combine(parameters, static).loss_terms(task, noise)
            return jnp.sum(jnp.stack(list(terms.values())))

        def descend(state: tuple[AbstractNeuralProcess, optax.OptState], step: tuple[Bool[Array, " point"], Noise]) -> tuple:
            (parameters, optimizer_state), (in_part, noise) = state, step
            gradient = jax.grad(loss)(parameters, in_part, noise)
            direction, optimizer_state = optimizer.update(gradient, optimizer_state)
            return (eqx.apply_updates(parameters, direction), optimizer_state), None

        (parameters, _), _ = jax.lax.scan(descend, (parameters, optimizer.init(parameters)), steps)
        return eqx.combine(parameters, static)
