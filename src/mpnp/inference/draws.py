"""Draws from the posterior of a quantity of the function."""

import dataclasses
import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.errors import InputError, show

__all__ = ["Draws"]


@dataclasses.dataclass(frozen=True)
class Draws:
    """Draws from the posterior of a quantity.

    A function that lacks the quantity, such as one that never crosses a threshold, has NaN. Mean, standard deviation and
    quantiles are over the other functions, and `exists` is their share.

    >>> crossing = Draws(np.array([1.0, 3.0, np.nan, 2.0]))
    >>> float(crossing.mean), float(crossing.exists)
    (2.0, 0.75)
    """

    values: Float[np.ndarray, "draw *rest"]

    def __repr__(self) -> str:
        """Number and shape of the draws, and for a single number its mean and 90% interval."""
        shape = f"{len(self.values):,} draws" + (f" of shape {self.values.shape[1:]}" if self.values.ndim > 1 else "")
        if self.values.ndim > 1 or np.isnan(self.values).all():
            return f"Draws({shape})"
        low, high = self.interval()
        return f"Draws({shape}; mean {self.mean:.4g}, 90% interval {low:.4g} to {high:.4g})"

    @property
    def exists(self) -> Any:
        """The probability that the quantity exists: the share of draws that are not NaN."""
        return 1 - np.isnan(self.values).mean(axis=0)

    @property
    def mean(self) -> Any:
        """Mean over the draws."""
        return self._over_draws(np.nanmean)

    @property
    def std(self) -> Any:
        """Standard deviation over the draws."""
        return self._over_draws(np.nanstd)

    def quantile(self, level: float | Sequence[float]) -> Any:
        """The value that the quantity stays below with probability `level`."""
        try:
            return self._over_draws(functools.partial(np.nanquantile, q=level))
        except ValueError:
            raise InputError(f"a level must be a number from 0 to 1, or a list of such, got {show(level)}") from None

    def interval(self, probability: float = 0.9) -> tuple[Any, Any]:
        """The central interval with this probability, as (low, high)."""
        if not _is_probability(probability):
            raise InputError(f"probability must be a number from 0 to 1, got {show(probability)}")
        low, high = self.quantile([(1 - probability) / 2, (1 + probability) / 2])
        return low, high

    def _over_draws(self, statistic: Callable[..., Any]) -> Any:
        """A statistic over the draws. Where none has the quantity it is NaN, which is no cause for a warning."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return statistic(self.values, axis=0)


def _is_probability(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1
