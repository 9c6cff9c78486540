"""Forecasters, with which a fitted model predicts: its network, a rival, or a stack of them.

All predict and draw functions through the same calls, so a posterior need not know which of them it uses.
"""

import abc
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Float

from mpnp.errors import InputError
from mpnp.inference.card import ModelCard
from mpnp.inference.designs import find_design
from mpnp.inference.functions import Functions
from mpnp.inference.prediction import join
from mpnp.inference.predictor import Predictor, Targets
from mpnp.inference.resampler import FutureInputs, Resampler
from mpnp.models.base import AbstractNeuralProcess
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.rivals.base import AbstractGaussianRival, AbstractRival, Places
from mpnp.rivals.points import read_places, read_points
from mpnp.tables.columns import Schema
from mpnp.tables.points import target_inputs
from mpnp.tasks.task import PointSet

__all__ = [
    "AbstractForecaster",
    "NetworkForecaster",
    "Predicts",
    "Resamples",
    "RivalForecaster",
    "RivalPredictor",
    "StackForecaster",
    "mix",
]

TARGETS_AT_ONCE = 1_024
"""Targets that a rival predicts at once, which bounds the memory of covariances."""

NO_FUNCTIONS = (
    "predicts single values only, so it has neither functions nor joint densities; choose another forecaster, such as "
    "model.use('network')"
)

LEAST_SHARE = 0.1
"""What is left at least of a rival's standard deviation when the known noise is taken out of it."""

COMPONENTS = 64
"""Components of a stack. Weights are multiples of one in so many."""


@runtime_checkable
class Predicts(Protocol):
    """Conditions on one context, or on many."""

    def __call__(self, context: PointSet, x_target: Targets, *, seed: int | None = None) -> Predictive:
        """Predict at the targets."""
        ...

    def many(self, contexts: Sequence[PointSet], x_targets: Sequence[Targets]) -> list[Predictive]:
        """Predict many tasks, each context at its own targets."""
        ...


@runtime_checkable
class Resamples(Protocol):
    """Draws functions, and computes joint densities."""

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
        """Draw functions at the rows of x."""
        ...

    def chain_log_prob(self, context: PointSet, points: PointSet, *, num_orders: int, seed: int) -> float:
        """Joint log density of points."""
        ...


class AbstractForecaster(abc.ABC):
    """What a fitted model predicts and draws functions with."""

    predictor: Callable[[int], Predicts]
    """The predictor for a number of sampled functions."""
    resampler: Resamples
    has_functions: bool
    """Whether it has a joint distribution, from which functions can be drawn."""
    joins_stack: bool
    """Whether a stack may mix it with others; else it is a reference only."""


class NetworkForecaster(AbstractForecaster):
    """The network. Programs are compiled once for each number of sampled functions."""

    predictor: Callable[[int], Predictor]

    def __init__(self, network: AbstractNeuralProcess, card: ModelCard) -> None:
        self.predictor = functools.cache(lambda count: Predictor(network, num_samples=count))
        self.completer = Resampler(network, card.columns, card.seen, find_design(card.about))
        """The same as `resampler`, with its placement of future inputs."""
        self.resampler = self.completer
        self.has_functions, self.joins_stack = True, True


class RivalForecaster(AbstractForecaster):
    """A rival, given the same encoded data as the network."""

    def __init__(self, rival: AbstractRival, columns: Schema) -> None:
        predictor = RivalPredictor(rival, columns)
        self.predictor = lambda count: predictor
        self.resampler = RivalFunctions(rival, columns)
        self.has_functions, self.joins_stack = isinstance(rival, AbstractGaussianRival), rival.reads_context


class StackForecaster(AbstractForecaster):
    """A mixture of forecasters with fixed weights and spread. Functions come, as they are, from those that have any."""

    def __init__(self, members: Mapping[str, AbstractForecaster], weights: Mapping[str, float], spread: float) -> None:
        some = [(members[name], weight) for name, weight in weights.items()]
        self.predictor = lambda count: StackPredictor([(member.predictor(count), weight) for member, weight in some], spread)
        self.resampler = StackFunctions([(member.resampler, weight) for member, weight in some if member.has_functions])
        self.has_functions, self.joins_stack = any(member.has_functions for member, _ in some), False


class RivalPredictor:
    """A rival in the place of a network's predictor."""

    def __init__(self, rival: AbstractRival, columns: Schema) -> None:
        self.rival, self.columns = rival, columns

    def __call__(self, context: PointSet, x_target: Targets, *, seed: int | None = None) -> Predictive:
        """Predict at the targets, some at a time."""
        if seed is not None:
            raise InputError(f"'{self.rival.kind}' has no generator of functions; use method='resample', or the network")
        points, places = read_points(self.columns, context), read_places(self.columns, np.asarray(x_target))
        starts = range(0, max(len(places.x), 1), TARGETS_AT_ONCE)
        chunks = [type(places)(*(part[start : start + TARGETS_AT_ONCE] for part in places)) for start in starts]
        answer = join([self.rival.predict(points, chunk) for chunk in chunks])
        return without_typical_noise(answer, self.columns, places)

    def many(self, contexts: Sequence[PointSet], x_targets: Sequence[Targets]) -> list[Predictive]:
        """Predict many tasks, one after another."""
        return [self(context, x_target) for context, x_target in zip(contexts, x_targets, strict=True)]


class RivalFunctions:
    """Functions and joint densities of a rival, which are exact for a normal distribution."""

    def __init__(self, rival: AbstractRival, columns: Schema) -> None:
        self.rival, self.columns = rival, columns

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
        """Draw functions from the posterior itself, without future observations."""
        places = read_places(self.columns, target_inputs(self.columns, x))
        joint = self._gaussian().joint(read_points(self.columns, context), places)
        values = joint.functions(num_draws, np.random.default_rng(seed))
        return Functions.without_observations(without_typical_noise(values, self.columns, places))

    def chain_log_prob(self, context: PointSet, points: PointSet, *, num_orders: int, seed: int) -> float:
        """Joint log density of points, which is the same for every order."""
        asked = read_points(self.columns, points)
        return self._gaussian().joint(read_points(self.columns, context), asked.places).log_prob(asked.y)

    def _gaussian(self) -> AbstractGaussianRival:
        if not isinstance(self.rival, AbstractGaussianRival):
            raise InputError(f"'{self.rival.kind}' {NO_FUNCTIONS}")
        return self.rival


def without_typical_noise(answer: Predictive, columns: Schema, places: Places) -> Predictive:
    """The prediction of a rival without the known noise of measurements, which it has learnt as part of their spread."""
    typical = columns.typical_noise
    if not typical.any():
        return answer
    scale = np.asarray(answer.scale)
    variance = scale**2 - typical[places.output, None] ** 2
    return Predictive(answer.loc, np.sqrt(np.maximum(variance, (LEAST_SHARE * scale) ** 2)), answer.distribution)


class StackPredictor:
    """Predictors whose predictions are mixed."""

    def __init__(self, members: Sequence[tuple[Predicts, float]], spread: float) -> None:
        self.members, self.weights = [member for member, _ in members], [weight for _, weight in members]
        self.spread = spread

    def __call__(self, context: PointSet, x_target: Targets, *, seed: int | None = None) -> Predictive:
        """Predict at the targets."""
        if seed is not None:
            raise InputError("a stack has no generator of functions; use method='resample', or the network")
        return mix([member(context, x_target) for member in self.members], self.weights, self.spread)

    def many(self, contexts: Sequence[PointSet], x_targets: Sequence[Targets]) -> list[Predictive]:
        """Predict many tasks."""
        answers = [member.many(contexts, x_targets) for member in self.members]
        return [mix(parts, self.weights, self.spread) for parts in zip(*answers, strict=True)]


class StackFunctions:
    """Functions of a stack: each is drawn from one of its members."""

    def __init__(self, members: Sequence[tuple[Resamples, float]]) -> None:
        self.members = [member for member, _ in members]
        weights = np.asarray([weight for _, weight in members])
        self.weights = weights / max(weights.sum(), 1 / COMPONENTS)

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
        """Draw functions of the members in random order, by their weights."""
        self._require_members()
        rng = np.random.default_rng([seed, 2])
        counts = rng.multinomial(num_draws, self.weights)
        options: dict[str, Any] = {"seed": seed, "num_future": num_future, "future_inputs": future_inputs}
        drawn = [
            member(context, x_context, x, int(count), **options)
            for member, count in zip(self.members, counts, strict=True)
            if count
        ]
        order = rng.permutation(num_draws)
        return jax.tree.map(lambda *parts: np.concatenate([np.asarray(part) for part in parts])[order], *drawn)

    def chain_log_prob(self, context: PointSet, points: PointSet, *, num_orders: int, seed: int) -> float:
        """Joint log density of points under the mixture."""
        self._require_members()
        scores = [member.chain_log_prob(context, points, num_orders=num_orders, seed=seed) for member in self.members]
        return float(np.logaddexp.reduce(np.asarray(scores) + np.log(self.weights)))

    def _require_members(self) -> None:
        if not self.members:
            raise InputError(f"this stack {NO_FUNCTIONS}")


def mix(answers: Sequence[Predictive], weights: Sequence[float], spread: float = 1.0) -> Predictive:
    """A mixture of predictions of one task, of `COMPONENTS` components of equal weight, whose scales `spread` multiplies.

    >>> one = Predictive(np.zeros((1, 1, 1)), np.ones((1, 1, 1)))
    >>> mixed = mix([one, Predictive(one.loc + 4, one.scale)], [0.75, 0.25], spread=0.5)
    >>> float(mixed.mean.item()), float(mixed.within_std.item())
    (1.0, 0.5)
    """
    parts = [_thin(answer, round(weight * COMPONENTS)) for answer, weight in zip(answers, weights, strict=True)]
    loc, scale = (np.concatenate(both) for both in zip(*parts, strict=True))
    return Predictive(loc, scale * spread, answers[0].distribution)


def _thin(answer: Predictive, num: int) -> tuple[np.ndarray, np.ndarray]:
    """`num` components, spread evenly over those of the answer, or repeated."""
    chosen = ((np.arange(num) + 0.5) * len(answer.loc) / max(num, 1)).astype(int)
    return np.asarray(answer.loc)[chosen], np.asarray(answer.scale)[chosen]
