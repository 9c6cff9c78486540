"""Categories: one feature for each level."""

import dataclasses
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from mpnp.errors import InputError, shorten, unknown_name
from mpnp.tables.encoders.base import AbstractColumnEncoder, Values

__all__ = ["CategoryEncoder"]

MOST_LEVELS = 50


@dataclasses.dataclass(frozen=True)
class CategoryEncoder(AbstractColumnEncoder):
    """Names without an order, such as sites or sexes. Whole numbers are names, too: 1, 1.0 and '1' are the same level."""

    levels: tuple[str, ...] = ()
    kind: ClassVar[str] = "category"

    @property
    def width(self) -> int:
        return max(len(self.levels), 1)

    def adapt(self, cells: Any, name: str) -> "CategoryEncoder":
        """With the levels of these cells, in alphabetical order, unless they are known."""
        if self.levels:
            return self
        levels = sorted({_name(cell) for cell in cells.dropna().unique()})
        if len(levels) > MOST_LEVELS:
            raise InputError(f"column '{name}' has {len(levels)} levels; a category may have at most {MOST_LEVELS}")
        return CategoryEncoder(tuple(levels))

    def read(self, cells: Any, name: str, remedy: str) -> Float[np.ndarray, " row"]:
        """The number of each level."""
        number = {level: float(place) for place, level in enumerate(self.levels)}
        known = cells.isna().to_numpy()
        names = [_name(cell) for cell in cells]
        for level, empty in zip(names, known, strict=True):
            if not empty and level not in number:
                shown = shorten(", ".join(self.levels), 200)
                raise unknown_name(f"level of '{name}'", level, self.levels, f"The model knows: {shown}.")
        return np.array([np.nan if empty else number[level] for level, empty in zip(names, known, strict=True)])

    def learn_input(self, values: Float[np.ndarray, " row"]) -> "CategoryEncoder":
        return self

    def encode(self, values: Values) -> Float[np.ndarray, "*rows level"]:
        return np.eye(self.width)[np.clip(np.round(values), 0, self.width - 1).astype(int)]

    def show(self, value: float) -> str:
        return self.levels[round(min(max(value, 0), self.width - 1))] if self.levels else f"{value:g}"

    def to_json(self) -> dict[str, Any]:
        return {"levels": list(self.levels)}

    @classmethod
    def from_json(cls, content: Any) -> "CategoryEncoder":
        return cls(tuple(str(level) for level in content["levels"]))


def _name(cell: Any) -> str:
    """The name of a level."""
    whole = isinstance(cell, (int, float, np.number)) and not isinstance(cell, bool) and float(cell).is_integer()
    return str(int(cell)) if whole else str(cell).strip()
