"""The pretrained model on a leaderboard answers as it would alone, in the user's units."""

import dataclasses

import numpy as np
import pytest

from mpnp.errors import InputError
from mpnp.inference.fit import FitOptions, fit_curves
from mpnp.inference.model import load
from mpnp.models.config import ModelSettings
from mpnp.tables.curves import Curves

HOURS = np.linspace(100, 124, 9)
QUICK = FitOptions("cnp", steps=2, batch_size=2, held_out_contexts=20, rivals="mean,curves", validation=0.3, num_samples=1)
TINY = ModelSettings(width=8, num_heads=2, encoder_depth=1)
Y = np.array([310.0, 324.0, 331.0, 340.0, 338.0])


def days(outputs=1):
    rng = np.random.default_rng(0)
    waves = [300 + 40 * np.sin(HOURS[:, None] / 5 + rng.uniform(0, 6)) + rng.normal(size=(9, outputs)) for _ in range(12)]
    return Curves.from_pairs([(HOURS, wave) for wave in waves])


@pytest.fixture(scope="module")
def model():
    return fit_curves(days(), QUICK, settings=TINY, quiet=True)


def test_it_is_scored_with_the_others_and_joins_no_stack(model):
    board = model.leaderboard
    assert {standing.name for standing in board.validation} == {"network", "mean", "curves"} and not board.weights
    assert "curves" not in model.rivals


def test_predictions_functions_and_densities_are_those_of_the_model_itself(model):
    own, alone = (some.condition(HOURS[:5], Y) for some in (model.use("curves"), load("curves")))
    asked, y = HOURS[5:7], [330.0, 322.0]
    for kind in ("mean", "std", "quantiles"):
        np.testing.assert_allclose(own.predict(asked, kind), alone.predict(asked, kind), rtol=1e-4)
    np.testing.assert_allclose(own.log_prob(asked, y), alone.log_prob(asked, y), rtol=1e-3)
    np.testing.assert_allclose(own.joint_log_prob(asked, y), alone.joint_log_prob(asked, y), rtol=0.02)
    functions = [each.sample(asked, 64, num_future=5) for each in (own, alone)]
    np.testing.assert_allclose(functions[0].mean(axis=0), functions[1].mean(axis=0), rtol=0.02)
    chosen = own.sample(asked, 4, num_future=2, future_inputs=lambda rng, num: np.full(num, 120.0))
    assert chosen.shape == (4, 2) and np.isfinite(chosen).all()
    with pytest.raises(InputError, match="'curves' has no generator of functions"):
        own.sample(asked, 4, method="generate")


def test_a_saved_model_still_has_it(model, tmp_path):
    model.save(tmp_path / "model")
    again = load(tmp_path / "model").use("curves").condition(HOURS[:5], Y)
    np.testing.assert_allclose(again.predict(HOURS), model.use("curves").condition(HOURS[:5], Y).predict(HOURS), rtol=1e-6)


def test_tasks_with_several_outputs_do_without_it():
    board = fit_curves(days(outputs=2), QUICK, settings=TINY, quiet=True).leaderboard
    assert board.skipped == {"curves": "it reads curves of a single numeric input and a single output"}
    only = dataclasses.replace(QUICK, rivals="curves")
    assert fit_curves(days(outputs=2), only, settings=TINY, quiet=True).leaderboard is None
