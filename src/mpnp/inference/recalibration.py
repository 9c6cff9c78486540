"""Recalibration: learning on held-out curves how far predicted standard deviations are off."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from mpnp.errors import InputError
from mpnp.inference.assess import Cut, cut_curves, outcomes
from mpnp.inference.model import NUM_SAMPLES, FittedModel
from mpnp.inference.prediction import Prediction, join, select
from mpnp.nn.likelihoods.calibration import Calibration
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.options import require_seed
from mpnp.tables.columns import Schema
from mpnp.tables.curves import Curves
from mpnp.tables.points import many_contexts, many_targets

__all__ = ["answer_cuts", "halves", "learn_calibration", "log_prob", "mean_log_prob", "recalibrate", "recalibrate_if_better"]

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


def recalibrate_if_better(model: FittedModel, cuts: Sequence[Cut]) -> tuple[FittedModel, dict[str, float] | None, Predictive]:
    """The recalibrated model if it predicts held-out targets better, with both scores; else the model as it is.

    Each half of the cuts is scored with what the other half teaches. Cuts come curve by curve, so no curve is in both. The
    prediction of the cuts on which the kept model is to be judged comes last.
    """
    columns, plain = model.card.columns, answer_cuts(model.uncalibrated(), cuts)
    parts = halves(plain, cuts, len(cuts) // 2)
    try:
        learnt = [_learn(columns, *part) for part in parts]
        calibration = _learn(columns, plain, cuts)
    except InputError:  # too few points
        return model, None, plain
    crossed = join([_correct(answer, other) for (answer, _), other in zip(parts, learnt[::-1], strict=True)])
    report = {name: float(log_prob(columns, answer, cuts).mean()) for name, answer in (("before", plain), ("after", crossed))}
    if report["after"] <= report["before"]:
        return model, report, plain
    return _with_calibration(model, calibration), report, crossed


def answer_cuts(model: FittedModel, cuts: Sequence[Cut]) -> Predictive:
    """The prediction of the targets of all cuts, in the network's units."""
    columns = model.card.columns
    contexts, targets = many_contexts(columns, [cut[:2] for cut in cuts]), many_targets(columns, [cut[2] for cut in cuts])
    return join(model.predictor(NUM_SAMPLES).many(contexts, targets))


def halves(answer: Predictive, cuts: Sequence[Cut], middle: int) -> list[tuple[Predictive, Sequence[Cut]]]:
    """The prediction of the cuts before the middle, and that of the others."""
    num_points, num_rows = answer.loc.shape[1], len(outcomes(cuts))
    end = len(outcomes(cuts[:middle])) * num_points // num_rows if middle else 0
    return [(select(answer, slice(None, end)), cuts[:middle]), (select(answer, slice(end, None)), cuts[middle:])]


def log_prob(columns: Schema, answer: Predictive, cuts: Sequence[Cut]) -> Float[np.ndarray, " point"]:
    """Log densities of the observed targets of all cuts."""
    scores = Prediction.decode(answer, columns).marginal_log_prob(outcomes(cuts))
    return scores[~np.isnan(scores)]


def mean_log_prob(model: FittedModel, cuts: Sequence[Cut]) -> float:
    """Mean log density of the targets of all cuts."""
    return float(log_prob(model.card.columns, answer_cuts(model, cuts), cuts).mean())


def _learn(columns: Schema, answer: Predictive, cuts: Sequence[Cut]) -> Calibration:
    """The calibration that this prediction teaches."""
    if not len(cuts):
        raise InputError("recalibration needs held-out contexts")
    error = np.ravel(columns.encode_outputs(outcomes(cuts))) - np.ravel(answer.mean)
    observed = ~np.isnan(error)
    return learn_calibration(np.ravel(answer.std)[observed], error[observed])


def _correct(answer: Predictive, calibration: Calibration) -> Predictive:
    """The prediction of a network with this calibration, which corrects what its decoder says."""
    unit = answer.distribution.std
    return Predictive(answer.loc, calibration(np.asarray(answer.scale) * unit) / unit, answer.distribution)


def _with_calibration(model: FittedModel, calibration: Calibration) -> FittedModel:
    return FittedModel(model.network, dataclasses.replace(model.card, calibration=calibration), model.rivals, model.choice)


def _rounded(values: Float[np.ndarray, " knot"]) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values]
