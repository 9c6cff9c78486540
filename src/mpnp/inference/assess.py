"""Scores of a fitted model on held-out curves, in the user's units."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.inference.prediction import Prediction, select
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.tables.columns import Schema
from mpnp.tables.curves import Curves

__all__ = ["Cut", "assess", "cut_curves", "halves", "log_prob", "outcomes", "score_outputs"]

Cut = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""x and y of a context, then x and y of its target."""


def cut_curves(curves: Curves, context: str, *, max_rows: int, num_cuts: int, seed: int) -> list[Cut]:
    """Cut each curve `num_cuts` times into context and target, of random sizes as in training; neither is empty."""
    rng = np.random.default_rng(seed)
    cuts = []
    for number in range(len(curves)):
        x, y = curves.pair(number)
        for _ in range(num_cuts if len(x) > 1 else 0):
            rows = rng.permutation(len(x))[:max_rows]
            if context == "prefix":
                rows = rows[np.lexsort(x[rows].T[::-1])]
            size = rng.integers(1, len(rows))
            cuts.append((x[rows[:size]], y[rows[:size]], x[rows[size:]], y[rows[size:]]))
    return cuts


def outcomes(cuts: Sequence[Cut]) -> Float[np.ndarray, "row output"]:
    """The outputs of the targets of all cuts."""
    return np.concatenate([y for _, _, _, y in cuts])


def assess(columns: Schema, answer: Predictive, cuts: Sequence[Cut]) -> dict[str, dict[str, Any]]:
    """Mean scores of each output over the targets of all cuts, given their prediction in the network's units."""
    scores = score_outputs(Prediction.decode(answer, columns), outcomes(cuts))
    return {
        name: {metric: _mean(values[:, output]) for metric, values in scores.items()}
        for output, name in enumerate(columns.outputs)
    }


def score_outputs(prediction: Prediction, y: Float[np.ndarray, "row output"]) -> dict[str, Float[np.ndarray, "row output"]]:
    """Scores of each output of each row; NaN where it was not observed."""
    rank = prediction.cdf(y)
    return {
        "log_likelihood": prediction.marginal_log_prob(y),
        "crps": prediction.crps(y),
        "squared_error": (prediction.mean - y) ** 2,
        "coverage_90": np.where(np.isnan(y), np.nan, np.abs(rank - 0.5) <= 0.45),
    }


def halves(answer: Predictive, cuts: Sequence[Cut], middle: int) -> list[tuple[Predictive, Sequence[Cut]]]:
    """The prediction of the cuts before the middle, and that of the others."""
    num_points, num_rows = answer.loc.shape[1], len(outcomes(cuts))
    end = len(outcomes(cuts[:middle])) * num_points // num_rows if middle else 0
    return [(select(answer, slice(None, end)), cuts[:middle]), (select(answer, slice(end, None)), cuts[middle:])]


def log_prob(columns: Schema, answer: Predictive, cuts: Sequence[Cut]) -> Float[np.ndarray, " point"]:
    """Log densities of the observed targets of all cuts."""
    scores = Prediction.decode(answer, columns).marginal_log_prob(outcomes(cuts))
    return scores[~np.isnan(scores)]


def _mean(values: Float[np.ndarray, " row"]) -> float | None:
    return float(np.nanmean(values)) if np.isfinite(values).any() else None
