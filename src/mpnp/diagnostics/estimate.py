"""Means with standard errors that respect dependence: values of one cluster, such as points of one curve, go together."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

__all__ = ["Estimate", "cluster_mean", "coverage", "number_or_none"]


class Estimate(NamedTuple):
    """A mean and its standard error. Without values the mean is NaN; with one cluster the error is."""

    mean: float
    standard_error: float

    def to_json(self) -> dict[str, float | None]:
        """As plain numbers; what is unknown is null."""
        return {name: number_or_none(value) for name, value in self._asdict().items()}

    def percent(self) -> str:
        """As a percentage.

        >>> Estimate(0.842, 0.011).percent()
        '84.2 ± 1.1%'
        """
        return f"{100 * self.mean:.1f} ± {100 * self.standard_error:.1f}%"

    def number(self, digits: int = 3) -> str:
        """As a number.

        >>> Estimate(0.842, 0.011).number()
        '0.842 ± 0.011'
        """
        return f"{self.mean:.{digits}f} ± {self.standard_error:.{digits}f}"


def cluster_mean(values: Float[np.ndarray, " value"], clusters: Int[np.ndarray, " value"]) -> Estimate:
    """The mean over all values that are not NaN, with a standard error that lets values of one cluster depend on each other.

    >>> cluster_mean(np.array([1.0, 1.0, 0.0, 0.0]), np.array([0, 0, 1, 1]))
    Estimate(mean=0.5, standard_error=0.5)
    """
    kept = ~np.isnan(values)
    values, (_, numbers) = values[kept], np.unique(clusters[kept], return_inverse=True)
    if not len(values):
        return Estimate(math.nan, math.nan)
    mean, num_clusters = float(values.mean()), int(numbers.max()) + 1
    if num_clusters == 1:
        return Estimate(mean, math.nan)
    sums = np.bincount(numbers, values - mean)
    return Estimate(mean, float(np.sqrt(np.sum(sums**2) * num_clusters / (num_clusters - 1)) / len(values)))


def coverage(ranks: Float[np.ndarray, " value"], level: float, clusters: Int[np.ndarray, " value"]) -> Estimate:
    """How often the truth lies in the central interval of this probability, given the truth's ranks in [0, 1]."""
    inside: Bool[np.ndarray, " value"] = np.abs(ranks - 0.5) <= level / 2
    estimate = cluster_mean(np.where(np.isnan(ranks), np.nan, inside), clusters)
    # If all or none are inside, the empirical error is zero; that of as many independent values is a better guess.
    chance = math.sqrt(level * (1 - level) / max(int((~np.isnan(ranks)).sum()), 1))
    return Estimate(estimate.mean, max(estimate.standard_error, chance) if estimate.mean in (0.0, 1.0) else estimate[1])


def number_or_none(value: float) -> float | None:
    """The number, or None if it is not finite, for JSON."""
    return float(value) if math.isfinite(value) else None
