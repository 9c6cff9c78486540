"""Functional uncertainty from the bootstrap of context points and residuals: BNP and BANP."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from mpnp.models.contract import AbstractNeuralProcess, LossTerms
from mpnp.networks.backbones.contract import AbstractBackbone, Places, Question
from mpnp.networks.decoder import GaussianDecoder
from mpnp.networks.dense import Linear
from mpnp.networks.predictive import Predictive
from mpnp.tasks.task import PointSet, Task, masked_mean

__all__ = ["BootstrapNP", "Resamples", "resample_indices"]


class Resamples(eqx.Module):
    """Which context slot each slot of a bootstrap sample repeats: once for the points, once for the residuals."""

    points: Int[Array, "sample context"]
    residuals: Int[Array, "sample context"]


class BootstrapNP(AbstractNeuralProcess):
    """Two-stage bootstrap and an adaptation layer that joins it to the base representation (Lee et al., 2020)."""

    backbone: AbstractBackbone
    decoder: GaussianDecoder
    adaptation: Linear

    def draw_noise(self, context: PointSet, num_samples: int, *, key: PRNGKeyArray) -> Resamples:
        points_key, residuals_key = jax.random.split(key)
        return Resamples(
            resample_indices(context.mask, num_samples, key=points_key),
            resample_indices(context.mask, num_samples, key=residuals_key),
        )

    def loss_terms(self, task: Task, noise: Resamples) -> LossTerms:
        places = self.backbone.locate(task.x)
        representation, predictive = self._predict(
            task.context, places[: task.context_slots], task.x, self.backbone.ask_at(places), noise
        )
        base = self.decode_representation(task.x, representation)
        return {
            "bootstrap": -predictive.joint_log_prob(task.y, task.asked) / task.num_asked,
            "base": -masked_mean(base.log_prob(task.y), task.asked),
        }

    def predict_given(self, context: PointSet, x_target: Float[Array, "target x_dim"], noise: Resamples) -> Predictive:
        return self._predict(context, self.backbone.locate(context.x), x_target, self.backbone.ask(x_target), noise)[1]

    def _predict(
        self,
        context: PointSet,
        places: Places,
        x_target: Float[Array, "target x_dim"],
        question: Question,
        noise: Resamples,
    ) -> tuple[Float[Array, "#target width"], Predictive]:
        """The representation that the context has by itself, and the prediction from it and its bootstrap samples."""
        base, resampled = (
            self.backbone.answer(question, self.backbone.embed_at(points, places))
            for points in (context, self.bootstrap(context, places, noise))
        )
        shift_x, shift_representation = jnp.split(self.adaptation(resampled), [x_target.shape[-1]], axis=-1)
        return base, self.decoder(x_target + shift_x, base + shift_representation)

    def bootstrap(self, context: PointSet, places: Places, noise: Resamples) -> PointSet:
        """Contexts with resampled residuals, one a sample, at the inputs of the true context, which lie at `places`.

        No gradient flows back through this: a resampled context is data, as in Lee et al. (2020).
        """
        # A sample with replacement is the same points with other counts: what depends on one point alone is computed once.
        slots = jnp.arange(context.mask.shape[0])
        counts = jnp.sum(noise.points[..., None] == slots, axis=-2, where=context.mask[:, None])
        recounted = self.backbone.embed_at(PointSet(context.x, context.y, context.mask, counts), places)
        fit = self.decode_asked(context.x, self.backbone.ask_at(places), recounted)
        residuals = (context.y - fit.loc) / fit.scale
        residuals = jnp.take_along_axis(residuals, noise.residuals[..., None], axis=-2)
        centre = masked_mean(jnp.swapaxes(residuals, -1, -2), context.mask)
        y = fit.loc + fit.scale * (residuals - centre[..., None, :])
        return PointSet(context.x, jax.lax.stop_gradient(y), context.mask)


def resample_indices(mask: Bool[Array, " context"], num_samples: int, *, key: PRNGKeyArray) -> Int[Array, "sample context"]:
    """For each slot of each sample, a slot drawn evenly from those in the mask."""
    # Slots lead, so that appending padded slots leaves the draws of the others as they were.
    position = jax.random.uniform(key, (mask.shape[0], num_samples))
    count = jnp.maximum(mask.sum(), 1)
    rank = jnp.minimum((position * count).astype(jnp.int32), count - 1)
    occupied_first = jnp.argsort(~mask, stable=True)
    return occupied_first[rank].T
