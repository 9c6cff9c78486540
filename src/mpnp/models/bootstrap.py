"""Functional uncertainty from a bootstrap of context points and residuals: BNP and BANP."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from mpnp.models.backbones.base import AbstractBackbone, InputFeatures, Query
from mpnp.models.base import AbstractNeuralProcess, LossTerms
from mpnp.models.parts import Parts
from mpnp.nn.likelihoods.decoder import Decoder
from mpnp.nn.likelihoods.predictive import Predictive, log_mean_exp
from mpnp.nn.linear import Linear
from mpnp.tasks.task import PointSet, Task, masked_mean

__all__ = ["BootstrapNP", "Resamples", "resample_indices"]


class Resamples(eqx.Module):
    """For each slot of a bootstrap sample, the context slot that it repeats: for points and for residuals."""

    points: Int[Array, "sample context"]
    residuals: Int[Array, "sample context"]


class BootstrapNP(AbstractNeuralProcess):
    """Two-stage bootstrap, with an adaptation layer that adds it to the base representation (Lee et al., 2020)."""

    backbone: AbstractBackbone
    decoder: Decoder
    adaptation: Linear

    @classmethod
    def assemble(cls, backbone_type: type[AbstractBackbone], parts: Parts) -> "BootstrapNP":
        backbone = backbone_type.assemble(parts)
        adaptation = parts.linear(backbone.width, parts.x_dim + backbone.width)
        return cls(backbone, parts.decoder(backbone.direct_dim, backbone.width), adaptation)

    def draw_noise(self, context: PointSet, num_samples: int, *, key: PRNGKeyArray) -> Resamples:
        points_key, residuals_key = jax.random.split(key)
        return Resamples(
            resample_indices(context.mask, num_samples, key=points_key),
            resample_indices(context.mask, num_samples, key=residuals_key),
        )

    def loss_terms(self, task: Task, noise: Resamples) -> LossTerms:
        input_features = self.backbone.encode_inputs(task.x)
        representation, predictive = self._predict(
            task.context, input_features[: task.context_slots], task.x, self.backbone.query_encoded(input_features), noise
        )
        base = self.decode_representation(task.x, representation).with_noise(task.known_noise)
        measured = predictive.with_noise(task.known_noise)
        return {
            "bootstrap": -log_mean_exp(task.loss_sum(measured.component_log_prob(task.y))) / task.loss_count,
            "base": -task.loss_mean(base.log_prob(task.y)),
        }

    def predict_given(self, context: PointSet, x_target: Float[Array, "target x_dim"], noise: Resamples) -> Predictive:
        return self._predict(context, self.backbone.encode_inputs(context.x), x_target, self.backbone.query(x_target), noise)[1]

    def _predict(
        self,
        context: PointSet,
        input_features: InputFeatures,
        x_target: Float[Array, "target x_dim"],
        query: Query,
        noise: Resamples,
    ) -> tuple[Float[Array, "#target width"], Predictive]:
        """The base representation of the context, and the prediction from it and its bootstrap samples."""
        base, resampled = (
            self.backbone.read_query(query, self.backbone.embed_encoded(points, input_features))
            for points in (context, self.bootstrap(context, input_features, noise))
        )
        shift_x, shift_representation = jnp.split(self.adaptation(resampled), [x_target.shape[-1]], axis=-1)
        return base, self.decoder(x_target + shift_x, base + shift_representation)

    def bootstrap(self, context: PointSet, input_features: InputFeatures, noise: Resamples) -> PointSet:
        """Contexts with resampled residuals, one per sample, at the inputs of the true context; `input_features` encode these.

        No gradient flows through this: a resampled context is data, as in Lee et al. (2020).
        """
        # A sample with replacement has the same points with other counts, so each point is prepared only once.
        slots = jnp.arange(context.mask.shape[0])
        counts = jnp.sum(noise.points[..., None] == slots, axis=-2, where=context.mask[:, None])
        recounted = self.backbone.embed_encoded(PointSet(context.x, context.y, context.mask, counts), input_features)
        fit = self.decode_query(context.x, self.backbone.query_encoded(input_features), recounted)
        residuals = (context.y - fit.loc) / fit.scale
        residuals = jnp.take_along_axis(residuals, noise.residuals[..., None], axis=-2)
        centre = masked_mean(jnp.swapaxes(residuals, -1, -2), context.mask)
        y = fit.loc + fit.scale * (residuals - centre[..., None, :])
        return PointSet(context.x, jax.lax.stop_gradient(y), context.mask)


def resample_indices(mask: Bool[Array, " context"], num_samples: int, *, key: PRNGKeyArray) -> Int[Array, "sample context"]:
    """For each slot of each sample, a slot drawn uniformly from those in the mask."""
    # The slot axis leads, so that padding does not change the draws.
    position = jax.random.uniform(key, (mask.shape[0], num_samples))
    count = jnp.maximum(mask.sum(), 1)
    rank = jnp.minimum((position * count).astype(jnp.int32), count - 1)
    occupied_first = jnp.argsort(~mask, stable=True)
    return occupied_first[rank].T
