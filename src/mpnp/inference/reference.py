"""Scores of held-out contexts, kept in the card of a model, with which new contexts are compared."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float, Int

__all__ = ["Reference"]

NEIGHBOURS = 200
"""Number of held-out contexts, nearest in size, that a context is compared with."""


@dataclasses.dataclass(frozen=True)
class Reference:
    """Sizes of held-out contexts in rows, and their test statistics."""

    sizes: Int[np.ndarray, " context"]
    scores: Float[np.ndarray, " context"]

    def p_value(self, size: int, score: float) -> float:
        """The share of held-out contexts of similar size that score no better. Small values mean an implausible context."""
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
