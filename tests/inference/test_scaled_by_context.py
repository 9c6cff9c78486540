"""Models that scale every curve by its own context: the user's units must not matter."""

import numpy as np
import pandas as pd
import pytest

from helpers.models import SETTINGS, small_model
from mpnp.errors import InputError
from mpnp.inference.card import ModelCard, TrainingDomain
from mpnp.inference.model import FittedModel, load
from mpnp.inference.ood import OutsideRangeWarning
from mpnp.inference.placement import Placement
from mpnp.tables.columns import Schema

X = np.array([3.0, 5.0, 6.5, 9.0])
Y = np.array([120.0, 80.0, 95.0, 150.0])
QUERY = np.array([4.0, 7.0, 10.0])
UNITS = [(1000.0, -40.0, 0.01, 5.0), (0.001, 2.0, 300.0, -7.0), (60.0, 0.0, -2.0, 0.0)]


@pytest.fixture(scope="module")
def model():
    domain = TrainingDomain(1, 1, np.array([-2.0]), np.array([2.0]), 20, Placement.anywhere(1))
    card = ModelCard("tnp", SETTINGS, Schema.numbered(1, 1), domain, None, {}, scaled_by_context=True)
    return FittedModel(small_model("tnp"), card)


def in_units(units):
    a, b, c, d = units
    return a * X + b, c * Y + d, a * QUERY + b


@pytest.mark.parametrize("units", UNITS[:2])
def test_predictions_and_functions_follow_the_units(model, units):
    _, _, c, d = units
    x, y, query = in_units(units)
    here, there = model.condition(X, Y), model.condition(x, y)
    np.testing.assert_allclose(there.predict(query), c * here.predict(QUERY) + d, rtol=1e-4)
    np.testing.assert_allclose(there.predict(query, "std"), c * here.predict(QUERY, "std"), rtol=1e-4)
    functions = here.sample(QUERY, 4, seed=3, num_future=5)
    np.testing.assert_allclose(there.sample(query, 4, seed=3, num_future=5), c * functions + d, rtol=1e-3)
    densities = here.joint_log_prob(QUERY, np.full(3, 100.0)), there.joint_log_prob(query, np.full(3, 100.0 * c + d))
    np.testing.assert_allclose(densities[1], densities[0] - 3 * np.log(c), rtol=1e-4)


def test_the_network_reads_standardised_outputs_and_inputs_in_the_middle_of_its_range(model):
    posterior = model.condition(X, Y)
    np.testing.assert_allclose([posterior._context.y.mean(), posterior._context.y.std()], [0, 1], atol=1e-6)
    assert (posterior._context.x.min(), posterior._context.x.max()) == (-1, 1)
    assert (posterior.model.card.seen.low[0], posterior.model.card.seen.high[0]) == (0, 12)


def test_more_observations_change_the_scale_as_conditioning_on_all_does(model):
    added, together = model.condition(X[:2], Y[:2]).add(X[2:], Y[2:]), model.condition(X, Y)
    np.testing.assert_allclose(added.predict(QUERY), together.predict(QUERY), rtol=1e-6)


@pytest.mark.parametrize(("count", "query"), [(0, [0.5, 1.0]), (1, [3.5, 4.0])])
def test_too_few_observations_to_tell_a_scale_leave_the_one_of_the_user(model, count, query):
    posterior = model.condition(X[:count], Y[:count])
    assert posterior.columns.output_scale.scale.item() == 1
    assert np.isfinite(posterior.predict(query)).all()


def test_a_constant_context_is_read(model):
    assert np.isfinite(model.condition(X, np.full(4, 7.0)).predict(QUERY)).all()


def test_many_tasks_are_each_scaled_by_their_own_context(model):
    x, y, query = in_units(UNITS[1])
    answers = model.predict_tasks([(X, Y), (x, y)], [QUERY, query])
    np.testing.assert_allclose(answers[0], model.condition(X, Y).predict(QUERY), rtol=1e-5)
    np.testing.assert_allclose(answers[1], model.condition(x, y).predict(query), rtol=1e-5)
    frame = pd.DataFrame({"task": ["a"] * 4 + ["b"] * 4, "x": [*X, *x], "y": [*Y, *y]})
    at = pd.DataFrame({"task": ["a"] * 3 + ["b"] * 3, "x": [*QUERY, *query]})
    np.testing.assert_allclose(model.predict_tasks(frame, at)["mean"], np.concatenate(answers), rtol=1e-5)


def test_a_query_far_from_the_context_is_warned_of_in_the_users_units(model):
    with pytest.warns(OutsideRangeWarning, match=r"'x' is 13, but the training data range from 0 to 12"):
        model.condition(X, Y).predict([13.0])
    with pytest.warns(OutsideRangeWarning, match="'x' is 13"):
        model.predict_tasks([(X, Y)], [[13.0]])


def test_columns_may_have_other_names(model):
    frame = pd.DataFrame({"hour": X, "temperature": Y})
    posterior = model.renamed(["hour"], ["temperature"]).condition(frame)
    at = pd.DataFrame({"hour": QUERY})
    np.testing.assert_allclose(posterior.predict(at), model.condition(X, Y).predict(QUERY), rtol=1e-6)
    with pytest.raises(InputError, match="the model has 1 input columns, got 2 names: a, b"):
        model.renamed(["a", "b"])
    with pytest.raises(InputError, match="two columns have the same name: a, a"):
        model.renamed(["a"], ["a"])


def test_a_saved_model_still_scales_by_the_context(model, tmp_path):
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_allclose(again.condition(X, Y).predict(QUERY), model.condition(X, Y).predict(QUERY), rtol=1e-6)
    assert again.card.to_json()["version"] == 4
