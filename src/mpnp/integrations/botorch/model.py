"""A neural process conditioned on observations of an objective, as a BoTorch model."""

import copy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from botorch.acquisition.objective import ScalarizedPosteriorTransform  # pyright: ignore[reportMissingImports]
from botorch.exceptions.errors import UnsupportedError  # pyright: ignore[reportMissingImports]
from botorch.models.model import FantasizeMixin, Model  # pyright: ignore[reportMissingImports]
from botorch.models.transforms.input import InputTransform  # pyright: ignore[reportMissingImports]
from jaxtyping import Float
from torch import Tensor  # pyright: ignore[reportMissingImports]

from mpnp.bayesopt.space import Box, OutputScale
from mpnp.bayesopt.surrogates import NeuralProcessSurrogate
from mpnp.errors import InputError
from mpnp.inference.model import FittedModel, load
from mpnp.inference.ood import LargeContextWarning
from mpnp.integrations.botorch.functions import FunctionDraws
from mpnp.integrations.botorch.posterior import FunctionPosterior
from mpnp.nn.likelihoods.distribution import AbstractDistribution
from mpnp.options import require_count, require_seed
from mpnp.tables.columns import Affine

__all__ = ["NeuralProcessModel"]

NUM_SAMPLES = 64
"""Default number of functions that represent the posterior."""

LEVELS, NOISE = 0, 1
"""Streams of random numbers, one per use."""


class NeuralProcessModel(Model, FantasizeMixin):
    """A neural process with one output, conditioned on the observations `train_X` and `train_Y` of an objective to maximise.

    `model` is a loaded model, or the directory or name of one. With `bounds`, a tensor of shape (2, inputs), the objective
    has its own units: the box is mapped to the training range of the model's inputs, and outputs are standardised by the mean
    and standard deviation of `train_Y`. Without `bounds`, the objective is in the model's units, as in `model.condition`.
    An `input_transform` comes first: the bounds are then those of transformed inputs.

    The posterior is an ensemble of `num_samples` functions, the same in every call, so that points of the same or of different
    calls lie on the same functions. Each function of the network has its own standard deviation at every input, which covers
    noise and remaining uncertainty. A member of the ensemble is a function plus a fixed multiple of its standard deviation. So
    the members are smooth, and their spread at a point is that of the model's prediction.
    """

    def __init__(
        self,
        model: FittedModel | str | Path,
        train_X: Tensor,
        train_Y: Tensor,
        *,
        bounds: Tensor | None = None,
        input_transform: InputTransform | None = None,
        num_samples: int = NUM_SAMPLES,
        seed: int = 0,
    ) -> None:
        super().__init__()
        require_count("num_samples", num_samples)
        require_seed(seed)
        fitted = model if isinstance(model, FittedModel) else load(model)
        card = fitted.card
        if len(card.columns.outputs) != 1:
            raise InputError(
                f"the objective has one output, but this model predicts {len(card.columns.outputs)} "
                f"({', '.join(card.columns.outputs)}); choose a model with one output"
            )
        self._num_inputs, self._transform = len(card.columns.inputs), input_transform
        if input_transform is not None:
            input_transform.train()(train_X)  # some transforms learn from the observations
        self._require_points(train_X, train_Y)
        self.train_X, self.train_Y = train_X, train_Y.to(train_X)
        scales = card.columns.input_scale, card.columns.output_scale
        self._x_scale, self._y_scale = scales if bounds is None else _scales(fitted, bounds, self.train_Y)
        self.likelihood = None
        """BoTorch reads this to find a known noise level; here the functions have their own noise."""
        self._fitted, self._seed, self._distribution = fitted, seed, fitted.network.decoder.distribution
        self._levels = _levels(self._distribution, num_samples, seed)
        self._draws = FunctionDraws(fitted.network, num_samples, seed)
        self._warn_large()

    @property
    def num_outputs(self) -> int:
        return 1

    @property
    def batch_shape(self) -> torch.Size:
        return torch.broadcast_shapes(self.train_X.shape[:-2], self.train_Y.shape[:-2])

    def subset_output(self, idcs: list[int]) -> "NeuralProcessModel":
        _require_first(idcs)
        return self

    def posterior(  # pyright: ignore[reportIncompatibleMethodOverride]  # the two bases disagree
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: Any = None,
    ) -> Any:
        """The ensemble at X, of shape (batch, points, inputs).

        With `observation_noise`, the multiple of the standard deviation is drawn independently for each point; that of the n-th
        point is the same in every call.
        """
        if output_indices is not None:
            _require_first(output_indices)
        if isinstance(observation_noise, Tensor):
            raise UnsupportedError("the model predicts its own noise; pass observation_noise=True, not a tensor of variances")
        self.eval()
        loc, scale = self._functions(X if self._transform is None else self._transform(X))
        distances = self._noise(X.shape[-2]) if observation_noise else self._levels
        posterior = FunctionPosterior(loc + scale * torch.as_tensor(distances).to(loc))
        if isinstance(posterior_transform, ScalarizedPosteriorTransform):  # BoTorch's own knows Gaussian posteriors only
            return posterior.scaled(posterior_transform.weights, posterior_transform.offset)
        return posterior if posterior_transform is None else posterior_transform(posterior=posterior, X=X)

    def condition_on_observations(self, X: Tensor, Y: Tensor, **kwargs: Any) -> "NeuralProcessModel":
        """The model conditioned on these points too, without refitting; units stay the same.

        Batches of X and Y make batches of models. Predictions are differentiable with respect to X and Y.
        """
        if kwargs:
            raise UnsupportedError(f"condition_on_observations takes only X and Y, got {', '.join(kwargs)}")
        self._require_points(X, Y)
        conditioned = copy.copy(self)
        conditioned.train_X, conditioned.train_Y = _append(self.train_X, X), _append(self.train_Y, Y.to(self.train_Y))
        conditioned._warn_large()
        return conditioned

    def _functions(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Locations and scales of shape (batch, function, point, 1), in the objective's units.

        Batch axes of X beyond the model's own become more targets of the same contexts, so that each context is read once.
        """
        if X.shape[-1] != self._num_inputs:
            raise InputError(f"X must have {self._num_inputs} inputs on its last axis, got shape {tuple(X.shape)}")
        batch, own = torch.broadcast_shapes(X.shape[:-2], self.batch_shape), len(self.batch_shape)
        leading, models = batch[: len(batch) - own], batch[len(batch) - own :]
        count, num_points = models.numel(), X.shape[-2]
        targets = X.expand(*batch, *X.shape[-2:]).reshape(leading.numel(), count, *X.shape[-2:])
        targets = targets.transpose(0, 1).reshape(count, -1, X.shape[-1])
        points = (part.expand(*models, *part.shape[-2:]) for part in (self._observed(self.train_X), self.train_Y))
        x, y = (part.reshape(count, *part.shape[-2:]) for part in points)
        answers = self._draws(_apply(self._x_scale, x), _apply(self._y_scale, y), _apply(self._x_scale, targets))
        loc, scale = (
            answer.unflatten(2, (leading.numel(), num_points)).movedim(2, 0).reshape(*batch, -1, num_points, 1)
            for answer in answers
        )
        factor = torch.as_tensor(self._y_scale.scale).to(loc)
        return loc * factor + torch.as_tensor(self._y_scale.shift).to(loc), scale * factor

    def _observed(self, X: Tensor) -> Tensor:
        """Observed points as the model reads them."""
        return X if self._transform is None else self._transform.preprocess_transform(X)

    def _noise(self, num_points: int) -> Float[np.ndarray, "function point 1"]:
        levels = np.random.default_rng([self._seed, NOISE]).random((num_points, len(self._levels), 1))
        return np.asarray(self._distribution.quantile(levels)).swapaxes(0, 1)

    def _require_points(self, X: Tensor, Y: Tensor) -> None:
        if X.ndim < 2 or self._observed(X).shape[-1] != self._num_inputs:
            raise InputError(
                f"X must have shape (points, {self._num_inputs}), or batches of that, because the model reads "
                f"{self._num_inputs} inputs; got {tuple(X.shape)}"
            )
        if Y.ndim < 2 or Y.shape[-1] != 1 or Y.shape[-2] != X.shape[-2]:
            raise InputError(
                f"Y must have shape ({X.shape[-2]}, 1), one row per point, or batches of that; got {tuple(Y.shape)}"
            )
        if not (X.isfinite().all() and Y.isfinite().all()):
            raise InputError("X and Y must be finite; leave out evaluations that failed")

    def _warn_large(self) -> None:
        largest, num_points = self._fitted.card.seen.largest_context, self.train_X.shape[-2]
        if num_points > largest:
            warnings.warn(
                f"the model is conditioned on {num_points} points, more than the {largest} of any context in training: its "
                "predictions may no longer improve. Stop here, or train on longer curves",
                LargeContextWarning,
                stacklevel=3,
            )


def _scales(model: FittedModel, bounds: Tensor, train_Y: Tensor) -> tuple[Affine, Affine]:
    """Scales of inputs and outputs that map an objective on a box to the network's units."""
    if bounds.ndim != 2 or len(bounds) != 2:
        raise InputError(f"bounds must have shape (2, inputs), lower bounds first; got {tuple(bounds.shape)}")
    box, seen, x = Box.read(bounds.detach().cpu().double().numpy().T), model.card.seen, model.card.columns.input_scale
    NeuralProcessSurrogate(model).require_inputs(box.num_inputs)
    share = (box.high - box.low) / (seen.high - seen.low)
    y = train_Y.detach().cpu().double().numpy().reshape(1, -1)
    outputs = OutputScale.of(y) if y.size else OutputScale(np.zeros((1, 1)), np.ones((1, 1)))
    return Affine(box.low + (x.shift - seen.low) * share, x.scale * share), Affine(outputs.shift[0], outputs.scale[0])


def _levels(distribution: AbstractDistribution, count: int, seed: int) -> Float[np.ndarray, "function 1 1"]:
    """A stratified sample in random order, one value per stratum, with the mean and variance of the distribution."""
    middles = (np.random.default_rng([seed, LEVELS]).permutation(count) + 0.5) / count
    levels = np.asarray(distribution.quantile(middles))
    return (distribution.std * levels / (levels.std() or 1.0))[:, None, None]


def _apply(affine: Affine, values: Tensor) -> Tensor:
    shift, scale = (torch.as_tensor(part).to(values) for part in (affine.shift, affine.scale))
    return (values - shift) / scale


def _append(old: Tensor, new: Tensor) -> Tensor:
    """Append points; batch axes broadcast."""
    batch = torch.broadcast_shapes(old.shape[:-2], new.shape[:-2])
    return torch.cat([part.expand(*batch, *part.shape[-2:]) for part in (old, new)], dim=-2)


def _require_first(indices: list[int]) -> None:
    if list(indices) not in ([0], [-1]):
        raise InputError(f"this model has one output, with index 0; got {indices}")
