"""Warps of outputs: skewed outputs look more like a Gaussian process through a logarithm."""

import abc
import dataclasses
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

__all__ = ["AbstractWarp", "Linear", "Logarithmic", "warps_for"]

SKEWED = 0.5
"""Skewness of outputs from which logarithms are tried."""

SOFTENINGS = (0.5, 0.05)
"""What is added before the logarithm, relative to the gap between the outputs' median and their end."""

NO_SPREAD = 1e-12
"""A standard deviation below this is rounding error: all outputs are equal."""

Values = Float[np.ndarray, "*any"]


class AbstractWarp(abc.ABC):
    """A monotonically increasing map of outputs. Warped outputs have mean 0 and standard deviation 1."""

    @abc.abstractmethod
    def apply(self, y: Values) -> Float[np.ndarray, "*any"]:
        """Warped outputs."""

    @abc.abstractmethod
    def undo(self, z: Values) -> Float[np.ndarray, "*any"]:
        """Outputs from warped ones."""

    @abc.abstractmethod
    def log_slope(self, y: Values) -> Float[np.ndarray, "*any"]:
        """Logarithm of the map's derivative, which converts densities."""


@dataclasses.dataclass(frozen=True)
class Linear(AbstractWarp):
    """Standardisation."""

    shift: float
    scale: float

    @staticmethod
    def of(y: Float[np.ndarray, " point"]) -> "Linear":
        """By mean and standard deviation; the scale is 1 if all outputs are equal."""
        std = float(y.std())
        return Linear(float(y.mean()), std if std > NO_SPREAD * max(1.0, float(np.abs(y).max())) else 1.0)

    def apply(self, y: Values) -> Float[np.ndarray, "*any"]:
        return (y - self.shift) / self.scale

    def undo(self, z: Values) -> Float[np.ndarray, "*any"]:
        return z * self.scale + self.shift

    def log_slope(self, y: Values) -> Float[np.ndarray, "*any"]:
        return np.full(np.shape(y), -np.log(self.scale))


@dataclasses.dataclass(frozen=True)
class Logarithmic(AbstractWarp):
    """$\\pm\\log(\\pm(y - e) + s)$ beyond an end $e$ of the outputs, continued by its tangent on the other side.

    >>> warp = Logarithmic.of(np.array([0.0, 1.0, 10.0]), sign=1, softening=0.1)
    >>> warp.undo(warp.apply(np.array([-2.0, 0.0, 5.0]))).round(6).tolist()
    [-2.0, 0.0, 5.0]
    """

    sign: int
    """1 spreads small outputs apart, -1 large ones."""
    end: float
    softening: float
    linear: Linear

    @staticmethod
    def of(y: Float[np.ndarray, " point"], *, sign: int, softening: float) -> "Logarithmic":
        """From the outputs observed so far."""
        end = float((sign * y).min() * sign)
        softening = softening * max(abs(float(np.median(y)) - end), NO_SPREAD)
        raw = Logarithmic(sign, end, softening, Linear(0.0, 1.0))
        return dataclasses.replace(raw, linear=Linear.of(raw.apply(y)))

    def apply(self, y: Values) -> Float[np.ndarray, "*any"]:
        beyond = self.sign * (y - self.end) / self.softening
        return self.linear.apply(self.sign * (np.log1p(np.maximum(beyond, 0)) + np.minimum(beyond, 0)))

    def undo(self, z: Values) -> Float[np.ndarray, "*any"]:
        raw = self.sign * self.linear.undo(z)
        return self.end + self.sign * self.softening * (np.expm1(np.maximum(raw, 0)) + np.minimum(raw, 0))

    def log_slope(self, y: Values) -> Float[np.ndarray, "*any"]:
        beyond = np.maximum(self.sign * (y - self.end) / self.softening, 0)
        return -np.log1p(beyond) - np.log(self.softening * self.linear.scale)


def warps_for(y: Float[np.ndarray, " point"]) -> Iterator[AbstractWarp]:
    """The warps worth a try: standardisation, and logarithms that straighten the outputs' skew."""
    linear = Linear.of(y)
    yield linear
    skewness = float((linear.apply(y) ** 3).mean())
    if abs(skewness) > SKEWED:
        for softening in SOFTENINGS:
            yield Logarithmic.of(y, sign=1 if skewness > 0 else -1, softening=softening)
