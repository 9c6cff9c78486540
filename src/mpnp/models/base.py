"""The interface of a neural process, whatever its mechanism."""

import abc
import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from mpnp.errors import InputError
from mpnp.models.backbones.base import AbstractBackbone, Partial, Query, Tokens
from mpnp.nn.likelihoods.calibration import Calibration
from mpnp.nn.likelihoods.decoder import Decoder
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.options import require_count
from mpnp.tasks.task import PointSet, Task

__all__ = ["AbstractNeuralProcess", "AbstractTokenReader", "LossTerms", "Noise"]

Noise = Any
"""The random draws of a mechanism: a pytree whose structure is up to the mechanism."""

LossTerms = dict[str, Float[Array, ""]]
"""Terms of the loss by name."""


class AbstractNeuralProcess(eqx.Module):
    """A backbone, a decoder and, in each final class, a mechanism: the source of functional uncertainty.

    Everything is written for one task; `jax.vmap` makes batches. A mechanism has three methods: `draw_noise` draws all random
    numbers, and `loss_terms` and `predict_given` are deterministic given these. `loss` and `predict` combine them.
    """

    backbone: eqx.AbstractVar[AbstractBackbone]
    decoder: eqx.AbstractVar[Decoder]

    @abc.abstractmethod
    def draw_noise(self, context: PointSet, num_samples: int, *, key: PRNGKeyArray) -> Noise:
        """Draw all random numbers for `num_samples` functions."""

    @abc.abstractmethod
    def loss_terms(self, task: Task, noise: Noise) -> LossTerms:
        """Named terms whose sum is minimised, each per point as weighted by `task.loss_weights`."""

    @abc.abstractmethod
    def predict_given(self, context: PointSet, x_target: Float[Array, "target x_dim"], noise: Noise) -> Predictive:
        """Predict at the targets, with one mixture component per sampled function."""

    @property
    def core(self) -> "AbstractNeuralProcess":
        """The part that can be trained first, with the same backbone and decoder; the model itself if there is none."""
        return self

    def num_components(self, num_samples: int) -> int:
        """Number of mixture components for `num_samples` samples: one if the model has no randomness."""
        return num_samples

    def calibrated(self, calibration: Calibration | None) -> "AbstractNeuralProcess":
        """The same weights with this correction of standard deviations; with those of training if None."""
        decoder = dataclasses.replace(self.decoder, calibration=calibration)
        return eqx.tree_at(lambda model: model.decoder, self, decoder)

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
        """Condition on the context and predict at the targets with a mixture of `num_samples` functions.

        A conditional model has only one function, so it always returns one component.
        """
        x_target = self.check_targets(context, x_target, num_samples)
        return self.predict_given(context, x_target, self.draw_noise(context, num_samples, key=key))

    @property
    def dtype(self) -> jnp.dtype:
        """Floating-point type of the weights and of all computations."""
        return self.decoder.mlp.layers[0].weight.dtype

    @property
    def x_dim(self) -> int:
        """Number of input dimensions."""
        return self.decoder.x_dim

    @property
    def y_dim(self) -> int:
        """Number of output dimensions."""
        return self.decoder.y_dim

    def decode(self, x_target: Float[Array, "*#sample target x_dim"], *tokens: Tokens) -> Predictive:
        """Read the union of the token sets at the targets and decode it; a leading axis of the tokens is that of samples."""
        return self.decode_query(x_target, self.backbone.query(x_target), *tokens)

    def decode_query(self, x_target: Float[Array, "*#sample target x_dim"], query: Query, *tokens: Tokens) -> Predictive:
        """The same, given the query at the targets."""
        return self.decode_partials(x_target, query, *(self.backbone.attend(query, part) for part in tokens))

    def decode_partials(self, x_target: Float[Array, "*#sample target x_dim"], query: Query, *partials: Partial) -> Predictive:
        """The same, given the query and the partial of each token set."""
        return self.decode_representation(x_target, self.backbone.combine(query, *partials))

    def decode_representation(
        self, x_target: Float[Array, "*#sample target x_dim"], representation: Float[Array, "*#sample #target width"]
    ) -> Predictive:
        """The same, given the representation at the targets."""
        if representation.ndim == 2:
            representation = representation[None]
        return self.decoder(x_target, representation)

    def check_targets(
        self, context: PointSet, x_target: Shaped[Array, "..."] | Shaped[np.ndarray, "..."], num_samples: int
    ) -> Float[Array, "target x_dim"]:
        """Convert the targets to the model's dtype. Raises an error if shapes do not fit, also while tracing."""
        got = (context.x.shape[-1], context.y.shape[-1])
        if got != (self.x_dim, self.y_dim):
            raise InputError(
                f"this model reads {self.x_dim} input and {self.y_dim} output dimensions, but the context has {got[0]} and "
                f"{got[1]}"
            )
        shape = jnp.shape(x_target)
        if len(shape) != 2 or shape[1] != self.x_dim:
            raise InputError(f"x_target must have shape (targets, {self.x_dim}), got {shape}")
        require_count("num_samples", num_samples)
        return jnp.asarray(x_target, self.dtype)


class AbstractTokenReader(AbstractNeuralProcess):
    """A model that reads its context only through the backbone's tokens, so that appending a point is cheap."""

    @abc.abstractmethod
    def predict_tokens(self, tokens: Tokens, x_target: Float[Array, "target x_dim"], query: Query, noise: Noise) -> Predictive:
        """Predict at the targets, given the tokens of the context and the query at the targets."""

    def predict_given(self, context: PointSet, x_target: Float[Array, "target x_dim"], noise: Noise) -> Predictive:
        return self.predict_tokens(self.backbone.embed(context), x_target, self.backbone.query(x_target), noise)
