"""What every neural process offers, whatever makes its functions uncertain."""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from mpnp.errors import InputError
from mpnp.networks.backbones.contract import AbstractBackbone, Question, Tokens, View
from mpnp.networks.decoder import GaussianDecoder
from mpnp.networks.predictive import Predictive
from mpnp.tasks.task import PointSet, Task

__all__ = ["AbstractNeuralProcess", "LossTerms", "Noise"]

Noise = Any
"""Whatever arrays a mechanism draws at random: a pytree whose structure is the mechanism's own business."""

LossTerms = dict[str, Float[Array, ""]]


class AbstractNeuralProcess(eqx.Module):
    """A backbone, a decoder, and in each final class a mechanism: where functional uncertainty comes from.

    Everything is written for one task; `jax.vmap` makes batches. A mechanism is three methods that take their random draws as
    arguments, so that two ways of computing the same thing can be compared on the same draws. `loss` and `predict` draw
    from a key and call them.
    """

    backbone: eqx.AbstractVar[AbstractBackbone]
    decoder: eqx.AbstractVar[GaussianDecoder]

    @abc.abstractmethod
    def draw_noise(self, context: PointSet, num_samples: int, *, key: PRNGKeyArray) -> Noise:
        """The random draws that `num_samples` functions need."""

    @abc.abstractmethod
    def loss_terms(self, task: Task, noise: Noise) -> LossTerms:
        """The named terms whose sum is minimised, each per point that is asked."""

    @abc.abstractmethod
    def predict_given(self, context: PointSet, x_target: Float[Array, "target x_dim"], noise: Noise) -> Predictive:
        """The prediction at the targets, as a mixture over the functions that the draws make."""

    @property
    def core(self) -> "AbstractNeuralProcess":
        """The model inside that can learn first and by itself, with backbone and decoder of this one; if none, this one."""
        return self

    def num_components(self, num_samples: int) -> int:
        """Functions in a prediction of `num_samples` samples; a model without randomness has one."""
        return num_samples

    def loss(self, task: Task, *, key: PRNGKeyArray, num_samples: int) -> tuple[Float[Array, ""], LossTerms]:
        """The training loss of one task, and its terms."""
        terms = self.loss_terms(task, self.draw_noise(task.context, num_samples, key=key))
        return jnp.sum(jnp.stack(list(terms.values()))), terms

    def predict(
        self,
        context: PointSet,
        x_target: Shaped[Array, "..."] | Shaped[np.ndarray, "..."],
        *,
        key: PRNGKeyArray,
        num_samples: int = 10,
    ) -> Predictive:
        """Condition on the context and predict at the targets, by a mixture of `num_samples` functions.

        A conditional model has only one function and returns one component whatever `num_samples` is.
        """
        x_target = self.check_targets(context, x_target, num_samples)
        return self.predict_given(context, x_target, self.draw_noise(context, num_samples, key=key))

    @property
    def dtype(self) -> jnp.dtype:
        """The floating-point type of the weights, in which everything is computed."""
        return self.decoder.mlp.layers[0].weight.dtype

    @property
    def x_dim(self) -> int:
        """Number of input dimensions."""
        return self.decoder.mlp.layers[0].weight.shape[0] - self.decoder_features

    @property
    def y_dim(self) -> int:
        """Number of output dimensions."""
        return self.decoder.mlp.layers[-1].bias.shape[0] // 2

    @property
    def decoder_features(self) -> int:
        """Numbers that the decoder reads beside the input; a mechanism with more than one representation says so."""
        return self.backbone.width

    def decode(self, x_target: Float[Array, "*#sample target x_dim"], *tokens: Tokens) -> Predictive:
        """Read the union of the tokens at the targets and decode, one component a set along the tokens' leading axis."""
        return self.decode_asked(x_target, self.backbone.ask(x_target), *tokens)

    def decode_asked(self, x_target: Float[Array, "*#sample target x_dim"], question: Question, *tokens: Tokens) -> Predictive:
        """The same from the question at the targets."""
        return self.decode_views(x_target, question, *(self.backbone.look(question, part) for part in tokens))

    def decode_views(self, x_target: Float[Array, "*#sample target x_dim"], question: Question, *views: View) -> Predictive:
        """The same from what the backbone saw when it looked at each set of tokens."""
        return self.decode_representation(x_target, self.backbone.conclude(question, *views))

    def decode_representation(
        self, x_target: Float[Array, "*#sample target x_dim"], representation: Float[Array, "*#sample #target width"]
    ) -> Predictive:
        """The same from the representation at the targets."""
        if representation.ndim == 2:
            representation = representation[None]
        return self.decoder(x_target, representation)

    def check_targets(
        self, context: PointSet, x_target: Shaped[Array, "..."] | Shaped[np.ndarray, "..."], num_samples: int
    ) -> Float[Array, "target x_dim"]:
        """The targets as the model computes with them, or a clear error: shapes are known even while tracing."""
        got = (context.x.shape[-1], context.y.shape[-1])
        if got != (self.x_dim, self.y_dim):
            raise InputError(
                f"this model reads {self.x_dim} input and {self.y_dim} output dimensions, but the context has {got[0]} and "
                f"{got[1]}"
            )
        shape = jnp.shape(x_target)
        if len(shape) != 2 or shape[1] != self.x_dim:
            raise InputError(f"x_target must have shape (targets, {self.x_dim}), got {shape}")
        if num_samples < 1:
            raise InputError(f"num_samples must be at least 1, got {num_samples}")
        return jnp.asarray(x_target, self.dtype)
