"""Imagined observations lie where curves of the training set have theirs."""

import dataclasses

import numpy as np
import pytest

from helpers.exact_process import NOISE, exact_model, kernel
from helpers.fitted_models import fitted
from mpnp.errors import RunError
from mpnp.inference.card import ModelCard
from mpnp.inference.functions import find_imagined
from mpnp.inference.placement import MOST_VALUES, Placement
from mpnp.inference.regions import Box, Places, find_region
from mpnp.tables.curves import Curves

HOURS = np.arange(0.0, 24, 2)


def daily_curves(num_curves: int = 8, num_hours: int = 7, sites: int = 0, outputs: int = 1) -> Curves:
    """Curves at some hours of a grid, perhaps each at one of some sites."""
    rng = np.random.default_rng(0)
    pairs = []
    for number in range(num_curves):
        hour = np.sort(rng.permutation(HOURS)[:num_hours])
        site = np.full((num_hours, 1), 10.0 * (number % sites)) if sites else np.zeros((num_hours, 0))
        values = np.sin(hour / 4)[:, None] + rng.normal(0, 0.1, (num_hours, outputs))
        pairs.append((np.hstack([hour[:, None], site]), values))
    return Curves.from_pairs(pairs)


def test_values_that_curves_share_are_their_grid():
    (grid,) = Placement.learn(daily_curves()).grids
    np.testing.assert_array_equal(grid, HOURS)


def test_a_grid_may_have_gaps_strays_and_rounding_errors():
    curves = daily_curves(num_curves=40)
    x = curves.x * (1 + 1e-15 * np.random.default_rng(1).standard_normal(curves.x.shape))
    x[5] += 0.7
    (grid,) = Placement.learn(dataclasses.replace(curves, x=x)).grids
    np.testing.assert_allclose(grid, HOURS, rtol=1e-12)


@pytest.mark.parametrize("num_values", [50_000, MOST_VALUES + 1])
def test_inputs_without_shared_values_or_with_very_many_have_no_grid(num_values):
    values = np.random.default_rng(2).permutation(np.arange(20 * 300) % num_values).astype(float)
    curves = Curves.from_pairs([(part, part) for part in np.split(values, 20)])
    assert Placement.learn(curves).grids == (None,)


def test_inputs_that_stay_the_same_along_curves_are_fixed():
    placement = Placement.learn(daily_curves(sites=3))
    assert placement.fixed == (False, True) and placement.grids[1] is None
    assert Placement.learn(Curves.from_pairs([([1.0], [2.0]), ([3.0], [4.0])])).fixed == (False,)


def test_a_placement_survives_its_card_and_older_cards_have_none():
    card = fitted("cnp", daily_curves(sites=3)).card
    content = card.to_json()
    restored = ModelCard.from_json(content, "card").seen.placement
    np.testing.assert_array_equal(restored.grids[0], HOURS)
    assert (restored.grids[1], restored.fixed) == (None, (False, True))
    del content["seen"]["placement"]
    assert ModelCard.from_json(content, "card").seen.placement == Placement.anywhere(2)


def test_a_union_has_both_grids_if_there_are_two():
    one, other = (Placement.learn(daily_curves()), Placement((HOURS + 1,), (True,)))
    np.testing.assert_array_equal(one.union(other).grids[0], np.arange(24.0))
    assert one.union(other).fixed == (False,) and one.union(Placement.anywhere(1)).grids == (None,)


@pytest.mark.parametrize(
    "content",
    [
        {"grids": [[0.0, float("nan")]], "fixed": [False]},
        {"grids": [[]], "fixed": [False]},
        {"grids": [list(range(100_000))], "fixed": [False]},
        {"grids": [None, None], "fixed": [False]},
        {"grids": "none", "fixed": [False]},
        {"grids": [None]},
    ],
)
def test_a_damaged_placement_is_refused(content):
    card = fitted("cnp", daily_curves()).card.to_json()
    card["seen"]["placement"] = content
    with pytest.raises(RunError, match="card is damaged or incomplete"):
        ModelCard.from_json(card, "card")


def test_places_are_those_of_the_grid_that_the_context_lacks_each_at_most_once():
    x_context, bounds = HOURS[[1, 4]][:, None], (np.zeros(1), np.full(1, 22.0))
    region = find_region(Placement((HOURS,), (False,)), *bounds, x_context)
    lacking = np.delete(HOURS, [1, 4])
    np.testing.assert_array_equal(region.spread(3, 30, np.random.default_rng(0))[..., 0], np.tile(lacking, (3, 1)))
    some = region.spread(500, 4, np.random.default_rng(0))[..., 0]
    assert set(np.unique(some)) == set(lacking) and (np.diff(some, axis=1) > 0).all()
    np.testing.assert_array_equal(region.after(8.0).rows[:, 0], [10, 12, 14, 16, 18, 20, 22])
    assert region.after(22.0) is None


def test_without_a_free_place_observations_lie_between_them():
    bounds = (np.zeros(1), np.full(1, 22.0))
    assert isinstance(find_region(Placement((HOURS,), (False,)), *bounds, HOURS[:, None]), Box)


def test_an_input_with_a_grid_beside_one_without_keeps_to_its_grid():
    region = find_region(Placement((HOURS, None), (False, False)), np.zeros(2), np.array([22.0, 1.0]), np.zeros((0, 2)))
    rows = region.spread(5, 20, np.random.default_rng(0))
    assert np.isin(rows[..., 0], HOURS).all() and len(np.unique(rows[..., 1])) == 100
    assert (region.after(8.0).spread(5, 20, np.random.default_rng(0))[..., 0] >= 10).all()
    assert (region.after(22.5) or region) is region


def test_the_grid_of_two_inputs_is_their_product():
    grids = (HOURS, np.array([0.0, 5.0]))
    region = find_region(Placement(grids, (False, False)), np.zeros(2), np.array([22.0, 5.0]), np.array([[4.0, 5.0]]))
    assert isinstance(region, Places) and region.rows.shape == (23, 2)
    assert len(np.unique(region.spread(1, 30, np.random.default_rng(0))[0], axis=0)) == 23


@pytest.mark.parametrize("context", ["random", "prefix"])
def test_a_model_of_curves_on_a_grid_imagines_the_rest_of_the_curve(context):
    model = in_context(fitted("canp", daily_curves()), context)
    rng, x_context = np.random.default_rng(3), HOURS[:5, None]
    places = model.forecaster.completer.place(x_context, HOURS[[3]][:, None], 4, 30, rng)
    hours = model.card.columns.input_scale.shift + model.card.columns.input_scale.scale * np.asarray(places)[..., 0]
    np.testing.assert_allclose(np.sort(hours), np.tile(HOURS[5:], (4, 1)), rtol=1e-5, atol=1e-5)
    assert (np.diff(hours) > 0).all() == (context == "prefix")


def test_rows_beyond_the_grid_get_observations_of_their_own():
    model = fitted("canp", daily_curves())
    rows = model.forecaster.completer.place(HOURS[:5, None], np.array([[40.0]]), 4, 30, np.random.default_rng(3))
    assert rows.shape == (4, 30, 1) and len(np.unique(rows)) == 120


def test_a_fixed_input_is_that_of_the_context_or_of_the_asked_rows():
    model = fitted("canp", daily_curves(sites=3))
    shift, scale = model.card.columns.input_scale
    asked = np.array([[4.0, 10.0], [6.0, 20.0]])
    for given, wanted in ((np.array([[2.0, 20.0]]), {20.0}), (np.zeros((0, 2)), {10.0, 20.0})):
        rows = model.forecaster.completer.place(given, asked, 40, 5, np.random.default_rng(4)) * scale + shift
        assert set(np.unique(np.round(rows[..., 1], 3))) == wanted
        assert (np.ptp(rows[..., 1], axis=1) == 0).all()


# Observations of functions


def test_observations_at_imagined_inputs_have_the_exact_joint_distribution():
    """The chain rule is exact for a Gaussian process, however few observations are imagined."""
    x_context, y_context = np.array([-1.0, 0.4, 0.9]), np.array([0.5, -0.8, 0.3])
    x = np.array([[-1.5], [0.0], [0.2], [1.4]])
    posterior = exact_model().condition(x_context, y_context)
    draws = posterior.sample(x, 4_000, noise=True, num_future=4, future_inputs=lambda rng, num: x)
    cross, given = np.asarray(kernel(x, x_context[:, None])), np.asarray(kernel(x_context[:, None], x_context[:, None]))
    gain = np.linalg.solve(given + NOISE**2 * np.eye(3), cross.T).T
    covariance = np.asarray(kernel(x, x)) - gain @ cross.T + NOISE**2 * np.eye(4)
    scale = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(draws.mean(axis=0) - gain @ y_context) < 5 * scale / np.sqrt(len(draws)))
    np.testing.assert_allclose(np.cov(draws.T) / np.outer(scale, scale), covariance / np.outer(scale, scale), atol=0.1)


def test_an_observation_is_the_imagined_one_where_there_is_one_and_is_used_once():
    posterior = fitted("canp", daily_curves()).condition(HOURS[:5], np.sin(HOURS[:5] / 4))
    rows = HOURS[[6, 6, 9]]
    observed, again = posterior.sample(rows, 3, seed=1, noise=True), posterior.sample(HOURS[[9, 6]], 3, seed=1, noise=True)
    np.testing.assert_array_equal(observed[:, [2, 0]], again)
    assert (observed[:, 0] != observed[:, 1]).all()
    nothing = find_imagined(np.ones((2, 3, 1)), np.ones((2, 3, 1)), np.zeros((4, 1)))
    assert np.isnan(nothing).all() and nothing.shape == (2, 4, 1)


def test_each_output_has_its_imagined_observation():
    curves = daily_curves(outputs=2)
    posterior = fitted("canp", curves).condition(HOURS[:5], curves.y[:5])
    alone, together = (posterior.sample(HOURS[rows], 3, seed=1, noise=True) for rows in ([8], [6, 8]))
    assert together.shape == (3, 2, 2)
    np.testing.assert_array_equal(alone[:, 0], together[:, 1])


def in_context(model, context):
    """The model, as if trained on such contexts."""
    card = dataclasses.replace(model.card, about={**model.card.about, "context": context})
    return type(model)(model.network, card)
