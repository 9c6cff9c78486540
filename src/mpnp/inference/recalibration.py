"""Recalibration: learning on held-out curves how far predicted standard deviations are off."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from mpnp.errors import InputError
from mpnp.inference.assess import Cut, cut_curves
from mpnp.inference.model import NUM_SAMPLES, FittedModel
from mpnp.nn.likelihoods.calibration import Calibration
from mpnp.tables.curves import Curves
from mpnp.tables.points import context_points, target_inputs

__all__ = ["learn_calibration", "mean_log_prob", "recalibrate", "recalibrate_if_better"]

KNOTS = 24
POINTS_PER_KNOT = 50
"""A knot is the root mean square error of at least so many predictions."""

CONTEXTS_PER_CURVE = 8

DIGITS = 5


def learn_calibration(std: Float[np.ndarray, " point"], error: Float[np.ndarray, " point"]) -> Calibration:
    """The monotone map from predicted standard deviations to root mean square errors, with knots of as many points each."""
    from sklearn.isotonic import IsotonicRegression  # here, because it takes a second to import

    num_knots = min(KNOTS, len(std) // POINTS_PER_KNOT)
    if num_knots < 1:
        raise InputError(f"recalibration needs at least {POINTS_PER_KNOT} held-out outputs, got {len(std)}")
    groups = np.array_split(np.argsort(std, kind="stable"), num_knots)
    knots = np.array([np.sqrt(np.mean(std[group] ** 2)) for group in groups])
    errors = np.array([np.sqrt(np.mean(error[group] ** 2)) for group in groups])
    kept = np.append(np.diff(knots) > 1e-4 * knots[:-1], True)  # models with a floor predict it again and again
    rising = IsotonicRegression().fit_transform(np.log(knots[kept]), np.log(np.maximum(errors[kept], 1e-6)))
    return Calibration(tuple(_rounded(knots[kept])), tuple(_rounded(np.exp(rising))))


def recalibrate(model: FittedModel, curves: Curves, *, seed: int = 0) -> FittedModel:
    """The model with standard deviations corrected on curves that it has not been trained on."""
    about, seen = model.card.about, model.card.seen
    cuts = cut_curves(
        curves,
        about.get("context", "random"),
        max_rows=seen.largest_context + 1,
        num_cuts=CONTEXTS_PER_CURVE,
        seed=seed,
    )
    return _recalibrated(model, cuts)


def recalibrate_if_better(model: FittedModel, cuts: Sequence[Cut]) -> tuple[FittedModel, dict[str, float] | None]:
    """The recalibrated model if it predicts held-out targets better, with both scores; else the model as it is.

    Each half of the cuts is scored with what the other half teaches. Cuts come curve by curve, so no curve is in both.
    """
    halves = cuts[: len(cuts) // 2], cuts[len(cuts) // 2 :]
    try:
        after = [_log_probs(_recalibrated(model, taught), scored) for taught, scored in (halves, halves[::-1])]
        calibrated = _recalibrated(model, cuts)
    except InputError:  # too few points
        return model, None
    before = [_log_probs(model, half) for half in halves]
    report = {name: float(np.concatenate(parts).mean()) for name, parts in (("before", before[::-1]), ("after", after))}
    return (calibrated if report["after"] > report["before"] else model), report


def _recalibrated(model: FittedModel, cuts: Sequence[Cut]) -> FittedModel:
    plain = model.uncalibrated()
    columns = model.card.columns
    answers = plain.predictor(NUM_SAMPLES).many(
        [context_points(columns, x, y) for x, y, _, _ in cuts], [target_inputs(columns, x) for _, _, x, _ in cuts]
    )
    std = np.concatenate([np.ravel(answer.std) for answer in answers])
    error = np.concatenate(
        [
            np.ravel(columns.encode_outputs(y)) - np.ravel(answer.mean)
            for answer, (_, _, _, y) in zip(answers, cuts, strict=True)
        ]
    )
    observed = ~np.isnan(error)
    calibration = learn_calibration(std[observed], error[observed])
    return FittedModel(model.network, dataclasses.replace(model.card, calibration=calibration), model.rivals, model.choice)


def mean_log_prob(model: FittedModel, cuts: Sequence[Cut]) -> float:
    """Mean log density of the targets of all cuts."""
    return float(_log_probs(model, cuts).mean())


def _log_probs(model: FittedModel, cuts: Sequence[Cut]) -> Float[np.ndarray, " point"]:
    predictions = model.predict_pairs([cut[:2] for cut in cuts], [cut[2] for cut in cuts], NUM_SAMPLES)
    scores = [np.ravel(answer.marginal_log_prob(cut[3])) for answer, cut in zip(predictions, cuts, strict=True)]
    return np.concatenate([score[~np.isnan(score)] for score in scores])


def _rounded(values: Float[np.ndarray, " knot"]) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values]
