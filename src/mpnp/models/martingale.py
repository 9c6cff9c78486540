"""Functional uncertainty from generated representations of unseen data, the martingale posterior: MPNP and MPANP."""

import abc
import dataclasses
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from mpnp.errors import InputError
from mpnp.models.conditional import ConditionalNP
from mpnp.models.contract import AbstractNeuralProcess, LossTerms, Noise
from mpnp.networks.attention import ISAB
from mpnp.networks.backbones.contract import AbstractBackbone, Tokens
from mpnp.networks.decoder import GaussianDecoder
from mpnp.networks.predictive import Predictive
from mpnp.tasks.task import PointSet, Task, masked_mean

__all__ = ["AbstractMartingaleNP", "MartingaleNP", "NumPseudoWarning"]


class NumPseudoWarning(UserWarning):
    """The number of pseudo context points differs from the one the model was trained with."""


class AbstractMartingaleNP(AbstractNeuralProcess):
    """A neural process that completes the context with a generated pseudo context $Z'$ and reads both.

    Each draw of the pseudo context makes one function; their spread is the finite martingale posterior $\\pi_N$.
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
        """What the generated points alone say about the function: the right half of the paper's posterior figure."""
        x_target = self.check_targets(context, x_target, num_samples)
        return self.predict_pseudo_only_given(context, x_target, self.draw_noise(context, num_samples, key=key))

    @abc.abstractmethod
    def predict_pseudo_only_given(self, context: PointSet, x_target: Float[Array, "target x_dim"], noise: Noise) -> Predictive:
        """Predict from the pseudo context that the draws make, without the context itself."""

    def with_num_pseudo(self, num_pseudo: int) -> "AbstractMartingaleNP":
        """The same weights with another number of pseudo points, at the price of another spread between functions."""
        if num_pseudo < 1:
            raise InputError(f"num_pseudo must be at least 1, got {num_pseudo}")
        if num_pseudo != self.num_pseudo:
            warnings.warn(
                f"trained with num_pseudo={self.num_pseudo}, now {num_pseudo}: the spread between function draws depends on "
                "num_pseudo and vanishes as it grows, so the band is no longer the trained one",
                NumPseudoWarning,
                stacklevel=2,
            )
        return dataclasses.replace(self, num_pseudo=num_pseudo)


class MartingaleNP(AbstractMartingaleNP):
    """Pseudo contexts generated as representations $R'$ (Lee et al., 2023, section 3)."""

    backbone: AbstractBackbone
    decoder: GaussianDecoder
    generator: ISAB
    num_pseudo: int = eqx.field(static=True)

    @property
    def core(self) -> ConditionalNP:
        """The conditional model, whose loss is $L_{amort}$."""
        return ConditionalNP(self.backbone, self.decoder)

    def draw_noise(self, context: PointSet, num_samples: int, *, key: PRNGKeyArray) -> Float[Array, "sample pseudo token_dim"]:
        return jax.random.normal(key, (num_samples, self.num_pseudo, self.backbone.token_dim), self.dtype)

    def generate(self, context: Tokens, noise: Float[Array, "sample pseudo token_dim"]) -> Tokens:
        """The pseudo contexts $R' \\sim p(R' | R_c)$, exchangeable along the pseudo axis."""
        features = self.generator(noise, context.features, context.weights)
        return Tokens(features, jnp.ones(features.shape[:-1], features.dtype))

    def loss_terms(self, task: Task, noise: Float[Array, "sample pseudo token_dim"]) -> LossTerms:
        """$L_{marg} + L_{amort} + L_{pseudo}$."""
        context, question = self.backbone.meet(task)
        # Either set is looked at once, though both terms of the pseudo context read it.
        seen, imagined = (self.backbone.look(question, tokens) for tokens in (context, self.generate(context, noise)))
        union_prediction = self.decode_views(task.x, question, seen, imagined)
        context_prediction = self.decode_views(task.x, question, seen)
        pseudo_prediction = self.decode_views(task.x, question, imagined)
        return {
            "marginal": -union_prediction.joint_log_prob(task.y, task.asked) / task.num_asked,
            "amortisation": -masked_mean(context_prediction.log_prob(task.y), task.asked),
            "pseudo": -masked_mean(pseudo_prediction.component_log_prob(task.y), task.asked).mean(),
        }

    def predict_given(
        self, context: PointSet, x_target: Float[Array, "target x_dim"], noise: Float[Array, "sample pseudo token_dim"]
    ) -> Predictive:
        tokens = self.backbone.embed(context)
        return self.decode(x_target, tokens, self.generate(tokens, noise))

    def predict_pseudo_only_given(
        self, context: PointSet, x_target: Float[Array, "target x_dim"], noise: Float[Array, "sample pseudo token_dim"]
    ) -> Predictive:
        return self.decode(x_target, self.generate(self.backbone.embed(context), noise))
