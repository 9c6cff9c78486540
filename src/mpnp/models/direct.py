"""Martingale posteriors whose pseudo context is generated as points $(x', y')$: the -DSI and -DSE models."""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from mpnp.models.contract import LossTerms
from mpnp.models.martingale import AbstractMartingaleNP
from mpnp.networks.attention import ISAB
from mpnp.networks.backbones.contract import AbstractBackbone
from mpnp.networks.decoder import GaussianDecoder
from mpnp.networks.dense import Linear
from mpnp.networks.predictive import Predictive
from mpnp.tasks.task import PointSet, Task, masked_mean

__all__ = [
    "AbstractPointGenerator",
    "DirectMartingaleNP",
    "PointNoise",
    "SequentialGenerator",
    "SimultaneousGenerator",
    "generate_rows",
]


class PointNoise(eqx.Module):
    """Noise that becomes points, and standard normals for outputs that are drawn after their inputs."""

    points: Float[Array, "sample pseudo noise_dim"]
    outputs: Float[Array, "sample pseudo y_dim"]


PredictAt = Callable[[Float[Array, "sample pseudo x_dim"]], Predictive]
"""The model's own prediction, from the context alone, at generated inputs."""


class AbstractPointGenerator(eqx.Module):
    """Makes pseudo points from noise and the context."""

    @abc.abstractmethod
    def __call__(self, context: PointSet, noise: PointNoise, predict_at: PredictAt) -> PointSet:
        """One set of pseudo points a sample."""


class SimultaneousGenerator(AbstractPointGenerator):
    """DSI: inputs and outputs of the pseudo points come out of the generator together."""

    isab: ISAB
    projection: Linear

    def __call__(self, context: PointSet, noise: PointNoise, predict_at: PredictAt) -> PointSet:
        rows = generate_rows(self.isab, self.projection, context, noise.points)
        x, y = jnp.split(rows, [context.x.shape[-1]], axis=-1)
        return PointSet(x, y, jnp.ones(x.shape[:-1], bool))


class SequentialGenerator(AbstractPointGenerator):
    """DSE: inputs come out of the generator; their outputs are drawn from the model's prediction there."""

    isab: ISAB
    projection: Linear

    def __call__(self, context: PointSet, noise: PointNoise, predict_at: PredictAt) -> PointSet:
        x = generate_rows(self.isab, self.projection, context, noise.points)
        predictive = predict_at(x)
        return PointSet(x, predictive.loc + predictive.scale * noise.outputs, jnp.ones(x.shape[:-1], bool))


class DirectMartingaleNP(AbstractMartingaleNP):
    """The context and its pseudo points are encoded as one set (Lee et al., 2023, appendix D)."""

    backbone: AbstractBackbone
    decoder: GaussianDecoder
    generator: AbstractPointGenerator
    noise_dim: int = eqx.field(static=True)
    num_pseudo: int = eqx.field(static=True)

    def draw_noise(self, context: PointSet, num_samples: int, *, key: PRNGKeyArray) -> PointNoise:
        points_key, outputs_key = jax.random.split(key)
        shape = (num_samples, self.num_pseudo)
        return PointNoise(
            jax.random.normal(points_key, (*shape, self.noise_dim), self.dtype),
            jax.random.normal(outputs_key, (*shape, self.y_dim), self.dtype),
        )

    def generate(self, context: PointSet, noise: PointNoise) -> PointSet:
        """The pseudo contexts $Z' \\sim p(Z' | Z_c)$, exchangeable along the pseudo axis."""
        tokens = self.backbone.embed(context)
        return self.generator(context, noise, lambda x: self.decode(x, tokens))

    def loss_terms(self, task: Task, noise: PointNoise) -> LossTerms:
        """$L_{marg}$, and $L_{amort}$: how well the function fits the very set it was made from."""
        completed = task.context.union(self.generate(task.context, noise))
        places = self.backbone.locate(completed.x)
        tokens = self.backbone.embed_at(completed, places)
        marginal = self.decode(task.x, tokens).joint_log_prob(task.y, task.asked)
        fit = self.decode_asked(completed.x, self.backbone.ask_at(places), tokens).component_log_prob(completed.y)
        return {
            "marginal": -marginal / task.num_asked,
            "amortisation": -masked_mean(fit, completed.mask).mean(),
        }

    def predict_given(self, context: PointSet, x_target: Float[Array, "target x_dim"], noise: PointNoise) -> Predictive:
        completed = context.union(self.generate(context, noise))
        return self.decode(x_target, self.backbone.embed(completed))

    def predict_pseudo_only_given(
        self, context: PointSet, x_target: Float[Array, "target x_dim"], noise: PointNoise
    ) -> Predictive:
        return self.decode(x_target, self.backbone.embed(self.generate(context, noise)))


def generate_rows(
    isab: ISAB, projection: Linear, context: PointSet, noise: Float[Array, "sample pseudo noise_dim"]
) -> Float[Array, "sample pseudo out_dim"]:
    """Noise through the ISAB, with the context's points as inducing points, then down to the wanted dimensions."""
    points = jnp.concatenate([context.x, context.y], axis=-1)
    return projection(isab(noise, points, context.mask.astype(points.dtype)))
