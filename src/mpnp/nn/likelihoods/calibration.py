"""A correction of predicted standard deviations, learnt on held-out data."""

import dataclasses
from typing import Any

import numpy as np

__all__ = ["Calibration"]


@dataclasses.dataclass(frozen=True)
class Calibration:
    """A monotone map of standard deviations, by its values at knots. Beyond the knots, the factor of the nearest one applies.

    >>> Calibration((0.1, 1.0), (0.2, 1.0))(np.array([0.05, 0.1, 1.0, 3.0])).round(6).tolist()
    [0.1, 0.2, 1.0, 3.0]
    """

    predicted: tuple[float, ...]
    corrected: tuple[float, ...]

    def __post_init__(self) -> None:
        knots, values = np.asarray(self.predicted), np.asarray(self.corrected)
        if not len(knots) == len(values) > 0 or not (np.isfinite(values).all() and np.isfinite(knots).all()):
            raise ValueError("a calibration needs as many finite corrected as predicted standard deviations, and at least one")
        if (knots <= 0).any() or (values <= 0).any() or (np.diff(knots) <= 0).any() or (np.diff(values) < 0).any():
            raise ValueError("the knots of a calibration must be positive and rise")

    def __call__(self, std: Any) -> Any:
        """Corrected standard deviations, as an array of the same kind."""
        xp = std.__array_namespace__()  # NumPy or JAX: cards are read without JAX
        knots, factors = np.log(self.predicted), np.log(self.corrected) - np.log(self.predicted)
        slopes = np.diff(factors) / np.diff(knots)
        low, high, slopes = (xp.asarray(values, std.dtype) for values in (knots[:-1], knots[1:], slopes))
        # A sum of ramps, one between each two knots: plain arithmetic, which exported programs can hold, unlike a search.
        ramps = xp.clip(xp.log(std)[..., None], low, high) - low
        return std * xp.exp(float(factors[0]) + (ramps * slopes).sum(axis=-1))

    def to_json(self) -> dict[str, list[float]]:
        """As lists of numbers."""
        return {"predicted": list(self.predicted), "corrected": list(self.corrected)}

    @staticmethod
    def from_json(content: Any) -> "Calibration":
        """From what `to_json` made."""
        return Calibration(tuple(map(float, content["predicted"])), tuple(map(float, content["corrected"])))
