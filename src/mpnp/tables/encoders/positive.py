"""Outputs that cannot be negative: positive measurements and counts, predicted on a logarithmic scale."""

import dataclasses
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from mpnp.errors import InputError
from mpnp.tables.encoders.base import AbstractOutputEncoder, Values
from mpnp.tables.encoders.numeric import NumericEncoder

__all__ = ["CountEncoder", "PositiveEncoder"]

UNSCALED = NumericEncoder()


@dataclasses.dataclass(frozen=True)
class PositiveEncoder(AbstractOutputEncoder):
    """The logarithm of a positive number, shifted and scaled; so every quantile is positive."""

    scale: NumericEncoder = UNSCALED
    kind: ClassVar[str] = "positive"
    is_affine: ClassVar[bool] = False

    @property
    def width(self) -> int:
        return 1

    def adapt(self, cells: Any, name: str) -> "PositiveEncoder":
        return self

    def read(self, cells: Any, name: str, remedy: str) -> Float[np.ndarray, " row"]:
        values = self.scale.read(cells, name, remedy)
        _require(values > 0, values, name, "positive numbers", f"{remedy}; if zeros are meant, say '{name}:count'")
        return values

    def learn_input(self, values: Float[np.ndarray, " row"]) -> "PositiveEncoder":
        return PositiveEncoder(self.scale.learn_input(np.log(values)))

    def learn_output(self, values: Float[np.ndarray, " row"]) -> "PositiveEncoder":
        return PositiveEncoder(self.scale.learn_output(np.log(values)))

    def encode(self, values: Values) -> Float[np.ndarray, "*rows 1"]:
        return self.scale.encode(np.log(values))

    def decode(self, encoded: Values) -> Values:
        return np.exp(self.scale.decode(encoded))

    def slope(self, encoded: Values) -> Values:
        return self.scale.scale * self.decode(encoded)

    def show(self, value: float) -> str:
        return f"{value:g}"

    def to_json(self) -> dict[str, Any]:
        return self.scale.to_json()

    @classmethod
    def from_json(cls, content: Any) -> "PositiveEncoder":
        return cls(NumericEncoder.from_json(content))


@dataclasses.dataclass(frozen=True)
class CountEncoder(AbstractOutputEncoder):
    """The logarithm of one plus a number that is zero or more, shifted and scaled. No quantile is below zero.

    Predictions are continuous: they say where a count lies, not which whole number it is.
    """

    scale: NumericEncoder = UNSCALED
    kind: ClassVar[str] = "count"
    is_affine: ClassVar[bool] = False

    @property
    def width(self) -> int:
        return 1

    def adapt(self, cells: Any, name: str) -> "CountEncoder":
        return self

    def read(self, cells: Any, name: str, remedy: str) -> Float[np.ndarray, " row"]:
        values = self.scale.read(cells, name, remedy)
        _require(values >= 0, values, name, "numbers that are not negative", remedy)
        return values

    def learn_input(self, values: Float[np.ndarray, " row"]) -> "CountEncoder":
        return CountEncoder(self.scale.learn_input(np.log1p(values)))

    def learn_output(self, values: Float[np.ndarray, " row"]) -> "CountEncoder":
        return CountEncoder(self.scale.learn_output(np.log1p(values)))

    def encode(self, values: Values) -> Float[np.ndarray, "*rows 1"]:
        return self.scale.encode(np.log1p(values))

    def decode(self, encoded: Values) -> Values:
        return np.maximum(np.expm1(self.scale.decode(encoded)), 0.0)

    def slope(self, encoded: Values) -> Values:
        return self.scale.scale * np.exp(self.scale.decode(encoded))

    def show(self, value: float) -> str:
        return f"{value:g}"

    def to_json(self) -> dict[str, Any]:
        return self.scale.to_json()

    @classmethod
    def from_json(cls, content: Any) -> "CountEncoder":
        return cls(NumericEncoder.from_json(content))


def _require(allowed: Any, values: Float[np.ndarray, " row"], name: str, wanted: str, remedy: str) -> None:
    bad = ~allowed & ~np.isnan(values)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(f"column '{name}' must hold {wanted}, but row {row} is {values[row]:g}; repair it, or {remedy}")
