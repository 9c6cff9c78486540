"""Recalibration: the map is monotone, finds the errors behind predictions, is kept with the model and applies everywhere."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from helpers.fitted_models import fitted, some_curves
from mpnp import load
from mpnp.errors import InputError
from mpnp.inference.assess import cut_curves, log_prob
from mpnp.inference.model import FittedModel
from mpnp.inference.recalibration import calibrate_if_better, learn_calibration
from mpnp.nn.likelihoods.calibration import Calibration

CURVES = some_curves(30)
GRID = np.linspace(12, 46, 9)[:, None]


def test_the_map_from_predicted_to_true_deviations_is_found():
    rng = np.random.default_rng(0)
    predicted = np.exp(rng.uniform(-2, 1, 50_000))
    true = 0.3 * predicted**0.5
    calibration = learn_calibration(predicted, true * rng.standard_normal(50_000))
    np.testing.assert_allclose(calibration(np.array([0.2, 0.5, 1.0, 2.0])), 0.3 * np.sqrt([0.2, 0.5, 1.0, 2.0]), rtol=0.06)
    values = calibration(np.exp(np.linspace(-4, 3, 500)))
    assert (np.diff(values) >= 0).all() and (np.diff(calibration.corrected) >= 0).all()


def test_what_is_calibrated_stays_as_it_is():
    rng = np.random.default_rng(1)
    predicted = rng.uniform(0.1, 2, 50_000)
    calibration = learn_calibration(predicted, predicted * rng.standard_normal(50_000))
    np.testing.assert_allclose(calibration(predicted), predicted, rtol=0.1)


def test_a_model_that_always_predicts_its_floor_gets_one_factor():
    errors = np.random.default_rng(2).normal(0, 0.3, 1_000)
    calibration = learn_calibration(np.full(1_000, 0.1), errors)
    assert len(calibration.predicted) == 1
    np.testing.assert_allclose(calibration(np.array([0.1, 0.2])), [0.3, 0.6], rtol=0.1)


def test_jax_and_numpy_agree():
    calibration, std = Calibration((0.1, 0.5, 2.0), (0.2, 0.4, 3.0)), np.array([0.05, 0.1, 0.3, 1.0, 9.0])
    np.testing.assert_allclose(calibration(jnp.asarray(std)), calibration(std), rtol=1e-5)
    assert Calibration.from_json(calibration.to_json()) == calibration


@pytest.mark.parametrize(
    "knots", [((), ()), ((0.1,), (0.1, 0.2)), ((0.2, 0.1), (0.1, 0.2)), ((0.1, 0.2), (0.2, 0.1)), ((0.0,), (1.0,))]
)
def test_maps_that_make_no_sense_are_refused(knots):
    with pytest.raises(ValueError, match="calibration"):
        Calibration(*knots)


def test_too_few_outputs_are_refused():
    with pytest.raises(InputError, match="recalibration needs at least 50 held-out outputs, got 3"):
        learn_calibration(np.ones(3), np.ones(3))


def test_everything_a_model_says_is_recalibrated_and_kept_with_it(tmp_path):
    model = fitted("canp", CURVES)
    calibrated = model.recalibrate(CURVES)
    assert calibrated.card.calibration is not None and model.card.calibration is None
    x, y = CURVES.pair(3)
    before, after = (each.condition(x, y) for each in (model, calibrated))
    np.testing.assert_allclose(after.predict(GRID), before.predict(GRID), rtol=1e-6)
    scale = model.card.columns.output_scale.scale[0]
    wanted = calibrated.card.calibration(before.predict(GRID, "std") / scale) * scale
    np.testing.assert_allclose(after.predict(GRID, "std"), wanted, rtol=1e-4)
    assert np.abs(after.sample(GRID, 8) - before.sample(GRID, 8)).max() > 1e-3  # resampled with other deviations
    calibrated.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.card.calibration == calibrated.card.calibration
    np.testing.assert_array_equal(again.condition(x, y).predict(GRID, "std"), after.predict(GRID, "std"))


def test_held_out_curves_may_be_pairs_or_a_frame_with_the_columns_of_the_model():
    model, pairs = fitted("canp", CURVES), [CURVES.pair(number) for number in range(len(CURVES))]
    wanted = model.recalibrate(CURVES).card.calibration
    assert model.recalibrate(pairs).card.calibration == wanted
    columns = model.card.columns
    rows = [
        {columns.task: number, columns.inputs[0]: a, columns.outputs[0]: b}
        for number, (x, y) in enumerate(pairs)
        for a, b in zip(x[:, 0], y[:, 0], strict=True)
    ]
    assert model.recalibrate(pd.DataFrame(rows)).card.calibration == wanted
    with pytest.raises(InputError, match=columns.task):
        model.recalibrate(pd.DataFrame(rows).drop(columns=columns.task))


def test_recalibrating_twice_starts_from_the_network_itself():
    once = fitted("canp", CURVES).recalibrate(CURVES)
    assert once.recalibrate(CURVES).card.calibration == once.card.calibration


def test_it_is_kept_only_if_it_helps_on_curves_it_has_not_seen():
    model = fitted("canp", CURVES)
    cuts = cut_curves(CURVES, "random", max_rows=11, num_cuts=6, seed=0)
    calibration, report, answers = calibrate_if_better(model.card.columns, model.answer_cuts(cuts), cuts)
    assert answers.loc.shape[1] == sum(len(cut[3]) for cut in cuts)
    assert (calibration is not None) == (report["after"] > report["before"])
    few = model.answer_cuts(cuts[:2])
    assert calibrate_if_better(model.card.columns, few, cuts[:2]) == (None, None, few)
    assert model.calibrated(None) is model


def test_halves_are_judged_as_models_with_the_calibration_of_the_other_half():
    model = fitted("canp", CURVES)
    cuts = cut_curves(CURVES, "random", max_rows=11, num_cuts=6, seed=0)
    _, report, _ = calibrate_if_better(model.card.columns, model.answer_cuts(cuts), cuts)
    middle, scores = len(cuts) // 2, []
    for taught, judged in ((cuts[:middle], cuts[middle:]), (cuts[middle:], cuts[:middle])):
        answer = model.answer_cuts(taught)
        error = np.concatenate([np.ravel(model.card.columns.encode_outputs(cut[3])) for cut in taught]) - np.ravel(answer.mean)
        card = dataclasses.replace(model.card, calibration=learn_calibration(np.ravel(answer.std), error))
        scores.append(log_prob(card.columns, FittedModel(model.network, card).answer_cuts(judged), judged))
    np.testing.assert_allclose(report["after"], np.concatenate(scores).mean(), rtol=1e-3)


def test_a_damaged_calibration_is_refused_with_the_card(tmp_path):
    model = fitted("canp", CURVES)
    card = dataclasses.replace(model.card, calibration=Calibration((0.1, 0.2), (0.1, 0.2)))
    FittedModel(model.network, card).save(tmp_path / "model")
    path = tmp_path / "model" / "card.json"
    path.write_text(path.read_text().replace('"corrected"', '"corected"'))
    with pytest.raises(Exception, match="damaged or incomplete"):
        load(tmp_path / "model")
