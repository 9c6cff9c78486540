"""The search space: bounds in the user's units, and candidates in the unit box."""

import dataclasses
import math
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from mpnp.errors import InputError, show

__all__ = ["Box", "GRID", "OutputScale", "among", "candidate_points", "grid", "same_point", "sobol_points"]

NARROW = 1e-9
"""Bounds closer than this, relative to their size, are rejected: floats between them are too coarse."""

SAME = 1e-9
"""Points of the unit box that differ by less than this in every input are the same point."""

Point = Float[np.ndarray, " input"]


@dataclasses.dataclass(frozen=True)
class Box:
    """Lower and upper bounds of every input."""

    low: Point
    high: Point

    @staticmethod
    def read(bounds: Any) -> "Box":
        """Parse a pair (low, high) for one input, or a list with one pair per input."""
        pairs = _numbers(bounds, "bounds must be a pair of numbers (low, high), or a list of such pairs, one per input")
        pairs = pairs[None] if pairs.ndim == 1 else pairs
        if pairs.ndim != 2 or pairs.shape[1] != 2 or not len(pairs):
            raise InputError(
                f"bounds must be a pair (low, high), or a list of such pairs, one per input; got shape {pairs.shape}"
            )
        for number, (low, high) in enumerate(pairs):
            _require_apart(number, float(low), float(high))
        return Box(pairs[:, 0].copy(), pairs[:, 1].copy())

    @property
    def num_inputs(self) -> int:
        """Number of inputs of the objective."""
        return len(self.low)

    def is_point(self, x: Any) -> bool:
        """Whether this is meant as one point rather than several: several are a matrix, or with one input a list."""
        try:
            shape = np.shape(x)
        except ValueError:
            return True
        return len(shape) < 2 and not (self.num_inputs == 1 and shape > (1,))

    def point(self, x: Any) -> Point:
        """Validate a user's point. With one input, a plain number is accepted."""
        point = _numbers(x, f"a point must have {self.num_inputs} numbers, one per input").reshape(-1)
        if len(point) != self.num_inputs:
            raise InputError(f"a point must have {self.num_inputs} numbers, one per input; got {len(point)}")
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
        """Map the user's units to the unit box."""
        return (x - self.low) / (self.high - self.low)

    def from_unit(self, unit: Float[np.ndarray, "*any input"]) -> Float[np.ndarray, "*any input"]:
        """Map the unit box to the user's units, clipped to the bounds."""
        return np.clip(self.low + unit * (self.high - self.low), self.low, self.high)


def same_point(a: Float[np.ndarray, "*#batch input"], b: Float[np.ndarray, "*#batch input"]) -> Bool[np.ndarray, "*batch"]:
    """Whether points of the unit box are equal up to rounding."""
    return np.asarray((np.abs(a - b) < SAME).all(axis=-1))


def among(
    points: Float[np.ndarray, "candidate input"], known: Float[np.ndarray, "*loop point input"]
) -> Bool[np.ndarray, "*loop candidate"]:
    """Mask of the points that are already known."""
    return np.asarray(same_point(points[:, None], known[..., None, :, :]).any(axis=-1))


def _require_apart(number: int, low: float, high: float) -> None:
    if not (np.isfinite(low) and np.isfinite(high) and np.isfinite(high - low)):
        raise InputError(f"bounds must be finite, but those of input {number} are {low:g} and {high:g}")
    if low >= high:
        raise InputError(
            f"the lower bound must be below the upper, but those of input {number} are {low:g} and {high:g}; "
            "swap them, or drop an input that takes only one value"
        )
    if high - low < NARROW * max(abs(low), abs(high)):
        raise InputError(f"the bounds of input {number} are too close together for floating-point numbers; shift the input")


def _numbers(values: Any, expected: str) -> np.ndarray:
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "iuf":
            raise TypeError
    except (TypeError, ValueError, RecursionError):
        raise InputError(f"{expected}; got {show(values)}") from None
    return array.astype(np.float64)


GRID = 1_000
"""Candidates for one input: the paper's regular grid."""

SPREAD, NEARBY, NEARBY_ON_LINE = 1_024, 256, 24
"""Candidates for several inputs: spread over the whole box, and near the best point; and near it on the grid of one input."""

STEPS = (1e-3, 0.2)
"""Smallest and largest standard deviation of steps from the best point, in the unit box."""


def grid() -> Float[np.ndarray, "candidate 1"]:
    """A regular grid on the unit interval, endpoints included."""
    return np.linspace(0, 1, GRID)[:, None]


def sobol_points(num_inputs: int, count: int, seed: list[int]) -> Float[np.ndarray, "point input"]:
    """The first `count` points of a scrambled Sobol sequence. Shorter sequences are prefixes of longer ones."""
    from scipy.stats import qmc  # slow to import

    # Newer versions of SciPy call it rng, but all supported ones accept seed.
    sequence = qmc.Sobol(num_inputs, seed=np.random.default_rng(seed))  # pyright: ignore[reportCallIssue]
    return sequence.random_base2(max(0, math.ceil(math.log2(count))))[:count]


def candidate_points(
    num_inputs: int, best: Float[np.ndarray, " input"], seed: list[int]
) -> Float[np.ndarray, "candidate input"]:
    """Candidates for one suggestion: points all over the box, in one dimension a grid, and points around the best one."""
    count = NEARBY_ON_LINE if num_inputs == 1 else NEARBY
    rng = np.random.default_rng([*seed, 1])
    steps = np.exp(rng.uniform(*np.log(STEPS), size=(count, 1)))  # large steps find other basins, small ones refine
    nearby = np.clip(best + steps * rng.standard_normal((count, num_inputs)), 0, 1)
    return np.concatenate([grid() if num_inputs == 1 else sobol_points(num_inputs, SPREAD, seed), nearby])


NO_SPREAD = 1e-12
"""A standard deviation below this fraction of the largest output is rounding error: all outputs are equal."""


@dataclasses.dataclass(frozen=True)
class OutputScale:
    """Standardisation of the observed outputs of each loop."""

    shift: Float[np.ndarray, "loop 1"]
    scale: Float[np.ndarray, "loop 1"]

    @staticmethod
    def of(y: Float[np.ndarray, "loop point"]) -> "OutputScale":
        """Mean and standard deviation of the observed outputs; the scale is 1 if they are all equal."""
        size = np.abs(y).max(axis=1, keepdims=True)
        # Dividing by a power of two is exact, and keeps squares of huge or tiny outputs finite.
        power = np.exp2(np.frexp(np.where(size > 0, size, 1.0))[1] - 1.0)
        mean, std = (moment(y / power, axis=1, keepdims=True) * power for moment in (np.mean, np.std))
        return OutputScale(mean, np.where(std > NO_SPREAD * size, std, 1.0))

    def apply(self, y: Float[np.ndarray, "loop any"]) -> Float[np.ndarray, "loop any"]:
        """Standardise outputs."""
        return (y - self.shift) / self.scale

    def undo(self, z: Float[np.ndarray, "loop any"]) -> Float[np.ndarray, "loop any"]:
        """Map standardised outputs back to the objective's units."""
        return z * self.scale + self.shift
