"""Does a context look like the curves that the model was trained on?

The statistic of a context is how well the model predicts either half of it from the other half, as a mean log density a
point. Its p-value is the share of held-out curves, shown at contexts of similar sizes, that are predicted no better.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from mpnp.prediction import Prediction
from mpnp.predictor import Predictor
from mpnp.tasks.task import PointSet
from mpnp.units import Units

__all__ = ["Reference", "half_scores"]

NEIGHBOURS = 200
"""Held-out contexts, those nearest in size, that a context is compared with."""


@dataclasses.dataclass(frozen=True)
class Reference:
    """The statistic of many held-out contexts, beside their numbers of rows."""

    sizes: Int[np.ndarray, " context"]
    scores: Float[np.ndarray, " context"]

    def p_value(self, size: int, score: float) -> float:
        """How often a context like those of training would be predicted as badly; small means implausible."""
        distance = np.abs(np.log1p(self.sizes) - np.log1p(size))
        near = self.scores[np.argsort(distance, kind="stable")[:NEIGHBOURS]]
        return float((1 + np.sum(near <= score)) / (1 + len(near)))

    def to_json(self) -> dict[str, Any]:
        """As lists of numbers."""
        return {"sizes": self.sizes.tolist(), "scores": [round(float(score), 4) for score in self.scores]}

    @staticmethod
    def from_json(content: Any) -> "Reference":
        """From what `to_json` made."""
        return Reference(np.asarray(content["sizes"], int), np.asarray(content["scores"], float))


def half_scores(
    predictor: Predictor, units: Units, contexts: Sequence[tuple[np.ndarray, np.ndarray]]
) -> Float[np.ndarray, " context"]:
    """The statistic of each context of at least one row."""
    given: list[PointSet] = []
    asked: list[np.ndarray] = []
    answers: list[np.ndarray] = []
    owner: list[int] = []
    for number, (x, y) in enumerate(contexts):
        order = np.lexsort(x.T[::-1])  # a set has no order, so the halves must not depend on one
        for rows, others in ((order[::2], order[1::2]), (order[1::2], order[::2])):
            if len(others):  # of one row, it is predicted from nothing
                given.append(units.context(x[rows], y[rows]))
                asked.append(units.targets(x[others]))
                answers.append(y[others])
                owner.append(number)
    total, count = np.zeros(len(contexts)), np.zeros(len(contexts))
    for number, predictive, y in zip(owner, predictor.many(given, asked), answers, strict=True):
        log_density = Prediction(*units.rows(predictive), units.columns).marginal_log_prob(y)
        total[number] += np.nansum(log_density)
        count[number] += np.sum(~np.isnan(log_density))
    return total / np.maximum(count, 1)
