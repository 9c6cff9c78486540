"""Families of objectives for studies that resemble one another: a declared one, Branin's function moved and scaled, and
hyper-parameters of support vector regression on small real data sets."""

import abc
import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import optuna
from classic_objectives import BENCHMARK, BRANIN_BOX
from hyperparameter_scores import COSTS, GAMMAS, SCORES
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from scipy.optimize import minimize

__all__ = ["FAMILIES", "PAST", "TEST", "VALIDATION", "AbstractObjective", "Family"]

PAST, VALIDATION, TEST = 0, 1, 2
"""Seed prefixes, which keep past, validation and test objectives apart."""

NUM_RIPPLES = 24

GRID = 801
"""Points along each side of the grid on which minima are sought first."""

Places = np.ndarray
"""Positions in the unit box, one row per point, the parameters in alphabetical order."""


class AbstractObjective(abc.ABC):
    """One objective of a family, without noise and with a known minimum."""

    scale: float
    """The unit of regret."""

    @property
    @abc.abstractmethod
    def minimum(self) -> float:
        """The lowest cost."""

    @abc.abstractmethod
    def __call__(self, places: Places) -> np.ndarray:
        """Costs at points of the unit box."""


@dataclasses.dataclass(frozen=True)
class Family:
    """Objectives that share their parameters."""

    title: str
    space: Mapping[str, BaseDistribution]
    draw: Any
    """Makes the objective of a part and a number."""
    sizes: tuple[int, int, int]
    """Numbers of past, validation and test objectives."""
    noise: float = 0.0
    """Standard deviation of the noise of an evaluation, in units of the objective's scale."""

    def objective(self, part: int, number: int) -> "Run":
        """What a study minimises."""
        return Run(self, self.draw(part, number), (part, number))


@dataclasses.dataclass(frozen=True)
class Run:
    """An objective, as Optuna calls it. The noise of the n-th trial is the same for every sampler."""

    family: Family
    objective: AbstractObjective
    seed: tuple[int, int]

    def __call__(self, trial: optuna.Trial) -> float:
        params = {name: _suggest(trial, name, one) for name, one in self.family.space.items()}
        noise = np.random.default_rng([*self.seed, trial.number]).normal(0, self.family.noise)
        return self.cost(params) + self.objective.scale * noise

    def cost(self, params: Mapping[str, Any]) -> float:
        """The cost without noise."""
        place = [_position(one, params[name]) for name, one in sorted(self.family.space.items())]
        return float(self.objective(np.array([place]))[0])

    def regret(self, trials: list[optuna.trial.FrozenTrial]) -> np.ndarray:
        """The lowest cost after each trial, above the minimum, in units of the objective's scale."""
        costs = np.minimum.accumulate([self.cost(trial.params) for trial in trials])
        return np.maximum(costs - self.objective.minimum, 0) / self.objective.scale


def _suggest(trial: optuna.Trial, name: str, one: Any) -> float:
    suggest = trial.suggest_int if isinstance(one, IntDistribution) else trial.suggest_float
    return suggest(name, one.low, one.high, log=one.log)


def _position(one: Any, value: float) -> float:
    low, high, value = (np.log(v) if one.log else float(v) for v in (one.low, one.high, value))
    return (value - low) / (high - low)


class Landscape(AbstractObjective):
    """A tilted valley with a random minimum, a cliff where the rate is too high, and ripples; random level and scale."""

    def __init__(self, part: int, number: int) -> None:
        rng = np.random.default_rng([part, number])
        rate = np.clip(rng.normal(0.5, 0.13), 0.15, 0.85)
        width = np.clip(0.8 - 0.6 * rate + rng.normal(0, 0.1), 0.1, 0.9)
        self.floor, self.tilt = np.array([rate, width]), rng.normal(0.4, 0.2)
        self.widths = np.array([0.10, 0.30]) * np.exp(rng.normal(0, 0.25, size=2))
        self.cliff, self.level, self.scale = rng.uniform(0.1, 0.25), rng.normal(0, 0.5), float(np.exp(rng.normal(0, 0.3)))
        self.waves, self.phases = rng.normal(0, 6.0, size=(NUM_RIPPLES, 2)), rng.uniform(0, 2 * np.pi, size=NUM_RIPPLES)

    def __call__(self, places: Places) -> np.ndarray:
        away = places - self.floor
        turn = np.array([[np.cos(self.tilt), -np.sin(self.tilt)], [np.sin(self.tilt), np.cos(self.tilt)]])
        valley = np.sqrt(1 + ((away @ turn / self.widths) ** 2).sum(axis=-1)) - 1
        fall = np.logaddexp(0, (away[..., 0] - self.cliff) / 0.03)
        ripples = np.cos(places @ self.waves.T + self.phases).sum(axis=-1) * np.sqrt(2 / NUM_RIPPLES)
        return self.level + self.scale * (valley + np.minimum(fall, 4.0) + 0.12 * ripples)

    @property
    def minimum(self) -> float:
        return _minimum(self)


class MovedBranin(AbstractObjective):
    """Branin's function, moved by up to a quarter of its box along each side, and scaled."""

    def __init__(self, part: int, number: int) -> None:
        rng = np.random.default_rng([part, number])
        self.shift = rng.uniform(-0.25, 0.25, size=2)
        self.scale, self.level = float(50 * np.exp(rng.normal(0, 0.5))), rng.normal(0, 50)

    def __call__(self, places: Places) -> np.ndarray:
        low, high = np.array(BRANIN_BOX).T
        values = BENCHMARK["branin"].function(low + (places - self.shift) * (high - low))
        return self.level + self.scale / 50 * values

    @property
    def minimum(self) -> float:
        return _minimum(self)


class SupportVectors(AbstractObjective):
    """Log of the cross-validated error of support vector regression on a real data set, looked up in the table of scores."""

    scale = 1.0

    def __init__(self, part: int, number: int) -> None:
        self.scores = _scores()[_rows_of(part)[number]]

    @property
    def minimum(self) -> float:
        return float(self.scores.min())

    def __call__(self, places: Places) -> np.ndarray:
        cost, gamma = np.round(places * (np.array(self.scores.shape) - 1)).astype(int).T
        return self.scores[cost, gamma].astype(float)


@functools.cache
def _scores() -> np.ndarray:
    with np.load(SCORES) as table:
        return table["scores"]


@functools.cache
def _rows_of(part: int) -> np.ndarray:
    """Rows of the table by part, in a random order: a tenth of the data sets for validation, and as many for tests."""
    rows = np.random.default_rng(0).permutation(len(_scores()))
    tenth = len(rows) // 10
    return {VALIDATION: rows[:tenth], TEST: rows[tenth : 2 * tenth], PAST: rows[2 * tenth :]}[part]


@functools.cache
def _minimum(objective: AbstractObjective) -> float:
    """On a grid, then downhill from its five best points."""
    side = np.linspace(0, 1, GRID)
    places = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    costs = objective(places)
    found = [minimize(objective, start, method="L-BFGS-B", bounds=[(0, 1)] * 2).fun for start in places[np.argsort(costs)[:5]]]
    return float(min(costs.min(), *map(np.min, found)))


FAMILIES = {
    "landscape": Family(
        "declared family",
        {"rate": FloatDistribution(1e-4, 1.0, log=True), "width": FloatDistribution(0.0, 10.0)},
        Landscape,
        (400, 30, 30),
        noise=0.05,
    ),
    "branin": Family(
        "moved and scaled Branin",
        {"a": FloatDistribution(-5.0, 10.0), "b": FloatDistribution(0.0, 15.0)},
        MovedBranin,
        (400, 30, 30),
    ),
    "svr": Family(
        "support vector regression",
        {
            "log2_C": IntDistribution(int(COSTS[0]), int(COSTS[-1])),
            "log2_gamma": IntDistribution(int(GAMMAS[0]), int(GAMMAS[-1])),
        },
        SupportVectors,
        (250, 30, 30),
    ),
}
