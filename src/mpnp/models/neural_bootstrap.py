"""Functional uncertainty from random weights on the context: NeuBNP and NeuBANP."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from mpnp.models.backbones.base import AbstractBackbone, Tokens
from mpnp.models.base import AbstractNeuralProcess, LossTerms
from mpnp.models.parts import Parts
from mpnp.nn.likelihoods.decoder import Decoder
from mpnp.nn.likelihoods.predictive import Predictive, log_mean_exp
from mpnp.tasks.task import PointSet, Task

__all__ = ["NeuralBootstrapNP", "bootstrap_weights"]


class NeuralBootstrapNP(AbstractNeuralProcess):
    """Bayesian bootstrap: Dirichlet weights on the tokens of the context (Lee et al., 2022)."""

    backbone: AbstractBackbone
    decoder: Decoder

    @classmethod
    def assemble(cls, backbone_type: type[AbstractBackbone], parts: Parts) -> "NeuralBootstrapNP":
        backbone = backbone_type.assemble(parts)
        return cls(backbone, parts.decoder(backbone.direct_dim, backbone.width))

    def draw_noise(self, context: PointSet, num_samples: int, *, key: PRNGKeyArray) -> Float[Array, "sample context"]:
        # Normalised exponentials are Dirichlet weights. The slot axis leads, so that padding does not change the draws.
        return jax.random.exponential(key, (context.mask.shape[0], num_samples), self.dtype).T

    def loss_terms(self, task: Task, noise: Float[Array, "sample context"]) -> LossTerms:
        tokens, query = self.backbone.embed_and_query(task)
        weights = bootstrap_weights(task.context, noise)
        predictive = self.decode_query(task.x, query, Tokens(tokens.features, weights)).with_noise(task.known_noise)
        log_prob = predictive.component_log_prob(task.y)
        loss_weights = task.loss_weights[: task.context_slots] * weights
        context = jnp.sum(loss_weights * log_prob[:, : task.context_slots], axis=-1, where=task.context.mask)
        target = jnp.sum(task.loss_weights * log_prob, axis=-1, where=task.target_mask & ~task.context_mask)
        return {
            "weighted_context": -log_mean_exp(context) / task.loss_count,
            "target": -log_mean_exp(target) / task.loss_count,
        }

    def predict_given(
        self, context: PointSet, x_target: Float[Array, "target x_dim"], noise: Float[Array, "sample context"]
    ) -> Predictive:
        tokens = self.backbone.embed(context)
        return self.decode(x_target, Tokens(tokens.features, bootstrap_weights(context, noise)))


def bootstrap_weights(context: PointSet, noise: Float[Array, "sample context"]) -> Float[Array, "sample context"]:
    """$w \\sim |c| \\cdot \\mathrm{Dirichlet}(1, \\dots, 1)$ on the context points, zero elsewhere."""
    kept = jnp.where(context.mask, noise, 0)
    total = kept.sum(axis=-1, keepdims=True)
    return kept * context.mask.sum() / jnp.where(total > 0, total, 1)
