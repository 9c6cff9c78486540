"""How a model reads a study: in the study's own units, or in those of the studies it was trained on."""

import abc
import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.bayesopt.acquisition import find_acquisition, stable
from mpnp.bayesopt.blend import Blend
from mpnp.bayesopt.climbing import climb, worth
from mpnp.bayesopt.history import History
from mpnp.bayesopt.opening import Opening
from mpnp.bayesopt.registry import AUTO, find_strategy
from mpnp.bayesopt.resampling_surrogate import ResamplingSurrogate
from mpnp.bayesopt.space import OutputScale, candidate_points
from mpnp.bayesopt.strategies import AbstractStrategy, ModelBased
from mpnp.bayesopt.study_process import ProcessOfSearches
from mpnp.bayesopt.surrogates import AbstractSurrogate
from mpnp.errors import InputError
from mpnp.inference.card import ModelCard
from mpnp.inference.ood import OutsideRangeWarning
from mpnp.integrations.optuna.space import Places, Space
from mpnp.integrations.optuna.studies import COST, STUDY
from mpnp.tables.curves import Curves

__all__ = ["AbstractBelief", "StandardisedReader", "OfStudies", "StudyUnits", "find_belief", "suggest_in_units"]

NUM_FIRST = 5
"""Configurations of past studies that begin a study."""

BEYOND = 0.2
"""Fraction of the range of past studies by which a box may exceed it without a warning."""


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


@dataclasses.dataclass(frozen=True)
class StudyUnits:
    """How surrogates that have learnt from past studies read points and costs: points as fractions of the studies' range."""

    columns: tuple[str, ...]
    low: Float[np.ndarray, " column"]
    high: Float[np.ndarray, " column"]
    scale: OutputScale

    @staticmethod
    def of_card(card: ModelCard) -> "StudyUnits":
        """Those of a model that was fitted to studies."""
        y = card.columns.output_scale
        return StudyUnits(card.columns.inputs, card.seen.low, card.seen.high, OutputScale(y.shift[None], y.scale[None]))

    @staticmethod
    def of_curves(curves: Curves) -> "StudyUnits":
        """Those of the studies themselves."""
        scale = OutputScale.of(curves.y.reshape(1, -1))
        return StudyUnits(curves.columns.inputs, curves.x.min(axis=0), curves.x.max(axis=0), scale)

    def inputs(self, places: Places) -> Places:
        """Points as fractions of the range."""
        return (places - self.low) / np.maximum(self.high - self.low, np.finfo(float).tiny)

    def places(self, inputs: Places) -> Places:
        """Points from fractions of the range."""
        return self.low + inputs * (self.high - self.low)

    def costs(self, y: Float[np.ndarray, " trial"]) -> Float[np.ndarray, " trial"]:
        """Costs in units of the studies."""
        return self.scale.apply(y[None])[0]

    def require(self, space: Space) -> None:
        """Raise an error for other parameters, and warn of a box that the studies never reached."""
        if space.columns != self.columns:
            raise InputError(
                f"the model has learnt from studies of {', '.join(self.columns)}, but this one searches "
                f"{', '.join(space.columns)}; parameters and scales must be the same"
            )
        box = space.box
        beyond = np.maximum(self.low - box.low, box.high - self.high) / (self.high - self.low)
        if beyond.max() > BEYOND:
            column = int(np.argmax(beyond))
            warnings.warn(
                f"'{space.columns[column]}' reaches from {box.low[column]:g} to {box.high[column]:g}, but the studies that the "
                f"model has learnt from only from {self.low[column]:g} to {self.high[column]:g}: beyond, it extrapolates",
                OutsideRangeWarning,
                stacklevel=5,
            )


class OfStudies(AbstractBelief):
    """Surrogates that have learnt from past studies, so it is useful from the first trial.

    If there are several, such as a network and a process, each is believed as far as it predicts the trials of this study.
    """

    def __init__(
        self, units: StudyUnits, members: Sequence[AbstractSurrogate], acquisition: str, opening: Opening | None = None
    ) -> None:
        self.units, self.members, self.acquisition, self.opening = units, members, stable(acquisition), opening

    def num_startup(self, space: Space) -> int:
        return 0

    def require(self, space: Space) -> None:
        self.units.require(space)

    def suggest(self, space: Space, history: History, seed: int) -> Float[np.ndarray, " column"]:
        if self.opening is not None and len(history.known) < min(NUM_FIRST, len(self.opening.points)):
            return self._open(self.opening, space, history)
        return suggest_in_units(self.units, self.members, self.acquisition, space, history, seed)

    def _open(self, opening: Opening, space: Space, history: History) -> Float[np.ndarray, " column"]:
        """The next of the first configurations."""
        units, box = self.units, space.box

        def nearest(inputs: Places) -> Places:
            return space.snap(np.clip(box.to_unit(units.places(inputs)), 0, 1))

        unit = nearest(opening.points)
        x, pending = (units.inputs(box.from_unit(part)) for part in (history.x, history.pending))
        allowed = history.allowed(unit, history.admissible(unit))
        return nearest(opening.suggest(x, units.costs(history.y), pending, allowed)[None])[0]


def suggest_in_units(
    units: StudyUnits,
    members: Sequence[AbstractSurrogate],
    acquisition: str,
    space: Space,
    history: History,
    seed: int,
) -> Float[np.ndarray, " column"]:
    """The best point under surrogates that read points and costs in units of their own.

    Improvement is over the lowest expected cost of the trials so far. Without any costs yet, the point is that of the lowest
    expected cost.
    """
    box, seeds = space.box, np.asarray([seed], np.uint32)
    best = history.best if len(history.x) else np.full(box.num_inputs, 0.5)
    candidates = space.snap(candidate_points(box.num_inputs, best, [seed]))
    allowed = history.allowed(candidates, history.admissible(candidates))
    x, pending = (units.inputs(box.from_unit(part)) for part in (history.x, history.pending))
    blend = Blend.of(members, x, units.costs(history.y)).believing(pending)
    fitted_means = blend.at(x)[0] if len(x) else None

    def score(unit: Places) -> Float[np.ndarray, " point"]:
        points = units.inputs(box.from_unit(unit))
        if fitted_means is None:
            return -blend.at(points, seed)[0]
        return find_acquisition(acquisition).scores(blend, x[None], fitted_means[None], points, seeds)[0]

    scores = worth(score(candidates), allowed)
    if not find_acquisition(acquisition).climbs:
        return candidates[int(np.argmax(scores))]
    return climb(score, candidates, scores, history.admissible, space.snap, np.random.default_rng([seed, 2]))


def find_belief(model: Any, acquisition: str, past: Curves | None = None) -> AbstractBelief:
    """From a belief, or anything that names a strategy. A model fitted to `tasks_from_studies` is recognised by its columns.

    If there are past studies, a process learns from them: in place of the default model, or beside a model of studies.
    """
    if isinstance(model, AbstractBelief):
        return model
    if past is not None and model == AUTO:
        process = _process(past, units := StudyUnits.of_curves(past))
        return OfStudies(units, [process], acquisition, Opening(process))
    strategy = find_strategy(model, acquisition)
    if isinstance(strategy, ModelBased) and isinstance(strategy.surrogate, ResamplingSurrogate):
        card = strategy.surrogate.model.card
        if (card.columns.outputs, card.columns.task) == ((COST,), STUDY):
            units = StudyUnits.of_card(card)
            if past is None:
                return OfStudies(units, [strategy.surrogate], acquisition)
            process = _process(past, units)
            return OfStudies(units, [strategy.surrogate, process], acquisition, Opening(process))
    if past is not None:
        raise InputError("only the default model, or a model fitted to past studies, can learn from past_studies")
    return StandardisedReader(strategy)


def _process(past: Curves, units: StudyUnits) -> ProcessOfSearches:
    if past.columns.inputs != units.columns:
        raise InputError(
            f"past_studies have {', '.join(past.columns.inputs)}, but those of the model {', '.join(units.columns)}"
        )
    pairs = [past.pair(number) for number in range(len(past))]
    return ProcessOfSearches([(units.inputs(x), units.costs(y[:, 0])) for x, y in pairs])
