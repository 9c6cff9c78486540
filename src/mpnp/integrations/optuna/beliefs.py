"""How a model reads a study: in the study's own units, or in those of the studies it was trained on."""

import abc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.bayesopt.climbing import worth
from mpnp.bayesopt.history import History
from mpnp.bayesopt.registry import find_strategy
from mpnp.bayesopt.resampling_surrogate import ResamplingSurrogate
from mpnp.bayesopt.space import OutputScale, candidate_points
from mpnp.bayesopt.strategies import AbstractStrategy, ModelBased, choose
from mpnp.bayesopt.surrogates import NeuralProcessSurrogate
from mpnp.errors import InputError
from mpnp.inference.model import FittedModel
from mpnp.inference.ood import OutsideRangeWarning
from mpnp.integrations.optuna.space import Places, Space
from mpnp.integrations.optuna.studies import COST, STUDY

__all__ = ["AbstractBelief", "StandardisedReader", "OfStudies", "find_belief", "suggest_in_units"]

BEYOND = 0.2
"""Fraction of the range of past studies by which a box may exceed it without a warning."""

Costs = Float[np.ndarray, "loop trial"]


class AbstractBelief(abc.ABC):
    """A strategy, and the conversion of a study to the units that it reads."""

    @abc.abstractmethod
    def num_startup(self, space: Space) -> int:
        """Number of trials to finish before the strategy is used."""

    @abc.abstractmethod
    def require(self, space: Space) -> None:
        """Raise an error for a search space that the model cannot read."""

    @abc.abstractmethod
    def suggest(self, space: Space, history: History, seed: int) -> Float[np.ndarray, " column"]:
        """The next point of the unit box, given costs at others."""


class StandardisedReader(AbstractBelief):
    """Maps the study's box to the unit cube, and standardises costs by those observed so far."""

    def __init__(self, strategy: AbstractStrategy) -> None:
        self.strategy = strategy

    def num_startup(self, space: Space) -> int:
        return len(space.names) + 2

    def require(self, space: Space) -> None:
        self.strategy.require_inputs(len(space.columns))

    def suggest(self, space: Space, history: History, seed: int) -> Float[np.ndarray, " column"]:
        return self.strategy.suggest(history, space.snap, seed)


class OfStudies(AbstractBelief):
    """Reads points and costs in the units of the studies the model was trained on, so it is useful from the first trial."""

    def __init__(self, model: FittedModel, acquisition: str) -> None:
        self.strategy, self.card = ModelBased(NeuralProcessSurrogate(model), acquisition), model.card

    def num_startup(self, space: Space) -> int:
        return 0

    def require(self, space: Space) -> None:
        if space.columns != self.card.columns.inputs:
            raise InputError(
                f"the model has learnt from studies of {', '.join(self.card.columns.inputs)}, but this one searches "
                f"{', '.join(space.columns)}; parameters and scales must be the same"
            )
        box, seen = space.box, self.card.seen
        beyond = np.maximum(seen.low - box.low, box.high - seen.high) / (seen.high - seen.low)
        if beyond.max() > BEYOND:
            column = int(np.argmax(beyond))
            warnings.warn(
                f"'{space.columns[column]}' reaches from {box.low[column]:g} to {box.high[column]:g}, but the studies that the "
                f"model has learnt from only from {seen.low[column]:g} to {seen.high[column]:g}: beyond, it extrapolates",
                OutsideRangeWarning,
                stacklevel=4,
            )

    def suggest(self, space: Space, history: History, seed: int) -> Float[np.ndarray, " column"]:
        return suggest_in_units(self.strategy, self.inputs, self.scale, space, history, seed)

    def inputs(self, places: Places) -> Places:
        """Points as the surrogate reads them: as fractions of the training range."""
        seen = self.card.seen
        return (places - seen.low) / (seen.high - seen.low)

    def scale(self, costs: Costs) -> OutputScale:
        """The scale of the studies that the model has learnt from."""
        y, loops = self.card.columns.output_scale, np.ones((len(costs), 1))
        return OutputScale(y.shift * loops, y.scale * loops)


def suggest_in_units(
    strategy: ModelBased,
    inputs: Callable[[Places], Places],
    scale: Callable[[Costs], OutputScale],
    space: Space,
    history: History,
    seed: int,
) -> Float[np.ndarray, " column"]:
    """The best candidate under a strategy that reads points and costs in units of its own.

    Without any costs yet, it is that of the lowest expected cost.
    """
    box, seeds = space.box, np.asarray([seed], np.uint32)
    best = history.best if len(history.x) else np.full(box.num_inputs, 0.5)
    unit = space.snap(candidate_points(box.num_inputs, best, [seed]))
    allowed = history.allowed(unit, history.admissible(unit))
    candidates, x, pending = (inputs(box.from_unit(part)) for part in (unit, history.x, history.pending))
    z = scale(history.y[None]).apply(history.y[None])
    if not len(history.x):
        expected, _ = strategy.surrogate.moments(x[None], z, candidates, seeds)
        return unit[int(np.argmax(worth(-expected[0], allowed)))]
    # Running trials get the mean cost so far, which leads new trials elsewhere.
    x = np.concatenate([x, pending])
    z = np.pad(z, ((0, 0), (0, len(pending))), constant_values=z.mean())
    return unit[int(choose(strategy, x[None], z, candidates, ~allowed[None], seeds)[0])]


def find_belief(model: Any, acquisition: str) -> AbstractBelief:
    """From a belief, or anything that names a strategy. A model fitted to `tasks_from_studies` is recognised by its columns."""
    if isinstance(model, AbstractBelief):
        return model
    strategy = find_strategy(model, acquisition)
    if isinstance(strategy, ModelBased) and isinstance(strategy.surrogate, ResamplingSurrogate):
        fitted = strategy.surrogate.model
        if (fitted.card.columns.outputs, fitted.card.columns.task) == ((COST,), STUDY):
            return OfStudies(fitted, acquisition)
    return StandardisedReader(strategy)
