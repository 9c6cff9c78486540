"""Martingale posteriors with generated points $(x', y')$ as pseudo context: the -DSI and -DSE models."""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from mpnp.models.backbones.base import AbstractBackbone
from mpnp.models.base import LossTerms
from mpnp.models.martingale import AbstractMartingaleNP
from mpnp.models.parts import Parts
from mpnp.nn.attention import ISAB
from mpnp.nn.likelihoods.decoder import Decoder
from mpnp.nn.likelihoods.predictive import Predictive, log_mean_exp
from mpnp.nn.linear import Linear
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
    """Noise from which points are generated, and standard noise for outputs drawn after their inputs."""

    points: Float[Array, "sample pseudo noise_dim"]
    outputs: Float[Array, "sample pseudo y_dim"]


PredictAt = Callable[[Float[Array, "sample pseudo x_dim"]], Predictive]
"""Predicts at generated inputs from the context alone."""


class AbstractPointGenerator(eqx.Module):
    """Generates pseudo points from noise and the context."""

    @abc.abstractmethod
    def __call__(self, context: PointSet, noise: PointNoise, predict_at: PredictAt) -> PointSet:
        """One set of pseudo points per sample."""


class SimultaneousGenerator(AbstractPointGenerator):
    """DSI: generates inputs and outputs of the pseudo points together."""

    isab: ISAB
    projection: Linear

    def __call__(self, context: PointSet, noise: PointNoise, predict_at: PredictAt) -> PointSet:
        rows = generate_rows(self.isab, self.projection, context, noise.points)
        x, y = jnp.split(rows, [context.x.shape[-1]], axis=-1)
        return PointSet(x, y, jnp.ones(x.shape[:-1], bool))


class SequentialGenerator(AbstractPointGenerator):
    """DSE: generates inputs, then draws the outputs there from the model's prediction."""

    isab: ISAB
    projection: Linear

    def __call__(self, context: PointSet, noise: PointNoise, predict_at: PredictAt) -> PointSet:
        x = generate_rows(self.isab, self.projection, context, noise.points)
        predictive = predict_at(x)
        return PointSet(x, predictive.loc + predictive.scale * noise.outputs, jnp.ones(x.shape[:-1], bool))


class DirectMartingaleNP(AbstractMartingaleNP):
    """Encodes context and pseudo points as one set (Lee et al., 2023, appendix D)."""

    backbone: AbstractBackbone
    decoder: Decoder
    generator: AbstractPointGenerator
    noise_dim: int = eqx.field(static=True)
    num_pseudo: int = eqx.field(static=True)

    @classmethod
    def simultaneous(cls, backbone_type: type[AbstractBackbone], parts: Parts) -> "DirectMartingaleNP":
        """Build the -DSI model."""
        width, point_dim = parts.settings.width, parts.x_dim + parts.y_dim
        generator = SimultaneousGenerator(parts.isab(width, point_dim), parts.linear(width, point_dim))
        return cls._with_generator(generator, backbone_type, parts)

    @classmethod
    def sequential(cls, backbone_type: type[AbstractBackbone], parts: Parts) -> "DirectMartingaleNP":
        """Build the -DSE model."""
        width = parts.settings.width
        generator = SequentialGenerator(parts.isab(width, parts.x_dim + parts.y_dim), parts.linear(width, parts.x_dim))
        return cls._with_generator(generator, backbone_type, parts)

    @classmethod
    def _with_generator(
        cls, generator: AbstractPointGenerator, backbone_type: type[AbstractBackbone], parts: Parts
    ) -> "DirectMartingaleNP":
        backbone, settings = backbone_type.assemble(parts), parts.settings
        return cls(
            backbone=backbone,
            decoder=parts.decoder(backbone.direct_dim, backbone.width),
            generator=generator,
            noise_dim=settings.width,
            num_pseudo=settings.num_pseudo,
        )

    def draw_noise(self, context: PointSet, num_samples: int, *, key: PRNGKeyArray) -> PointNoise:
        points_key, outputs_key = jax.random.split(key)
        shape = (num_samples, self.num_pseudo)
        return PointNoise(
            jax.random.normal(points_key, (*shape, self.noise_dim), self.dtype),
            self.decoder.distribution.sample((*shape, self.y_dim), self.dtype, key=outputs_key),
        )

    def generate(self, context: PointSet, noise: PointNoise) -> PointSet:
        """Generate pseudo contexts $Z' \\sim p(Z' | Z_c)$, exchangeable along the pseudo axis."""
        tokens = self.backbone.embed(context)
        return self.generator(context, noise, lambda x: self.decode(x, tokens))

    def loss_terms(self, task: Task, noise: PointNoise) -> LossTerms:
        """$L_{marg} + L_{amort}$, where the latter is how well a function fits the set that it was read from."""
        completed = task.context.union(self.generate(task.context, noise))
        input_features = self.backbone.encode_inputs(completed.x)
        tokens = self.backbone.embed_encoded(completed, input_features)
        predictive = self.decode(task.x, tokens).with_noise(task.known_noise)
        marginal = log_mean_exp(task.loss_sum(predictive.component_log_prob(task.y)))
        again = self.decode_query(completed.x, self.backbone.query_encoded(input_features), tokens)
        if task.known_noise is not None:  # which generated points do not have
            again = again.with_noise(jnp.pad(task.known_noise[: task.context_slots], (0, self.num_pseudo)))
        fit = again.component_log_prob(completed.y)
        return {
            "marginal": -marginal / task.loss_count,
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
    """Transform noise by the ISAB, with the context points as inducing points, and project it to rows of points."""
    points = jnp.concatenate([context.x, context.y], axis=-1)
    return projection(isab(noise, points, context.mask.astype(points.dtype)))
