"""Outputs of a loop on the scale that surrogates read: mean 0 and standard deviation 1 over what was observed."""

import dataclasses

import numpy as np
from jaxtyping import Float

__all__ = ["OutputScale"]

SAME = 1e-12
"""A spread below this share of the outputs' size is rounding: all outputs are equal."""


@dataclasses.dataclass(frozen=True)
class OutputScale:
    """Shift and scale of the observed outputs of each loop."""

    shift: Float[np.ndarray, "loop 1"]
    scale: Float[np.ndarray, "loop 1"]

    @staticmethod
    def of(y: Float[np.ndarray, "loop point"]) -> "OutputScale":
        """From observed outputs alone; a scale of 1 if there is one output or all are equal."""
        size = np.abs(y).max(axis=1, keepdims=True)
        # A power of two changes no digit, and keeps squares of huge or tiny outputs within what a float can hold.
        power = np.exp2(np.frexp(np.where(size > 0, size, 1.0))[1] - 1.0)
        mean, std = (moment(y / power, axis=1, keepdims=True) * power for moment in (np.mean, np.std))
        return OutputScale(mean, np.where(std > SAME * size, std, 1.0))

    def apply(self, y: Float[np.ndarray, "loop any"]) -> Float[np.ndarray, "loop any"]:
        """From the objective's units."""
        return (y - self.shift) / self.scale

    def undo(self, z: Float[np.ndarray, "loop any"]) -> Float[np.ndarray, "loop any"]:
        """Back to the objective's units."""
        return z * self.scale + self.shift
