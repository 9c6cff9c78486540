"""The first points of a search, chosen among the best points of past searches."""

import numpy as np
from jaxtyping import Bool, Float

from mpnp.bayesopt.study_process import ProcessOfSearches
from mpnp.bayesopt.surrogates import Points, Values

__all__ = ["Opening"]


class Opening:
    """Takes the new function for one of the past ones, each as probable as it explains the evaluations so far.

    The next point is that of the lowest expected minimum. So the first points complement one another: on average over past
    functions, one of them is good. Costs are relative to the spread of a function, so that none counts more than another.
    """

    def __init__(self, process: ProcessOfSearches) -> None:
        self.process = process
        self.points = np.unique([x[np.argmin(z)] for x, z in process.searches], axis=0)
        """The best points of past searches."""
        self.shifts, self.spreads = np.array([(z.mean(), z.std() or 1.0) for _, z in process.searches]).T[:, :, None]
        self.costs = self._costs(process.expected_in_each(self.points))

    def suggest(
        self,
        x: Points,
        z: Values,
        pending: Float[np.ndarray, "pending input"],
        allowed: Bool[np.ndarray, " candidate"],
    ) -> Float[np.ndarray, " input"]:
        """One of the points that are allowed, given evaluations and points that are still being evaluated."""
        known = self.process.expected_in_each(np.concatenate([x, pending]))
        probabilities = _probabilities(known[:, : len(x)], z)
        reached = self._costs(known).min(axis=1, initial=np.inf, keepdims=True)
        expected = probabilities @ np.minimum(self.costs, reached)
        return self.points[int(np.argmin(np.where(allowed, expected, np.inf)))]

    def _costs(self, values: Float[np.ndarray, "search point"]) -> Float[np.ndarray, "search point"]:
        return (values - self.shifts) / self.spreads


def _probabilities(values: Float[np.ndarray, "search point"], z: Values) -> Float[np.ndarray, " search"]:
    """Of the past functions, by the density of the evaluations around their values.

    The kernel is as wide as that of a density estimate from as many functions (Silverman, 1986).
    """
    count, dim = values.shape
    widths = np.maximum(values.std(axis=0), np.finfo(float).tiny) * count ** (-1 / (dim + 4))
    logs = -(((values - z) / widths) ** 2).sum(axis=1) / 2
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()
