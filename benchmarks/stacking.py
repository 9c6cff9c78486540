"""Stacking: a mixture of two forecasts, weighted by how well each predicts parts of a context from the rest of it."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float, Int

__all__ = ["Answer", "Forecaster", "context_parts", "stack", "stacking_weight"]

WEIGHTS = np.linspace(0.025, 0.975, 20)
"""What may be given to the first forecast: never everything to one, for the parts of a context are few."""

Answer = tuple[Float[np.ndarray, "task point"], Float[np.ndarray, "task point output"]]
"""Log density of each point, and the probability of a smaller output."""

Forecaster = Callable[[Bool[np.ndarray, "task point"]], Answer]
"""Answers for all points of some tasks, given those in the mask."""


def stack(
    first: Forecaster, second: Forecaster, context: Bool[np.ndarray, "task point"], *, num_parts: int = 5, seed: int = 0
) -> Answer:
    """Answers of the mixture for all points, given the contexts. Its weights see nothing but contexts."""
    parts = context_parts(context, num_parts, seed)
    held_out = [np.zeros(context.shape), np.zeros(context.shape)]
    for number in range(num_parts):
        left_out = parts == number
        for scores, forecaster in zip(held_out, (first, second), strict=True):
            scores[left_out] = forecaster(context & ~left_out)[0][left_out]
    rows = zip(*held_out, context, strict=True)
    weight = np.array([stacking_weight(ours[mask], theirs[mask]) for ours, theirs, mask in rows])
    (log_first, cdf_first), (log_second, cdf_second) = first(context), second(context)
    log_density = np.logaddexp(np.log(weight)[:, None] + log_first, np.log1p(-weight)[:, None] + log_second)
    share = weight[:, None, None]
    return log_density, share * cdf_first + (1 - share) * cdf_second


def context_parts(context: Bool[np.ndarray, "task point"], num_parts: int, seed: int) -> Int[np.ndarray, "task point"]:
    """To which part each point of a context belongs, by lot and as evenly as can be; -1 for all others."""
    lot = np.where(context, np.random.default_rng(seed).random(context.shape), np.inf)
    rank = np.argsort(np.argsort(lot, axis=1), axis=1)
    return np.where(context, rank % num_parts, -1)


def stacking_weight(first: Float[np.ndarray, " point"], second: Float[np.ndarray, " point"]) -> float:
    """The weight of the first forecast, from log densities of points that neither saw: a posterior mean."""
    scores = np.logaddexp(np.log(WEIGHTS)[:, None] + first, np.log1p(-WEIGHTS)[:, None] + second).sum(axis=1)
    posterior = np.exp(scores - scores.max())
    return float((posterior * WEIGHTS).sum() / posterior.sum())
