"""Strategies: which candidate to evaluate next, for several loops at once."""

import abc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Integer

from mpnp.bayesopt.acquisition import expected_improvement, log_expected_improvement
from mpnp.bayesopt.gaussian_process import pretrained_process
from mpnp.bayesopt.surrogates import (
    AbstractSurrogate,
    Candidates,
    Inputs,
    NeuralProcessSurrogate,
    Outputs,
    Scores,
    Seeds,
)
from mpnp.errors import InputError, unknown_name
from mpnp.fitted import NUM_SAMPLES, FittedModel, load

__all__ = [
    "ACQUISITIONS",
    "EXPECTED_IMPROVEMENT",
    "AbstractStrategy",
    "ModelBased",
    "RandomSearch",
    "choose",
    "find_strategy",
    "question_seed",
    "require_acquisition",
]

EXPECTED_IMPROVEMENT = "expected-improvement"
GAUSSIAN_PROCESS, RANDOM = "gp", "random"


def _by_expected_improvement(
    surrogate: AbstractSurrogate, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds
) -> Scores:
    return expected_improvement(*surrogate.moments(x, z, candidates, seeds), z.min(axis=1, keepdims=True))


def _by_log_expected_improvement(
    surrogate: AbstractSurrogate, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds
) -> Scores:
    return log_expected_improvement(*surrogate.moments(x, z, candidates, seeds), z.min(axis=1, keepdims=True))


def _by_thompson(surrogate: AbstractSurrogate, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> Scores:
    """The minimum of one coherent function."""
    return -surrogate.draw(x, z, candidates, seeds)


ACQUISITIONS: dict[str, Callable[[AbstractSurrogate, Inputs, Outputs, Candidates, Seeds], Scores]] = {
    EXPECTED_IMPROVEMENT: _by_expected_improvement,
    "log-expected-improvement": _by_log_expected_improvement,
    "thompson": _by_thompson,
}
"""How much each candidate is worth, by the name of the acquisition."""


class AbstractStrategy(abc.ABC):
    """What a candidate is worth, given the points of each loop."""

    @abc.abstractmethod
    def scores(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> Scores:
        """The more, the rather a candidate should be evaluated next."""

    @abc.abstractmethod
    def expected(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> Scores | None:
        """The outputs that the strategy expects, if it expects any."""

    @abc.abstractmethod
    def require_inputs(self, num_inputs: int) -> None:
        """Refuse a box that the strategy cannot search."""

    @abc.abstractmethod
    def describe(self) -> dict[str, Any]:
        """What decides its choices, for records."""


class ModelBased(AbstractStrategy):
    """An acquisition that reads a surrogate."""

    def __init__(self, surrogate: AbstractSurrogate, acquisition: str = EXPECTED_IMPROVEMENT) -> None:
        require_acquisition(acquisition)
        self.surrogate, self.acquisition = surrogate, acquisition

    def scores(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> Scores:
        return ACQUISITIONS[self.acquisition](self.surrogate, x, z, candidates, seeds)

    def expected(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> Scores | None:
        return self.surrogate.moments(x, z, candidates, seeds)[0]

    def require_inputs(self, num_inputs: int) -> None:
        self.surrogate.require_inputs(num_inputs)

    def describe(self) -> dict[str, Any]:
        return self.surrogate.describe()


class RandomSearch(AbstractStrategy):
    """Any candidate, whatever was observed: what every other strategy must beat."""

    def scores(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> Scores:
        return np.stack([np.random.default_rng(seed).random(len(candidates)) for seed in seeds])

    def expected(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> Scores | None:
        return None

    def require_inputs(self, num_inputs: int) -> None:
        """Any box will do."""

    def describe(self) -> dict[str, Any]:
        return {"model": RANDOM}


def require_acquisition(name: str) -> None:
    """Refuse a name that no acquisition has."""
    if name not in ACQUISITIONS:
        raise unknown_name("acquisition", str(name), ACQUISITIONS, f"Choose one of: {', '.join(ACQUISITIONS)}.")


def find_strategy(model: Any, acquisition: str, *, num_samples: int = NUM_SAMPLES) -> AbstractStrategy:
    """From a model or surrogate, the directory or name of a model, 'gp' or 'random'.

    `num_samples` functions stand for the posterior of a model that is not a surrogate yet.
    """
    require_acquisition(acquisition)
    if model == RANDOM:
        return RandomSearch()
    if model == GAUSSIAN_PROCESS:
        return ModelBased(pretrained_process(), acquisition)
    if isinstance(model, AbstractSurrogate):
        return ModelBased(model, acquisition)
    if isinstance(model, str | Path):
        model = load(model)
    if not isinstance(model, FittedModel):
        raise InputError(
            f"model must be a loaded model, the directory or name of one, '{GAUSSIAN_PROCESS}' or '{RANDOM}'; "
            f"got {type(model).__name__}"
        )
    return ModelBased(NeuralProcessSurrogate(model, num_samples=num_samples), acquisition)


def choose(
    strategy: AbstractStrategy,
    x: Inputs,
    z: Outputs,
    candidates: Candidates,
    known: Bool[np.ndarray, "loop candidate"],
    seeds: Seeds,
) -> Integer[np.ndarray, " loop"]:
    """The candidate of the highest score among those that are not known yet; of equal ones the first."""
    scores = strategy.scores(x, z, candidates, seeds)
    # A score that is not a number, or minus infinity, must still be preferred to a point that is known.
    worth = np.clip(np.nan_to_num(scores, nan=-np.inf), np.finfo(float).min, None)
    return np.argmax(np.where(known, -np.inf, worth), axis=1)


def question_seed(seed: int, number: int) -> int:
    """The seed of whatever is drawn for one question of one loop."""
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
