"""Normalisation: what a network sees, and the way back to the user's units."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.data.curves import Curves

__all__ = ["Affine", "Normaliser"]


@dataclasses.dataclass(frozen=True)
class Affine:
    """Shift and scale of each column. Computed in float64, whatever the networks use."""

    shift: Float[np.ndarray, " column"]
    scale: Float[np.ndarray, " column"]

    def apply(self, values: Float[np.ndarray, "*batch column"]) -> Float[np.ndarray, "*batch column"]:
        """From the user's units."""
        return (values - self.shift) / self.scale

    def undo(self, values: Float[np.ndarray, "*batch column"]) -> Float[np.ndarray, "*batch column"]:
        """Back to the user's units."""
        return np.asarray(values, np.float64) * self.scale + self.shift

    @staticmethod
    def identity(num_columns: int) -> "Affine":
        """Units as they are."""
        return Affine(np.zeros(num_columns), np.ones(num_columns))


@dataclasses.dataclass(frozen=True)
class Normaliser:
    """Inputs to the range from -2 to 2, the paper's; outputs to mean 0 and standard deviation 1."""

    x: Affine
    y: Affine

    @staticmethod
    def learn(curves: Curves) -> "Normaliser":
        """From the curves of the training set, and no others."""
        low, high = curves.x.min(axis=0), curves.x.max(axis=0)
        mean, std = np.nanmean(curves.y, axis=0), np.nanstd(curves.y, axis=0)
        return Normaliser(
            Affine(low / 2 + high / 2, _or_one((high - low) / 4, np.abs(low))), Affine(mean, _or_one(std, np.abs(mean)))
        )

    def to_json(self) -> dict[str, Any]:
        """As lists of numbers."""
        return {
            name: {"shift": part.shift.tolist(), "scale": part.scale.tolist()} for name, part in (("x", self.x), ("y", self.y))
        }

    @staticmethod
    def from_json(content: Any) -> "Normaliser":
        """From what `to_json` made."""
        return Normaliser(
            *(Affine(np.asarray(content[name]["shift"], float), np.asarray(content[name]["scale"], float)) for name in "xy")
        )


def _or_one(scale: Float[np.ndarray, " column"], size: Float[np.ndarray, " column"]) -> Float[np.ndarray, " column"]:
    """A column that does not vary, but for rounding, keeps its units."""
    return np.where(scale > 1e-12 * size, scale, 1.0)
