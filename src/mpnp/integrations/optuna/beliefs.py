"""How a model reads a study: in units that the study brings along, or in those of the studies that it has learnt from."""

import abc
import warnings
from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.bayesopt.standardise import OutputScale
from mpnp.bayesopt.strategies import AbstractStrategy, ModelBased, find_strategy
from mpnp.bayesopt.surrogates import NeuralProcessSurrogate
from mpnp.errors import InputError
from mpnp.fitted import FittedModel, OutsideRangeWarning
from mpnp.integrations.optuna.space import Places, Space
from mpnp.integrations.optuna.studies import COST, STUDY

__all__ = ["AbstractBelief", "OfAnyFunction", "OfStudies", "find_belief"]

BEYOND = 0.2
"""Of the range that past studies covered: a box that reaches further beyond it is worth a warning."""

Costs = Float[np.ndarray, "loop trial"]


class AbstractBelief(abc.ABC):
    """A strategy, and the units that it reads."""

    strategy: AbstractStrategy
    num_startup: int
    """Trials that should have finished before it is asked."""

    @abc.abstractmethod
    def require(self, space: Space) -> None:
        """Refuse a space that the model does not know."""

    @abc.abstractmethod
    def inputs(self, space: Space, places: Places) -> Places:
        """Places as the strategy reads them."""

    @abc.abstractmethod
    def scale(self, costs: Costs) -> OutputScale:
        """The scale on which the strategy reads costs."""


class OfAnyFunction(AbstractBelief):
    """The box is that of the study, and costs are standardised by what was observed."""

    num_startup = 3

    def __init__(self, strategy: AbstractStrategy) -> None:
        self.strategy = strategy

    def require(self, space: Space) -> None:
        self.strategy.require_inputs(len(space.names))

    def inputs(self, space: Space, places: Places) -> Places:
        return space.box.to_unit(places)

    def scale(self, costs: Costs) -> OutputScale:
        return OutputScale.of(costs)


class OfStudies(AbstractBelief):
    """Places and costs mean what they meant in the studies that the model has learnt from; so it knows something at once."""

    num_startup = 0

    def __init__(self, model: FittedModel, acquisition: str) -> None:
        self.strategy, self.card = ModelBased(NeuralProcessSurrogate(model), acquisition), model.card

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
                f"model has learnt from only from {seen.low[column]:g} to {seen.high[column]:g}: beyond, it guesses",
                OutsideRangeWarning,
                stacklevel=4,
            )

    def inputs(self, space: Space, places: Places) -> Places:
        # The surrogate takes its inputs for shares of the range that training covered.
        seen = self.card.seen
        return (places - seen.low) / (seen.high - seen.low)

    def scale(self, costs: Costs) -> OutputScale:
        y, loops = self.card.normaliser.y, np.ones((len(costs), 1))
        return OutputScale(y.shift * loops, y.scale * loops)


def find_belief(model: Any, acquisition: str) -> AbstractBelief:
    """From a belief, or whatever names a strategy; a model of `tasks_from_studies` is known by its columns."""
    if isinstance(model, AbstractBelief):
        return model
    strategy = find_strategy(model, acquisition)
    if isinstance(strategy, ModelBased) and isinstance(strategy.surrogate, NeuralProcessSurrogate):
        fitted = strategy.surrogate.model
        if (fitted.card.columns.outputs, fitted.card.columns.task) == ((COST,), STUDY):
            return OfStudies(fitted, acquisition)
    return OfAnyFunction(strategy)
