"""Functional uncertainty from random weights on the context: NeuBNP and NeuBANP."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from mpnp.models.contract import AbstractNeuralProcess, LossTerms
from mpnp.networks.backbones.contract import AbstractBackbone, Tokens
from mpnp.networks.decoder import GaussianDecoder
from mpnp.networks.predictive import Predictive, log_mean_exp
from mpnp.tasks.task import PointSet, Task

__all__ = ["NeuralBootstrapNP", "bootstrap_weights"]


class NeuralBootstrapNP(AbstractNeuralProcess):
    """Dirichlet weights, the Bayesian bootstrap's, on the encoded context (Lee et al., 2022)."""

    backbone: AbstractBackbone
    decoder: GaussianDecoder

    def draw_noise(self, context: PointSet, num_samples: int, *, key: PRNGKeyArray) -> Float[Array, "sample context"]:
        # Exponentials become Dirichlet weights once normalised. Slots lead, so that padding leaves the draws as they were.
        return jax.random.exponential(key, (context.mask.shape[0], num_samples), self.dtype).T

    def loss_terms(self, task: Task, noise: Float[Array, "sample context"]) -> LossTerms:
        tokens, question = self.backbone.meet(task)
        weights = bootstrap_weights(task.context, noise)
        log_prob = self.decode_asked(task.x, question, Tokens(tokens.features, weights)).component_log_prob(task.y)
        context = jnp.sum(
            weights * log_prob[:, : task.context_slots], axis=-1, where=task.context.mask & task.asked[: task.context_slots]
        )
        target = jnp.sum(log_prob, axis=-1, where=task.target_mask & ~task.context_mask & task.asked)
        return {
            "weighted_context": -log_mean_exp(context) / task.num_asked,
            "target": -log_mean_exp(target) / task.num_asked,
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
