"""A pretrained model among the forecasters of a fitted one: it reads each curve as it is and learnt nothing from the others."""

import functools
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from mpnp.errors import InputError
from mpnp.inference.card import ModelCard
from mpnp.inference.forecasters import AbstractForecaster, Resamples
from mpnp.inference.functions import DrawnFunctions, Functions
from mpnp.inference.ood import Pair
from mpnp.inference.prediction import Prediction
from mpnp.inference.predictor import Targets
from mpnp.inference.resampler import FutureInputs
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.rivals.points import read_points
from mpnp.tables.columns import Schema
from mpnp.tables.points import context_points
from mpnp.tasks.task import PointSet

__all__ = ["PRETRAINED", "PretrainedForecaster", "reads_any_curve"]

PRETRAINED = "curves"
"""The pretrained model that reads any curve of one input and one output."""


@runtime_checkable
class ReadsAnyCurve(Protocol):
    """A fitted model that scales each curve by its context, so that it reads curves in any units."""

    card: ModelCard

    def predict_pairs(self, pairs: Sequence[Pair], queries: Sequence[np.ndarray], num_samples: int) -> list[Prediction]:
        """Predict each context at its own inputs."""
        ...

    def scaled_to(self, x: Float[np.ndarray, "row input"], y: Float[np.ndarray, "row output"]) -> "ReadsAnyCurve":
        """The model in units of this context."""
        ...

    @property
    def resampler(self) -> Resamples:
        """Draws functions, and computes joint densities."""
        ...


def reads_any_curve(columns: Schema) -> bool:
    """Whether tasks are curves of one numeric input and one output, which the pretrained model reads."""
    return columns.dims == (1, 1)


class PretrainedForecaster(AbstractForecaster):
    """A pretrained model. It reads curves in the units of the fitted network, because all units are the same to it."""

    def __init__(self, model: ReadsAnyCurve, columns: Schema) -> None:
        self.predictor = functools.cache(lambda count: PretrainedPredictor(model, columns, count))
        self.resampler = PretrainedFunctions(model, columns)
        self.has_functions, self.joins_stack = True, False


class PretrainedPredictor:
    """The predictions of a pretrained model."""

    def __init__(self, model: ReadsAnyCurve, columns: Schema, num_samples: int) -> None:
        self.model, self.columns, self.num_samples = model, columns, num_samples

    def __call__(self, context: PointSet, x_target: Targets, *, seed: int | None = None) -> Predictive:
        """Predict at the targets."""
        if seed is not None:
            raise InputError(f"'{PRETRAINED}' has no generator of functions; use method='resample', or the network")
        return self.many([context], [x_target])[0]

    def many(self, contexts: Sequence[PointSet], x_targets: Sequence[Targets]) -> list[Predictive]:
        """Predict many tasks."""
        pairs = [_curve(self.columns, context) for context in contexts]
        queries = [np.asarray(x_target, np.float64) for x_target in x_targets]
        return [_plain(prediction) for prediction in self.model.predict_pairs(pairs, queries, self.num_samples)]


class PretrainedFunctions:
    """Functions and joint densities of a pretrained model."""

    def __init__(self, model: ReadsAnyCurve, columns: Schema) -> None:
        self.model, self.columns = model, columns

    def __call__(
        self,
        context: PointSet,
        x_context: Float[np.ndarray, "context input"],
        x: Float[np.ndarray, "row input"],
        num_draws: int,
        *,
        seed: int,
        num_future: int,
        future_inputs: FutureInputs | None,
    ) -> Functions:
        """Draw functions at the rows of x by predictive resampling."""
        encode = self.columns.encode_inputs

        def encoded_inputs(rng: np.random.Generator, num: int) -> Any:
            assert future_inputs is not None
            return encode(np.reshape(np.asarray(future_inputs(rng, num), np.float64), (-1, 1)))

        pair = _curve(self.columns, context)
        scaled = self.model.scaled_to(*pair)
        columns = scaled.card.columns
        options: dict[str, Any] = {"seed": seed, "num_future": num_future}
        answer = scaled.resampler(
            context_points(columns, *pair), encode(x_context), encode(x), num_draws, **options,
            future_inputs=None if future_inputs is None else encoded_inputs,
        )  # fmt: skip
        drawn = DrawnFunctions.decode(answer, columns)
        return Functions(_plain(drawn.values), drawn.imagined)

    def chain_log_prob(self, context: PointSet, points: PointSet, *, num_orders: int, seed: int) -> float:
        """Joint log density of points by the chain rule."""
        pair, (x, y) = _curve(self.columns, context), _curve(self.columns, points)
        scaled = self.model.scaled_to(*pair)
        columns = scaled.card.columns
        given, asked = context_points(columns, *pair), context_points(columns, x, y)
        chain = scaled.resampler.chain_log_prob(given, asked, num_orders=num_orders, seed=seed)
        return chain + columns.log_jacobian(y)


def _curve(columns: Schema, context: PointSet) -> Pair:
    """The points of a curve of one input and one output, in the units of the fitted network."""
    points = read_points(columns, context)
    return points.x, points.y[:, None]


def _plain(prediction: Prediction) -> Predictive:
    """A prediction in the units in which the curve was read."""
    return Predictive(prediction.loc, prediction.scale, prediction.mixture.distribution)
