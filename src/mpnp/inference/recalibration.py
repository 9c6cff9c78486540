"""Recalibration: learning on held-out curves how far predicted standard deviations are off."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from mpnp.errors import InputError
from mpnp.inference.assess import Cut, halves, mean_log_prob, outcomes, row_weights, target_noise
from mpnp.inference.prediction import join
from mpnp.nn.likelihoods.calibration import Calibration
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.tables.columns import Schema

__all__ = ["calibrate", "calibrate_if_better", "learn_calibration"]

KNOTS = 24
POINTS_PER_KNOT = 50
"""A knot is the root mean square error of at least so many predictions."""

DIGITS = 5


def learn_calibration(
    std: Float[np.ndarray, " point"],
    error: Float[np.ndarray, " point"],
    *,
    weights: Float[np.ndarray, " point"] | None = None,
    noise: float | Float[np.ndarray, " point"] = 0.0,
) -> Calibration:
    """The monotone map from predicted standard deviations to root mean square errors, with knots of as many points each.

    Known noise of the measurements is no error of the prediction.
    """
    from sklearn.isotonic import IsotonicRegression  # here, because it takes a second to import

    num_knots = min(KNOTS, len(std) // POINTS_PER_KNOT)
    if num_knots < 1:
        raise InputError(f"recalibration needs at least {POINTS_PER_KNOT} held-out outputs, got {len(std)}")
    groups = np.array_split(np.argsort(std, kind="stable"), num_knots)
    knots, errors = (
        np.sqrt(
            np.maximum([np.average(values[group], weights=None if weights is None else weights[group]) for group in groups], 0)
        )
        for values in (std**2, error**2 - noise**2)
    )
    kept = np.append(np.diff(knots) > 1e-4 * knots[:-1], True)  # models with a floor predict it again and again
    rising = IsotonicRegression().fit_transform(np.log(knots[kept]), np.log(np.maximum(errors[kept], 1e-6)))
    return Calibration(tuple(_rounded(knots[kept])), tuple(_rounded(np.exp(rising))))


def calibrate(columns: Schema, answer: Predictive, cuts: Sequence[Cut]) -> Calibration:
    """The calibration that a prediction of held-out targets teaches."""
    if not len(cuts):
        raise InputError("recalibration needs held-out contexts")
    error = np.ravel(columns.encode_outputs(outcomes(cuts))) - np.ravel(answer.mean)
    noise = target_noise(cuts)
    noise = np.zeros_like(error) if noise is None else np.ravel(columns.encode_noise(noise))
    weights = np.repeat(row_weights(cuts), len(columns.outputs))
    kept = ~np.isnan(error) & (weights > 0)
    return learn_calibration(np.ravel(answer.std)[kept], error[kept], weights=weights[kept], noise=noise[kept])


def calibrate_if_better(
    columns: Schema, plain: Predictive, cuts: Sequence[Cut]
) -> tuple[Calibration | None, dict[str, float] | None, Predictive]:
    """The calibration if it improves the prediction of held-out targets, with the scores before and after; else None.

    Each half of the cuts is scored with the calibration learnt on the other half. Cuts come curve by curve, so no curve is in
    both. Last comes the prediction by which the model is to be judged: that of the halves, or the plain one.
    """
    parts = halves(plain, cuts, len(cuts) // 2)
    try:
        learnt = [calibrate(columns, *part) for part in parts]
        calibration = calibrate(columns, plain, cuts)
    except InputError:  # too few points
        return None, None, plain
    crossed = join([_correct(answer, other) for (answer, _), other in zip(parts, learnt[::-1], strict=True)])
    report = {name: mean_log_prob(columns, answer, cuts) for name, answer in (("before", plain), ("after", crossed))}
    return (calibration, report, crossed) if report["after"] > report["before"] else (None, report, plain)


def _correct(answer: Predictive, calibration: Calibration) -> Predictive:
    """The prediction of a network with this calibration, which corrects what its decoder says."""
    unit = answer.distribution.std
    return Predictive(answer.loc, calibration(np.asarray(answer.scale) * unit) / unit, answer.distribution)


def _rounded(values: Float[np.ndarray, " knot"]) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values]
