"""Whether values that should be uniform on [0, 1] are: the ECDF and its simultaneous band (Säilynoja et al., 2022)."""

import dataclasses
import functools
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import stats

__all__ = ["Uniformity", "simultaneous_band"]

NUM_POINTS = 40
"""Points at which the ECDF is compared with the band."""

BAND = 0.95
"""Probability that the ECDF of uniform values stays inside the band at all points."""

NUM_SIMULATIONS = 4_000


@functools.cache
def simultaneous_band(num_values: int) -> tuple[Float[np.ndarray, " point"], Float[np.ndarray, " point"]]:
    """Lower and upper limits of the ECDF of so many independent uniform values, by simulation with a fixed seed.

    Each limit is a binomial quantile, at the level at which 95% of simulated ECDFs stay inside at all points.
    """
    points = _points()
    rng = np.random.default_rng(0)
    counts = rng.multinomial(num_values, np.full(NUM_POINTS, 1 / NUM_POINTS), size=NUM_SIMULATIONS).cumsum(axis=1)[:, :-1]
    inner = points[:-1]  # the last point is 1, where every ECDF is 1
    tails = np.minimum(stats.binom.cdf(counts, num_values, inner), stats.binom.sf(counts - 1, num_values, inner))
    level = np.quantile(2 * tails.min(axis=1), 1 - BAND)
    low, high = (stats.binom.ppf(tail, num_values, points) / num_values for tail in (level / 2, 1 - level / 2))
    return low, high


@dataclasses.dataclass(frozen=True)
class Uniformity:
    """Values that are uniform if predictions are calibrated: PIT values, or ranks of the truth among draws."""

    values: Float[np.ndarray, " value"]

    @property
    def points(self) -> Float[np.ndarray, " point"]:
        """Where the ECDF is evaluated."""
        return _points()

    @property
    def ecdf(self) -> Float[np.ndarray, " point"]:
        """Share of values up to each point."""
        return np.searchsorted(np.sort(self.values), self.points, side="right") / len(self.values)

    @property
    def band(self) -> tuple[Float[np.ndarray, " point"], Float[np.ndarray, " point"]]:
        """Lower and upper limits of the ECDF of uniform values."""
        return simultaneous_band(len(self.values))

    @property
    def is_inside(self) -> bool:
        """Whether the ECDF stays inside the band."""
        low, high = self.band
        return bool(((low - 1e-9 <= self.ecdf) & (self.ecdf <= high + 1e-9)).all())

    def fault(self) -> str | None:
        """What is most wrong with the predictions; None if the ECDF stays inside the band.

        >>> Uniformity(np.linspace(0.3, 0.7, 500)).fault(), Uniformity(np.linspace(0, 1, 500)).fault()
        ('too wide', None)
        """
        if self.is_inside:
            return None
        # Mean and variance of uniform values are 1/2 and 1/12, with variances 1/12 and 1/180 per value.
        shift = (self.values.mean() - 0.5) * np.sqrt(12)
        excess = (self.values.var() - 1 / 12) * np.sqrt(180)
        if abs(shift) > abs(excess):
            return "too low" if shift > 0 else "too high"
        return "too narrow" if excess > 0 else "too wide"

    def to_json(self) -> dict[str, Any]:
        """ECDF and band as lists of numbers."""
        low, high = self.band
        parts = {"points": self.points, "ecdf": self.ecdf, "low": low, "high": high}
        return {"num_values": len(self.values), **{name: np.round(part, 5).tolist() for name, part in parts.items()}}


def _points() -> Float[np.ndarray, " point"]:
    return np.arange(1, NUM_POINTS + 1) / NUM_POINTS
