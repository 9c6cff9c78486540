"""Strategies choose which candidate to evaluate next, for several optimisation loops at once."""

import abc
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Integer

from mpnp.bayesopt.acquisition import ACQUISITIONS, EXPECTED_IMPROVEMENT, find_acquisition
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
from mpnp.errors import InputError
from mpnp.inference.model import NUM_SAMPLES, FittedModel, load

__all__ = [
    "ACQUISITIONS",
    "EXPECTED_IMPROVEMENT",
    "AbstractStrategy",
    "ModelBased",
    "RandomSearch",
    "child_seed",
    "choose",
    "find_strategy",
]

GAUSSIAN_PROCESS, RANDOM = "gp", "random"


class AbstractStrategy(abc.ABC):
    """Scores candidates given the observations of each loop."""

    @abc.abstractmethod
    def scores(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> Scores:
        """Scores of the candidates for each loop. Higher is better."""

    @abc.abstractmethod
    def expected(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> Scores | None:
        """Predicted mean outputs at the candidates; None if the strategy predicts nothing."""

    @abc.abstractmethod
    def require_inputs(self, num_inputs: int) -> None:
        """Raise an error if the strategy cannot search a box with this many inputs."""

    @abc.abstractmethod
    def describe(self) -> dict[str, Any]:
        """What determines its choices, for records."""


class ModelBased(AbstractStrategy):
    """Maximises an acquisition function of a surrogate."""

    def __init__(self, surrogate: AbstractSurrogate, acquisition: str = EXPECTED_IMPROVEMENT) -> None:
        find_acquisition(acquisition)
        self.surrogate, self.acquisition = surrogate, acquisition

    def scores(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> Scores:
        return find_acquisition(self.acquisition).scores(self.surrogate, x, z, candidates, seeds)

    def expected(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> Scores | None:
        return self.surrogate.moments(x, z, candidates, seeds)[0]

    def require_inputs(self, num_inputs: int) -> None:
        self.surrogate.require_inputs(num_inputs)

    def describe(self) -> dict[str, Any]:
        return self.surrogate.describe()


class RandomSearch(AbstractStrategy):
    """Uniform random choice: the baseline that every other strategy must beat."""

    def scores(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> Scores:
        return np.stack([np.random.default_rng(seed).random(len(candidates)) for seed in seeds])

    def expected(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> Scores | None:
        return None

    def require_inputs(self, num_inputs: int) -> None:
        """Searches any box."""

    def describe(self) -> dict[str, Any]:
        return {"model": RANDOM}


def find_strategy(model: Any, acquisition: str, *, num_samples: int = NUM_SAMPLES) -> AbstractStrategy:
    """Make a strategy from a model or surrogate, the directory or name of a model, 'gp' or 'random'.

    `num_samples` is the number of function samples that represent the posterior of a model; surrogates have their own.
    """
    find_acquisition(acquisition)
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
    """Index of the best-scoring unknown candidate for each loop; ties go to the first."""
    scores = strategy.scores(x, z, candidates, seeds)
    # NaN and minus infinity must still rank above known points.
    worth = np.clip(np.nan_to_num(scores, nan=-np.inf), np.finfo(float).min, None)
    return np.argmax(np.where(known, -np.inf, worth), axis=1)


def child_seed(seed: int, index: int) -> int:
    """An independent seed derived from a seed and an index, such as that of a trial or a suggestion."""
    return int(np.random.SeedSequence([seed, index]).generate_state(1)[0])
