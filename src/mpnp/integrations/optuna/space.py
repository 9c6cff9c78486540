"""Optuna's numeric search spaces as boxes. Converts parameter values to points, on a log scale where needed, and back."""

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

__all__ = ["Space", "require_numeric"]

Places = Float[np.ndarray, "_ parameter"]
"""Points of a search space: parameter values, or their logarithms on a log scale."""


@dataclasses.dataclass(frozen=True)
class Space:
    """Parameters in a fixed order. A parameter with `log=True` is represented by its logarithm."""

    distributions: tuple[tuple[str, FloatDistribution | IntDistribution], ...]

    @staticmethod
    def of(distributions: Mapping[str, BaseDistribution]) -> "Space":
        """From Optuna's distributions, sorted by name, without parameters that have a single value."""
        searched = sorted((name, one) for name, one in distributions.items() if not one.single())
        return Space(tuple((name, require_numeric(name, one)) for name, one in searched))

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names of the parameters in tables for models, which include the scale."""
        return tuple(f"log {name}" if one.log else name for name, one in self.distributions)

    @property
    def names(self) -> tuple[str, ...]:
        """Optuna's names."""
        return tuple(name for name, _ in self.distributions)

    @property
    def box(self) -> Box:
        """Bounds of the points. Half a step is added at both ends, so that all values of a grid get equal room."""
        bounds = []
        for _, one in self.distributions:
            slack = (one.step or 0) / 2
            ends = one.low - slack, one.high + slack
            bounds.append(np.log(ends) if one.log else ends)
        return Box.read(np.asarray(bounds, np.float64))

    def holds(self, params: Mapping[str, Any]) -> bool:
        """Whether `params` has all parameters, each within its range."""
        return all(name in params and one.low <= params[name] <= one.high for name, one in self.distributions)

    def places(self, params: Sequence[Mapping[str, Any]]) -> Places:
        """The points of parameter values."""
        values = np.asarray([[one[name] for name in self.names] for one in params], np.float64).reshape(-1, len(self.names))
        logarithmic = [one.log for _, one in self.distributions]
        return np.log(values, where=logarithmic, out=values.copy())

    def values(self, places: Places) -> list[dict[str, Any]]:
        """The parameter values nearest to points that Optuna allows."""
        columns = [_values(one, column) for (_, one), column in zip(self.distributions, places.T, strict=True)]
        return [dict(zip(self.names, row, strict=True)) for row in zip(*columns, strict=True)]


def require_numeric(name: str, distribution: BaseDistribution) -> FloatDistribution | IntDistribution:
    """Return a float or int distribution; raise an error for any other."""
    if isinstance(distribution, CategoricalDistribution):
        raise InputError(
            f"the parameter '{name}' is categorical, but this sampler searches numbers; if its choices have an order, use "
            "suggest_int or suggest_float; if not, run one study for each choice, or use optuna.samplers.TPESampler"
        )
    if not isinstance(distribution, FloatDistribution | IntDistribution):
        raise InputError(f"the parameter '{name}' must be a float or an int, got {type(distribution).__name__}")
    return distribution


def _values(one: FloatDistribution | IntDistribution, places: Float[np.ndarray, " point"]) -> list[float] | list[int]:
    values = np.exp(places) if one.log else places
    if one.step is not None:
        values = one.low + np.round((values - one.low) / one.step) * one.step
    values = np.clip(values, one.low, one.high)
    return [int(value) for value in np.round(values)] if isinstance(one, IntDistribution) else values.tolist()
