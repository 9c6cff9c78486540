"""Scores of a fitted model on held-out curves, in the user's units."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from mpnp.inference.leaderboard import Rows
from mpnp.inference.prediction import Prediction, select
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.tables.columns import Schema
from mpnp.tables.curves import Curves

__all__ = [
    "Cut",
    "HeldOut",
    "assess",
    "cut_curves",
    "forecast",
    "halves",
    "log_prob",
    "mean_log_prob",
    "outcomes",
    "point_weights",
    "row_weights",
    "score_outputs",
    "target_noise",
]


class Cut(NamedTuple):
    """A context and its target, with the weights and the known noise of the target's rows if there are any."""

    x: Float[np.ndarray, "context input"]
    y: Float[np.ndarray, "context output"]
    x_target: Float[np.ndarray, "target input"]
    y_target: Float[np.ndarray, "target output"]
    weights: Float[np.ndarray, " target"] | None = None
    noise: Float[np.ndarray, "target output"] | None = None


class HeldOut(NamedTuple):
    """Contexts cut from held-out curves. Those of one cluster, a curve or a group of curves, depend on each other."""

    cuts: Sequence[Cut]
    cluster: Int[np.ndarray, " context"]

    @property
    def rows(self) -> Rows:
        """The rows of all targets."""
        return Rows(np.repeat(self.cluster, [len(cut.y_target) for cut in self.cuts]), row_weights(self.cuts))

    def cut_of_points(self) -> Int[np.ndarray, " point"]:
        """The number of the cut that each observed target belongs to."""
        return np.repeat(np.arange(len(self.cuts)), [int((~np.isnan(cut.y_target)).sum()) for cut in self.cuts])


def cut_curves(curves: Curves, context: str, *, max_rows: int, num_cuts: int, seed: int) -> list[Cut]:
    """Cut each curve `num_cuts` times into context and target, of random sizes as in training; neither is empty."""
    rng = np.random.default_rng(seed)
    known = curves.reliability()
    cuts = []
    for number in range(len(curves)):
        x, y = curves.pair(number)
        for _ in range(num_cuts if len(x) > 1 else 0):
            rows = rng.permutation(len(x))[:max_rows]
            if context == "prefix":
                rows = rows[np.lexsort(x[rows].T[::-1])]
            size = rng.integers(1, len(rows))
            given, asked = rows[:size], rows[size:]
            of_targets = {what: values[number][asked] for what, values in known.items()}
            cuts.append(Cut(x[given], y[given], x[asked], y[asked], **of_targets))
    return cuts


def outcomes(cuts: Sequence[Cut]) -> Float[np.ndarray, "row output"]:
    """The outputs of the targets of all cuts."""
    return np.concatenate([cut.y_target for cut in cuts])


def row_weights(cuts: Sequence[Cut]) -> Float[np.ndarray, " row"]:
    """How much each row of the targets of all cuts counts."""
    return np.concatenate([np.ones(len(cut.y_target)) if cut.weights is None else cut.weights for cut in cuts])


def target_noise(cuts: Sequence[Cut]) -> Float[np.ndarray, "row output"] | None:
    """The known noise of the targets of all cuts; None if none is known."""
    known = [cut.noise for cut in cuts if cut.noise is not None]
    return np.concatenate(known) if known else None


def forecast(columns: Schema, answer: Predictive, cuts: Sequence[Cut]) -> Prediction:
    """The prediction of the targets' measurements, in the user's units, given that in the network's."""
    return Prediction.decode(answer, columns).with_noise(target_noise(cuts))


def assess(columns: Schema, answer: Predictive, cuts: Sequence[Cut]) -> dict[str, dict[str, Any]]:
    """Mean scores of each output over the targets of all cuts, given their prediction in the network's units."""
    scores, weights = score_outputs(forecast(columns, answer, cuts), outcomes(cuts)), row_weights(cuts)
    return {
        name: {metric: _mean(values[:, output], weights) for metric, values in scores.items()}
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
    scores = forecast(columns, answer, cuts).marginal_log_prob(outcomes(cuts))
    return scores[~np.isnan(scores)]


def point_weights(cuts: Sequence[Cut]) -> Float[np.ndarray, " point"]:
    """How much each of the observed targets of all cuts counts."""
    y = outcomes(cuts)
    return np.broadcast_to(row_weights(cuts)[:, None], y.shape)[~np.isnan(y)]


def mean_log_prob(columns: Schema, answer: Predictive, cuts: Sequence[Cut]) -> float:
    """Mean log density of the observed targets of all cuts, by their weights."""
    return float(np.average(log_prob(columns, answer, cuts), weights=point_weights(cuts)))


def _mean(values: Float[np.ndarray, " row"], weights: Float[np.ndarray, " row"]) -> float | None:
    known = np.isfinite(values) & (weights > 0)
    return float(np.average(values[known], weights=weights[known])) if known.any() else None
