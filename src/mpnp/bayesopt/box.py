"""The box that is searched: its bounds in the user's units, and the unit box that surrogates and candidates live in."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from mpnp.errors import InputError

__all__ = ["Box", "among", "same_point"]

NARROW = 1e-9
"""Bounds nearer to each other than this share of their size leave too few different numbers between them."""

SAME = 1e-9
"""Points of the unit box nearer to each other than this, in every input, are one point."""

Point = Float[np.ndarray, " input"]


@dataclasses.dataclass(frozen=True)
class Box:
    """Lower and upper bounds of every input."""

    low: Point
    high: Point

    @staticmethod
    def read(bounds: Any) -> "Box":
        """From a pair (low, high) of one input, or a list with a pair for each input."""
        pairs = _numbers(bounds, "bounds must be a pair of numbers (low, high), or a list of such pairs, one an input")
        pairs = pairs[None] if pairs.ndim == 1 else pairs
        if pairs.ndim != 2 or pairs.shape[1] != 2 or not len(pairs):
            raise InputError(
                f"bounds must be a pair (low, high), or a list of such pairs, one an input; got an array of shape {pairs.shape}"
            )
        for number, (low, high) in enumerate(pairs):
            _require_apart(number, float(low), float(high))
        return Box(pairs[:, 0].copy(), pairs[:, 1].copy())

    @property
    def num_inputs(self) -> int:
        """Inputs of the objective."""
        return len(self.low)

    def point(self, x: Any) -> Point:
        """One point inside the box from what a user gave; a number will do for one input."""
        point = _numbers(x, f"a point must be {self.num_inputs} numbers, one an input").reshape(-1)
        if len(point) != self.num_inputs:
            raise InputError(f"a point must be {self.num_inputs} numbers, one an input, got {len(point)}")
        slack = SAME * (self.high - self.low)
        outside = ~((point >= self.low - slack) & (point <= self.high + slack))
        if outside.any():
            i = int(np.argmax(outside))
            raise InputError(
                f"input {i} of the point is {point[i]:g}, outside its bounds {self.low[i]:g} to {self.high[i]:g}; "
                "widen the bounds or leave the point out"
            )
        return np.clip(point, self.low, self.high)

    def to_unit(self, x: Float[np.ndarray, "*any input"]) -> Float[np.ndarray, "*any input"]:
        """From the user's units, 0 at the lower bounds and 1 at the upper."""
        return (x - self.low) / (self.high - self.low)

    def from_unit(self, unit: Float[np.ndarray, "*any input"]) -> Float[np.ndarray, "*any input"]:
        """Back to the user's units, never beyond the bounds."""
        return np.clip(self.low + unit * (self.high - self.low), self.low, self.high)


def same_point(a: Float[np.ndarray, "*#batch input"], b: Float[np.ndarray, "*#batch input"]) -> Bool[np.ndarray, "*batch"]:
    """Whether points of the unit box are one, but for rounding."""
    return np.asarray((np.abs(a - b) < SAME).all(axis=-1))


def among(
    points: Float[np.ndarray, "candidate input"], known: Float[np.ndarray, "*loop point input"]
) -> Bool[np.ndarray, "*loop candidate"]:
    """Which of the points are known already."""
    return np.asarray(same_point(points[:, None], known[..., None, :, :]).any(axis=-1))


def _require_apart(number: int, low: float, high: float) -> None:
    if not (np.isfinite(low) and np.isfinite(high) and np.isfinite(high - low)):
        raise InputError(f"bounds must be finite, but those of input {number} are {low:g} and {high:g}")
    if low >= high:
        raise InputError(
            f"the lower bound must be below the upper, but those of input {number} are {low:g} and {high:g}; "
            "swap them, or leave out an input that has one value"
        )
    if high - low < NARROW * max(abs(low), abs(high)):
        raise InputError(f"the bounds of input {number} are too close to tell points between them apart; shift the input")


def _numbers(values: Any, expected: str) -> np.ndarray:
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "iuf":
            raise TypeError
    except (TypeError, ValueError):
        raise InputError(f"{expected}; got {values!r}") from None
    return array.astype(np.float64)
