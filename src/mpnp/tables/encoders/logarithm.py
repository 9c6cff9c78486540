"""Outputs that cannot be negative: positive measurements and counts, predicted on a logarithmic scale."""

import dataclasses
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from mpnp.errors import InputError
from mpnp.tables.encoders.base import AbstractOutputEncoder, Values
from mpnp.tables.encoders.numeric import NumericEncoder

__all__ = ["LogEncoder"]

UNSCALED = NumericEncoder()


@dataclasses.dataclass(frozen=True)
class LogEncoder(AbstractOutputEncoder):
    """$\\log(v + o)$, shifted and scaled; so every quantile is positive for the offset 0, and zero or more for the offset 1.

    The offset 1 is for counts. Their predictions are continuous: they say where a count lies, not which whole number it is.
    """

    offset: float = 0.0
    scale: NumericEncoder = UNSCALED
    kind: ClassVar[str] = "log"
    is_affine: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.offset not in (0.0, 1.0):
            raise ValueError(f"the offset must be 0 or 1, got {self.offset}")

    @property
    def width(self) -> int:
        return 1

    def adapt(self, cells: Any, name: str) -> "LogEncoder":
        return self

    def read(self, cells: Any, name: str, remedy: str) -> Float[np.ndarray, " row"]:
        values = self.scale.read(cells, name, remedy)
        bad = (values < 0) | ((values == 0) & (self.offset == 0))
        if bad.any():
            row = int(np.argmax(bad))
            wanted = "numbers that are not negative" if self.offset else "positive numbers"
            hint = "" if self.offset else f"; if zeros are meant, say '{name}:count'"
            raise InputError(
                f"column '{name}' must hold {wanted}, but row {row} is {values[row]:g}; repair it, or {remedy}{hint}"
            )
        return values

    def learn_input(self, values: Float[np.ndarray, " row"]) -> "LogEncoder":
        return LogEncoder(self.offset, self.scale.learn_input(np.log(values + self.offset)))

    def learn_output(self, values: Float[np.ndarray, " row"]) -> "LogEncoder":
        return LogEncoder(self.offset, self.scale.learn_output(np.log(values + self.offset)))

    def encode(self, values: Values) -> Float[np.ndarray, "*rows 1"]:
        return self.scale.encode(np.log(values + self.offset))

    def decode(self, encoded: Values) -> Values:
        return np.maximum(np.exp(self.scale.decode(encoded)) - self.offset, 0.0)

    def slope(self, encoded: Values) -> Values:
        return self.scale.scale * np.exp(self.scale.decode(encoded))

    def show(self, value: float) -> str:
        return self.scale.show(value)

    def to_json(self) -> dict[str, Any]:
        return {"offset": self.offset, **self.scale.to_json()}

    @classmethod
    def from_json(cls, content: Any) -> "LogEncoder":
        return cls(float(content["offset"]), NumericEncoder.from_json(content))
