"""Optuna's search spaces as boxes: parameters on a log scale where needed, and one input for each choice of a category."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from optuna.distributions import (  # pyright: ignore[reportMissingImports]
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from mpnp.bayesopt.space import Box
from mpnp.errors import InputError

__all__ = ["Places", "Space"]

Places = Float[np.ndarray, "_ column"]
"""Points of a search space: numbers, or their logarithms on a log scale, and for a category 1 at its choice and 0 elsewhere."""

Distribution = FloatDistribution | IntDistribution | CategoricalDistribution


@dataclasses.dataclass(frozen=True)
class Space:
    """Parameters in a fixed order. Each takes one column, or if it is categorical one for each choice."""

    distributions: tuple[tuple[str, Distribution], ...]

    @staticmethod
    def of(distributions: Mapping[str, BaseDistribution]) -> "Space":
        """From Optuna's distributions, sorted by name, without parameters that have a single value."""
        searched = sorted((name, one) for name, one in distributions.items() if not one.single())
        return Space(tuple((name, _require_known(name, one)) for name, one in searched))

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names of the parameters in tables for models, which include scales and choices."""
        return tuple(column for name, one in self.distributions for column in _columns(name, one))

    @property
    def names(self) -> tuple[str, ...]:
        """Optuna's names."""
        return tuple(name for name, _ in self.distributions)

    @property
    def box(self) -> Box:
        """Bounds of the points."""
        return Box.read(np.asarray([bounds for _, one in self.distributions for bounds in _bounds(one)], np.float64))

    def holds(self, params: Mapping[str, Any]) -> bool:
        """Whether `params` has all parameters, each with a value that it may take."""
        return all(name in params and _takes(one, params[name]) for name, one in self.distributions)

    def places(self, params: Sequence[Mapping[str, Any]]) -> Places:
        """The points of parameter values."""
        rows = [[number for name, one in self.distributions for number in _numbers(one, row[name])] for row in params]
        return np.asarray(rows, np.float64).reshape(-1, len(self.columns))

    def values(self, places: Places) -> list[dict[str, Any]]:
        """The parameter values nearest to points that Optuna allows."""
        ends = np.cumsum([len(_columns(name, one)) for name, one in self.distributions])
        parts = np.split(places, ends[:-1], axis=1)
        columns = [_values(one, part) for (_, one), part in zip(self.distributions, parts, strict=True)]
        return [dict(zip(self.names, row, strict=True)) for row in zip(*columns, strict=True)]

    def snap(self, unit: Places) -> Places:
        """The points of the unit box nearest to these that stand for parameter values."""
        return self.box.to_unit(self.places(self.values(self.box.from_unit(unit))))


def _require_known(name: str, distribution: BaseDistribution) -> Distribution:
    if not isinstance(distribution, Distribution):
        raise InputError(f"the parameter '{name}' must be a float, an int or a category, got {type(distribution).__name__}")
    return distribution


def _columns(name: str, one: Distribution) -> list[str]:
    if isinstance(one, CategoricalDistribution):
        return [f"{name}={choice}" for choice in one.choices]
    return [f"log {name}" if one.log else name]


def _bounds(one: Distribution) -> list[tuple[float, float]]:
    """Half a step is added at both ends, so that all values of a grid get equal room."""
    if isinstance(one, CategoricalDistribution):
        return [(0.0, 1.0)] * len(one.choices)
    slack = (one.step or 0) / 2
    low, high = one.low - slack, one.high + slack
    return [(float(np.log(low)), float(np.log(high)))] if one.log else [(low, high)]


def _takes(one: Distribution, value: Any) -> bool:
    return value in one.choices if isinstance(one, CategoricalDistribution) else bool(one.low <= value <= one.high)


def _numbers(one: Distribution, value: Any) -> list[float]:
    if isinstance(one, CategoricalDistribution):
        return [float(number == one.choices.index(value)) for number in range(len(one.choices))]
    return [float(np.log(value)) if one.log else float(value)]


def _values(one: Distribution, places: Float[np.ndarray, "point column"]) -> list[Any]:
    if isinstance(one, CategoricalDistribution):
        return [one.choices[number] for number in np.argmax(places, axis=1)]
    values = np.exp(places[:, 0]) if one.log else places[:, 0]
    if one.step is not None:
        values = one.low + np.round((values - one.low) / one.step) * one.step
    values = np.clip(values, one.low, one.high)
    return [int(value) for value in np.round(values)] if isinstance(one, IntDistribution) else values.tolist()
