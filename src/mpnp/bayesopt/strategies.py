"""Strategies choose the next point of one search, or among candidates for several loops at once."""

import abc
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Integer

from mpnp.bayesopt.acquisition import EXPECTED_IMPROVEMENT, find_acquisition
from mpnp.bayesopt.climbing import climb, worth
from mpnp.bayesopt.history import History, Snap
from mpnp.bayesopt.space import OutputScale, candidate_points
from mpnp.bayesopt.surrogates import AbstractSurrogate, Candidates, Inputs, Outputs, Scores, Seeds

__all__ = ["RANDOM", "AbstractStrategy", "ModelBased", "RandomSearch", "child_seed", "choose"]

RANDOM = "random"

NUM_TRIES = 256
"""Random points among which the first unknown one is taken."""


class AbstractStrategy(abc.ABC):
    """Chooses points given the observations so far."""

    @abc.abstractmethod
    def suggest(self, history: History, snap: Snap, seed: int) -> Float[np.ndarray, " input"]:
        """The next point of a search with at least one successful evaluation, anywhere that `snap` leads to.

        It depends on the arguments alone.
        """

    @abc.abstractmethod
    def best(self, history: History) -> int:
        """Index of the evaluation believed to be the best."""

    @property
    @abc.abstractmethod
    def explanation(self) -> str:
        """Who suggests, and why."""

    @abc.abstractmethod
    def scores(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> Scores:
        """Scores of the candidates for each loop, as the paper's study chooses. Higher is better."""

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

    def suggest(self, history: History, snap: Snap, seed: int) -> Float[np.ndarray, " input"]:
        seeds, y = np.asarray([seed], np.uint32), history.y[None]
        x = np.concatenate([history.x, history.pending])[None]
        z = np.pad(OutputScale.of(y).apply(y), ((0, 0), (0, len(history.pending))))  # 0 is the mean output so far

        def score(points: Candidates) -> Float[np.ndarray, " candidate"]:
            return self.scores(x, z, points, seeds)[0]

        candidates = snap(candidate_points(history.x.shape[1], history.best, [seed]))
        scores = worth(score(candidates), history.allowed(candidates, history.uncrowded(candidates)))
        if not find_acquisition(self.acquisition).climbs:
            return candidates[np.argmax(scores)]
        return climb(score, candidates, scores, history.uncrowded, snap, np.random.default_rng([seed, 2]))

    def best(self, history: History) -> int:
        return int(np.argmin(history.y))

    @property
    def explanation(self) -> str:
        return "the model that was chosen"

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

    def suggest(self, history: History, snap: Snap, seed: int) -> Float[np.ndarray, " input"]:
        points = snap(np.random.default_rng(seed).random((NUM_TRIES, history.x.shape[1])))
        return points[int(np.argmax(history.unknown(points)))]

    def best(self, history: History) -> int:
        return int(np.argmin(history.y))

    @property
    def explanation(self) -> str:
        return "chance, which learns nothing"

    def scores(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> Scores:
        return np.stack([np.random.default_rng(seed).random(len(candidates)) for seed in seeds])

    def expected(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> Scores | None:
        return None

    def require_inputs(self, num_inputs: int) -> None:
        """Searches any box."""

    def describe(self) -> dict[str, Any]:
        return {"model": RANDOM}


def choose(
    strategy: AbstractStrategy,
    x: Inputs,
    z: Outputs,
    candidates: Candidates,
    known: Bool[np.ndarray, "loop candidate"],
    seeds: Seeds,
) -> Integer[np.ndarray, " loop"]:
    """Index of the best-scoring unknown candidate for each loop; ties go to the first."""
    return np.argmax(worth(strategy.scores(x, z, candidates, seeds), ~known), axis=1)


def child_seed(seed: int, index: int) -> int:
    """An independent seed derived from a seed and an index, such as that of a trial or a suggestion."""
    return int(np.random.SeedSequence([seed, index]).generate_state(1)[0])
