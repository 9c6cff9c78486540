"""Martingale posteriors, with functional uncertainty from generated representations of unseen data: MPNP, MPANP and others."""

import abc
import dataclasses
import math
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from mpnp.models.backbones.base import AbstractBackbone, Query, Tokens
from mpnp.models.base import AbstractNeuralProcess, AbstractTokenReader, LossTerms, Noise
from mpnp.models.conditional import ConditionalNP
from mpnp.models.parts import Parts
from mpnp.nn.attention import ISAB
from mpnp.nn.likelihoods.decoder import Decoder
from mpnp.nn.likelihoods.predictive import Predictive, log_mean_exp
from mpnp.options import require_count
from mpnp.tasks.task import PointSet, Task

__all__ = ["AbstractMartingaleNP", "MartingaleNP", "NumPseudoWarning", "energy_score"]

SMALLEST_SQUARE = 1e-6
"""Added to squared distances, whose root has no derivative at zero."""


class NumPseudoWarning(UserWarning):
    """The number of pseudo context points differs from that of training."""


class AbstractMartingaleNP(AbstractNeuralProcess):
    """A neural process that adds a generated pseudo context $Z'$ to the context and reads both.

    Each sampled pseudo context gives one function; these are samples of the finite martingale posterior $\\pi_N$.
    """

    num_pseudo: eqx.AbstractVar[int]

    def predict_pseudo_only(
        self,
        context: PointSet,
        x_target: Shaped[Array, "..."] | Shaped[np.ndarray, "..."],
        *,
        key: PRNGKeyArray,
        num_samples: int = 10,
    ) -> Predictive:
        """Predict from the pseudo context without the context, as in the right half of the paper's posterior figure."""
        x_target = self.check_targets(context, x_target, num_samples)
        return self.predict_pseudo_only_given(context, x_target, self.draw_noise(context, num_samples, key=key))

    @abc.abstractmethod
    def predict_pseudo_only_given(self, context: PointSet, x_target: Float[Array, "target x_dim"], noise: Noise) -> Predictive:
        """The same, given the random draws."""

    def with_num_pseudo(self, num_pseudo: int) -> "AbstractMartingaleNP":
        """The same weights with another number of pseudo points. Warns, because this changes the spread between functions."""
        require_count("num_pseudo", num_pseudo)
        if num_pseudo != self.num_pseudo:
            warnings.warn(
                f"trained with num_pseudo={self.num_pseudo}, now {num_pseudo}: the spread between function draws depends on "
                "num_pseudo and vanishes as it grows, so the band is no longer the trained one",
                NumPseudoWarning,
                stacklevel=2,
            )
        return dataclasses.replace(self, num_pseudo=num_pseudo)


class MartingaleNP(AbstractMartingaleNP, AbstractTokenReader):
    """Pseudo contexts generated as representations $R'$ (Lee et al., 2023, section 3).

    Two settings go beyond the paper. With `noise_correlation` above 0, pseudo points of one sample share part of their noise,
    so that the spread of functions does not vanish as their number grows. With `energy_weight` above 0, the loss also has the
    energy score of whole functions, which rewards functions that differ as much as the data leave open.
    """

    backbone: AbstractBackbone
    decoder: Decoder
    generator: ISAB
    num_pseudo: int = eqx.field(static=True)
    noise_correlation: float = eqx.field(static=True)
    energy_weight: float = eqx.field(static=True)

    @classmethod
    def assemble(cls, backbone_type: type[AbstractBackbone], parts: Parts) -> "MartingaleNP":
        backbone = backbone_type.assemble(parts)
        generator = parts.isab(backbone.generated_dim, backbone.token_dim)
        return cls(
            backbone=backbone,
            decoder=parts.decoder(backbone.direct_dim, backbone.width),
            generator=generator,
            num_pseudo=parts.settings.num_pseudo,
            noise_correlation=parts.settings.noise_correlation,
            energy_weight=parts.settings.energy_weight,
        )

    @property
    def core(self) -> ConditionalNP:
        """The conditional model, whose loss is the term $L_{amort}$."""
        return ConditionalNP(self.backbone, self.decoder)

    def draw_noise(self, context: PointSet, num_samples: int, *, key: PRNGKeyArray) -> Float[Array, "sample pseudo noise_dim"]:
        own = jax.random.normal(key, (num_samples, self.num_pseudo, self.backbone.generated_dim), self.dtype)
        shared = jax.random.normal(jax.random.fold_in(key, 1), (num_samples, 1, self.backbone.generated_dim), self.dtype)
        return math.sqrt(self.noise_correlation) * shared + math.sqrt(1 - self.noise_correlation) * own

    def generate(self, context: Tokens, noise: Float[Array, "sample pseudo noise_dim"]) -> Tokens:
        """Generate pseudo contexts $R' \\sim p(R' | R_c)$, exchangeable along the pseudo axis."""
        return self.backbone.generated(self.generator(noise, context.features, context.weights))

    def loss_terms(self, task: Task, noise: Float[Array, "sample pseudo noise_dim"]) -> LossTerms:
        """$L_{marg} + L_{amort} + L_{pseudo}$, and the energy score if it has a weight."""
        context, query = self.backbone.embed_and_query(task)
        # Each set is attended to once, though two of the predictions below read it.
        seen, imagined = (self.backbone.attend(query, tokens) for tokens in (context, self.generate(context, noise)))
        union_prediction, context_prediction, pseudo_prediction = (
            self.decode_partials(task.x, query, *parts).with_noise(task.known_noise)
            for parts in ((seen, imagined), (seen,), (imagined,))
        )
        terms = {
            "marginal": -log_mean_exp(task.loss_sum(union_prediction.component_log_prob(task.y))) / task.loss_count,
            "amortisation": -task.loss_mean(context_prediction.log_prob(task.y)),
            "pseudo": -task.loss_mean(pseudo_prediction.component_log_prob(task.y)).mean(),
        }
        if self.energy_weight:
            terms["energy"] = self.energy_weight * energy_score(union_prediction.loc, task)
        return terms

    def predict_tokens(
        self,
        tokens: Tokens,
        x_target: Float[Array, "target x_dim"],
        query: Query,
        noise: Float[Array, "sample pseudo noise_dim"],
    ) -> Predictive:
        return self.decode_query(x_target, query, tokens, self.generate(tokens, noise))

    def predict_pseudo_only_given(
        self, context: PointSet, x_target: Float[Array, "target x_dim"], noise: Float[Array, "sample pseudo noise_dim"]
    ) -> Predictive:
        return self.decode(x_target, self.generate(self.backbone.embed(context), noise))


def energy_score(functions: Float[Array, "sample point y_dim"], task: Task) -> Float[Array, ""]:
    """$\\frac1K \\sum_k d(f_k, y) - \\frac1{2K(K-1)} \\sum_{k \\ne l} d(f_k, f_l)$, with the root mean square as distance.

    Its expectation is smallest if the functions are distributed as the outputs are (Gneiting and Raftery, 2007).
    """

    def distance(one: Float[Array, "point y_dim"], other: Float[Array, "point y_dim"]) -> Float[Array, ""]:
        return jnp.sqrt(task.loss_mean(((one - other) ** 2).mean(axis=-1)) + SMALLEST_SQUARE)

    num_samples = len(functions)
    errors = jax.vmap(lambda one: distance(one, task.y))(functions)
    pairs = jax.vmap(lambda one: jax.vmap(lambda other: distance(one, other))(functions))(functions)
    different = ~jnp.eye(num_samples, dtype=bool)
    return errors.mean() - jnp.sum(pairs, where=different) / (2 * max(num_samples * (num_samples - 1), 1))
