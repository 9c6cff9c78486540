"""A neural process that has seen some points of an objective, as a BoTorch model."""

import copy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from botorch.exceptions.errors import UnsupportedError  # pyright: ignore[reportMissingImports]
from botorch.models.model import FantasizeMixin, Model  # pyright: ignore[reportMissingImports]
from jaxtyping import Float
from scipy.special import ndtri
from torch import Tensor  # pyright: ignore[reportMissingImports]

from mpnp.bayesopt.box import Box
from mpnp.bayesopt.standardise import OutputScale
from mpnp.bayesopt.surrogates import NeuralProcessSurrogate
from mpnp.data.normaliser import Affine, Normaliser
from mpnp.errors import InputError
from mpnp.fitted import FittedModel, LargeContextWarning, load
from mpnp.integrations.botorch.functions import FunctionDraws
from mpnp.integrations.botorch.posterior import FunctionPosterior
from mpnp.options import require_seed

__all__ = ["NeuralProcessModel"]

NUM_SAMPLES = 64
"""Functions that stand for the posterior unless told otherwise."""

LEVELS, NOISE = 0, 1
"""What random numbers are for, so that no two uses share any."""


class NeuralProcessModel(Model, FantasizeMixin):
    """What a neural process of one output believes about an objective after `train_X` and `train_Y`; BoTorch maximises it.

    `model` is a loaded model, or the directory or name of one. With `bounds`, a tensor of shape (2, inputs), the objective is
    in units of its own: the box is stretched over the inputs that training showed the model, and outputs are standardised by
    the mean and standard deviation of `train_Y`. Without, the objective is in the model's units, as in `model.condition`.

    The posterior is an ensemble of `num_samples` functions, the same in every call: points that are asked for together, or
    one after the other, lie on the same functions. A function that the network draws has a standard deviation of its own,
    which is noise and whatever else the network does not know; each member of the ensemble is so many of them away from its
    function's mean, everywhere. So its spread at a point is that of the model's prediction, and its members are smooth.
    """

    def __init__(
        self,
        model: FittedModel | str | Path,
        train_X: Tensor,
        train_Y: Tensor,
        *,
        bounds: Tensor | None = None,
        num_samples: int = NUM_SAMPLES,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if num_samples < 1:
            raise InputError(f"num_samples must be at least 1, got {num_samples}")
        require_seed(seed)
        fitted = model if isinstance(model, FittedModel) else load(model)
        card = fitted.card
        if len(card.columns.outputs) != 1:
            raise InputError(
                f"the objective has one output, but this model predicts {len(card.columns.outputs)} "
                f"({', '.join(card.columns.outputs)}); choose a model of one output"
            )
        self._num_inputs = len(card.columns.inputs)
        self._require_points(train_X, train_Y)
        self.train_X, self.train_Y = train_X, train_Y.to(train_X)
        self.units = card.normaliser if bounds is None else _units(fitted, bounds, self.train_Y)
        self.likelihood = None
        """BoTorch asks whether noise of known size was observed; here the functions say how noisy they are."""
        self._fitted, self._seed, self._levels = fitted, seed, _levels(num_samples, seed)
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
        """The functions at X, of shape (batch, points, inputs).

        With `observation_noise`, a function's distance from its mean differs from point to point: that of its n-th point is
        the same in every call.
        """
        if output_indices is not None:
            _require_first(output_indices)
        if isinstance(observation_noise, Tensor):
            raise UnsupportedError("the functions know their noise; pass observation_noise=True, not a tensor of variances")
        self.eval()
        loc, scale = self._functions(self.transform_inputs(X))
        distances = self._noise(X.shape[-2]) if observation_noise else self._levels
        posterior = FunctionPosterior(loc + scale * torch.as_tensor(distances).to(loc))
        return posterior if posterior_transform is None else posterior_transform(posterior=posterior, X=X)

    def condition_on_observations(self, X: Tensor, Y: Tensor, **kwargs: Any) -> "NeuralProcessModel":
        """The model that has seen these points too: nothing is fitted anew, and units stay what they are.

        Batches of X and Y make batches of models. The gradient of what the new model says reaches both.
        """
        if kwargs:
            raise UnsupportedError(f"observations are conditioned on as they are, without {', '.join(kwargs)}")
        self._require_points(X, Y)
        conditioned = copy.copy(self)
        conditioned.train_X, conditioned.train_Y = _append(self.train_X, X), _append(self.train_Y, Y.to(self.train_Y))
        conditioned._warn_large()
        return conditioned

    def _functions(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Means and standard deviations of shape (batch, function, point, 1), in the objective's units.

        Leading batches of X beyond the model's own are more targets of the same contexts, so that these are read once.
        """
        if X.shape[-1] != self._num_inputs:
            raise InputError(f"X must have {self._num_inputs} inputs on its last axis, got shape {tuple(X.shape)}")
        batch, own = torch.broadcast_shapes(X.shape[:-2], self.batch_shape), len(self.batch_shape)
        leading, models = batch[: len(batch) - own], batch[len(batch) - own :]
        count, num_points = models.numel(), X.shape[-2]
        targets = X.expand(*batch, *X.shape[-2:]).reshape(leading.numel(), count, *X.shape[-2:])
        targets = targets.transpose(0, 1).reshape(count, -1, X.shape[-1])
        points = (part.expand(*models, *part.shape[-2:]) for part in (self.train_X, self.train_Y))
        x, y = (part.reshape(count, *part.shape[-2:]) for part in points)
        answers = self._draws(_apply(self.units.x, x), _apply(self.units.y, y), _apply(self.units.x, targets))
        loc, scale = (
            answer.unflatten(2, (leading.numel(), num_points)).movedim(2, 0).reshape(*batch, -1, num_points, 1)
            for answer in answers
        )
        factor = torch.as_tensor(self.units.y.scale).to(loc)
        return loc * factor + torch.as_tensor(self.units.y.shift).to(loc), scale * factor

    def _noise(self, num_points: int) -> Float[np.ndarray, "function point 1"]:
        noise = np.random.default_rng([self._seed, NOISE]).standard_normal((num_points, len(self._levels), 1))
        return noise.swapaxes(0, 1)

    def _require_points(self, X: Tensor, Y: Tensor) -> None:
        if X.ndim < 2 or X.shape[-1] != self._num_inputs:
            raise InputError(
                f"X must have shape (points, {self._num_inputs}), or batches of that, because the model reads "
                f"{self._num_inputs} inputs; got {tuple(X.shape)}"
            )
        if Y.ndim < 2 or Y.shape[-1] != 1 or Y.shape[-2] != X.shape[-2]:
            raise InputError(f"Y must have shape ({X.shape[-2]}, 1), one row a point, or batches of that; got {tuple(Y.shape)}")
        if not (X.isfinite().all() and Y.isfinite().all()):
            raise InputError("X and Y must be finite; leave out evaluations that failed")

    def _warn_large(self) -> None:
        largest, num_points = self._fitted.card.seen.largest_context, self.train_X.shape[-2]
        if num_points > largest:
            warnings.warn(
                f"the model is conditioned on {num_points} points, more than the {largest} of any context in training: it may "
                "no longer learn from them. Stop here, or train on longer curves",
                LargeContextWarning,
                stacklevel=3,
            )


def _units(model: FittedModel, bounds: Tensor, train_Y: Tensor) -> Normaliser:
    """From the units of an objective within bounds to those of the network."""
    if bounds.ndim != 2 or len(bounds) != 2:
        raise InputError(f"bounds must have shape (2, inputs), lower bounds first; got {tuple(bounds.shape)}")
    box, seen, x = Box.read(bounds.detach().cpu().double().numpy().T), model.card.seen, model.card.normaliser.x
    NeuralProcessSurrogate(model).require_inputs(box.num_inputs)
    share = (box.high - box.low) / (seen.high - seen.low)
    y = train_Y.detach().cpu().double().numpy().reshape(1, -1)
    outputs = OutputScale.of(y) if y.size else OutputScale(np.zeros((1, 1)), np.ones((1, 1)))
    return Normaliser(
        Affine(box.low + (x.shift - seen.low) * share, x.scale * share), Affine(outputs.shift[0], outputs.scale[0])
    )


def _levels(count: int, seed: int) -> Float[np.ndarray, "function 1 1"]:
    """Standard normal numbers in any order, one from each of so many equally likely ranges, of mean 0 and variance 1."""
    levels = ndtri((np.random.default_rng([seed, LEVELS]).permutation(count) + 0.5) / count)
    return (levels / (levels.std() or 1.0))[:, None, None]


def _apply(affine: Affine, values: Tensor) -> Tensor:
    shift, scale = (torch.as_tensor(part).to(values) for part in (affine.shift, affine.scale))
    return (values - shift) / scale


def _append(old: Tensor, new: Tensor) -> Tensor:
    """More points, of whichever batches either has."""
    batch = torch.broadcast_shapes(old.shape[:-2], new.shape[:-2])
    return torch.cat([part.expand(*batch, *part.shape[-2:]) for part in (old, new)], dim=-2)


def _require_first(indices: list[int]) -> None:
    if list(indices) not in ([0], [-1]):
        raise InputError(f"this model has one output, number 0; got {indices}")
