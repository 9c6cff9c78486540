"""Recalibration: learning on held-out curves how far predicted standard deviations are off."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from mpnp.errors import InputError
from mpnp.inference.assess import Cut, cut_curves
from mpnp.inference.model import NUM_SAMPLES, FittedModel
from mpnp.inference.prediction import Prediction
from mpnp.nn.likelihoods.calibration import Calibration
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.options import require_seed
from mpnp.tables.columns import Schema
from mpnp.tables.curves import Curves
from mpnp.tables.points import context_points, target_inputs

__all__ = ["answer_cuts", "learn_calibration", "log_probs", "mean_log_prob", "recalibrate", "recalibrate_if_better"]

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
    require_seed(seed)
    about, seen = model.card.about, model.card.seen
    cuts = cut_curves(
        curves,
        about.get("context", "random"),
        max_rows=seen.largest_context + 1,
        num_cuts=CONTEXTS_PER_CURVE,
        seed=seed,
    )
    return _with_calibration(model, _learn(model.card.columns, answer_cuts(model.uncalibrated(), cuts), cuts))


def recalibrate_if_better(
    model: FittedModel, cuts: Sequence[Cut]
) -> tuple[FittedModel, dict[str, float] | None, list[Predictive]]:
    """The recalibrated model if it predicts held-out targets better, with both scores; else the model as it is.

    Each half of the cuts is scored with what the other half teaches. Cuts come curve by curve, so no curve is in both. The
    predictions of the cuts on which the kept model is to be judged come last.
    """
    columns, plain = model.card.columns, answer_cuts(model.uncalibrated(), cuts)
    middle = len(cuts) // 2
    halves = slice(None, middle), slice(middle, None)
    try:
        learnt = [_learn(columns, plain[half], cuts[half]) for half in halves]
        calibration = _learn(columns, plain, cuts)
    except InputError:  # too few points
        return model, None, plain
    crossed = [_correct(answer, learnt[half]) for half in (1, 0) for answer in plain[halves[1 - half]]]
    report = {
        name: float(np.concatenate(log_probs(columns, answers, cuts)).mean())
        for name, answers in (("before", plain), ("after", crossed))
    }
    if report["after"] <= report["before"]:
        return model, report, plain
    return _with_calibration(model, calibration), report, crossed


def answer_cuts(model: FittedModel, cuts: Sequence[Cut]) -> list[Predictive]:
    """Predictions of the targets of all cuts, in the network's units."""
    columns = model.card.columns
    contexts = [context_points(columns, x, y) for x, y, _, _ in cuts]
    return model.predictor(NUM_SAMPLES).many(contexts, [target_inputs(columns, x) for _, _, x, _ in cuts])


def log_probs(columns: Schema, answers: Sequence[Predictive], cuts: Sequence[Cut]) -> list[Float[np.ndarray, " _"]]:
    """Log densities of the observed targets of each cut."""
    scores = [
        np.ravel(Prediction.decode(answer, columns).marginal_log_prob(y))
        for answer, (_, _, _, y) in zip(answers, cuts, strict=True)
    ]
    return [score[~np.isnan(score)] for score in scores]


def mean_log_prob(model: FittedModel, cuts: Sequence[Cut]) -> float:
    """Mean log density of the targets of all cuts."""
    return float(np.concatenate(log_probs(model.card.columns, answer_cuts(model, cuts), cuts)).mean())


def _learn(columns: Schema, answers: Sequence[Predictive], cuts: Sequence[Cut]) -> Calibration:
    """The calibration that these predictions teach."""
    std = np.concatenate([np.ravel(answer.std) for answer in answers])
    errors = [
        np.ravel(columns.encode_outputs(y)) - np.ravel(answer.mean) for answer, (_, _, _, y) in zip(answers, cuts, strict=True)
    ]
    error = np.concatenate(errors)
    observed = ~np.isnan(error)
    return learn_calibration(std[observed], error[observed])


def _correct(answer: Predictive, calibration: Calibration) -> Predictive:
    """The prediction of a network with this calibration, which corrects what its decoder says."""
    unit = answer.distribution.std
    return Predictive(answer.loc, calibration(np.asarray(answer.scale) * unit) / unit, answer.distribution)


def _with_calibration(model: FittedModel, calibration: Calibration) -> FittedModel:
    return FittedModel(model.network, dataclasses.replace(model.card, calibration=calibration), model.rivals, model.choice)


def _rounded(values: Float[np.ndarray, " knot"]) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values]
