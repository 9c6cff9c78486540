"""How a model reads a study: in the study's own units, or in those of the studies it was trained on."""

import abc
import warnings
from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.bayesopt.registry import find_strategy
from mpnp.bayesopt.space import OutputScale
from mpnp.bayesopt.strategies import AbstractStrategy, ModelBased
from mpnp.bayesopt.surrogates import NeuralProcessSurrogate
from mpnp.errors import InputError
from mpnp.inference.model import FittedModel, OutsideRangeWarning
from mpnp.integrations.optuna.space import Places, Space
from mpnp.integrations.optuna.studies import COST, STUDY

__all__ = ["AbstractBelief", "StandardisedReader", "OfStudies", "find_belief"]

BEYOND = 0.2
"""Fraction of the range of past studies by which a box may exceed it without a warning."""

Costs = Float[np.ndarray, "loop trial"]


class AbstractBelief(abc.ABC):
    """A strategy, and the conversion of a study to the units that it reads."""

    strategy: AbstractStrategy
    num_startup: int
    """Number of trials to finish before the strategy is used."""

    @abc.abstractmethod
    def require(self, space: Space) -> None:
        """Raise an error for a search space that the model cannot read."""

    @abc.abstractmethod
    def inputs(self, space: Space, places: Places) -> Places:
        """Points of the search space in the strategy's units."""

    @abc.abstractmethod
    def scale(self, costs: Costs) -> OutputScale:
        """The scale that converts costs to the strategy's units."""


class StandardisedReader(AbstractBelief):
    """Maps the study's box to the unit cube, and standardises costs by those observed so far."""

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
    """Reads points and costs in the units of the studies the model was trained on, so it is useful from the first trial."""

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
                f"model has learnt from only from {seen.low[column]:g} to {seen.high[column]:g}: beyond, it extrapolates",
                OutsideRangeWarning,
                stacklevel=4,
            )

    def inputs(self, space: Space, places: Places) -> Places:
        # The surrogate expects inputs as fractions of the training range.
        seen = self.card.seen
        return (places - seen.low) / (seen.high - seen.low)

    def scale(self, costs: Costs) -> OutputScale:
        y, loops = self.card.columns.output_scale, np.ones((len(costs), 1))
        return OutputScale(y.shift * loops, y.scale * loops)


def find_belief(model: Any, acquisition: str) -> AbstractBelief:
    """From a belief, or anything that names a strategy. A model fitted to `tasks_from_studies` is recognised by its columns."""
    if isinstance(model, AbstractBelief):
        return model
    strategy = find_strategy(model, acquisition)
    if isinstance(strategy, ModelBased) and isinstance(strategy.surrogate, NeuralProcessSurrogate):
        fitted = strategy.surrogate.model
        if (fitted.card.columns.outputs, fitted.card.columns.task) == ((COST,), STUDY):
            return OfStudies(fitted, acquisition)
    return StandardisedReader(strategy)
