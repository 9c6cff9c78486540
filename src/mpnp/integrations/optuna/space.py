"""Optuna's numeric search spaces as boxes: values on a scale where equal steps mean as much, and the way back."""

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

from mpnp.bayesopt.box import Box
from mpnp.errors import InputError

__all__ = ["Space", "require_numeric"]

Places = Float[np.ndarray, "_ parameter"]


@dataclasses.dataclass(frozen=True)
class Space:
    """Parameters in a fixed order. The place of a value is its logarithm if Optuna was told to search on that scale."""

    distributions: tuple[tuple[str, FloatDistribution | IntDistribution], ...]

    @staticmethod
    def of(distributions: Mapping[str, BaseDistribution]) -> "Space":
        """From Optuna's description, in the order of names; parameters of one value are left out."""
        searched = sorted((name, one) for name, one in distributions.items() if not one.single())
        return Space(tuple((name, require_numeric(name, one)) for name, one in searched))

    @property
    def columns(self) -> tuple[str, ...]:
        """What the parameters are called in tables for models; the scale is part of the name."""
        return tuple(f"log {name}" if one.log else name for name, one in self.distributions)

    @property
    def names(self) -> tuple[str, ...]:
        """Optuna's names."""
        return tuple(name for name, _ in self.distributions)

    @property
    def box(self) -> Box:
        """Bounds of the places. Half a step is added at both ends, so that every value has as much room as any other."""
        bounds = []
        for _, one in self.distributions:
            slack = (one.step or 0) / 2
            ends = one.low - slack, one.high + slack
            bounds.append(np.log(ends) if one.log else ends)
        return Box.read(np.asarray(bounds, np.float64))

    def holds(self, params: Mapping[str, Any]) -> bool:
        """Whether these are values of all parameters, within their ranges."""
        return all(name in params and one.low <= params[name] <= one.high for name, one in self.distributions)

    def places(self, params: Sequence[Mapping[str, Any]]) -> Places:
        """Where values are."""
        values = np.asarray([[one[name] for name in self.names] for one in params], np.float64).reshape(-1, len(self.names))
        logarithmic = [one.log for _, one in self.distributions]
        return np.log(values, where=logarithmic, out=values.copy())

    def values(self, places: Places) -> list[dict[str, Any]]:
        """The nearest values that Optuna allows."""
        columns = [_values(one, column) for (_, one), column in zip(self.distributions, places.T, strict=True)]
        return [dict(zip(self.names, row, strict=True)) for row in zip(*columns, strict=True)]


def require_numeric(name: str, distribution: BaseDistribution) -> FloatDistribution | IntDistribution:
    """Refuse what has no order."""
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
