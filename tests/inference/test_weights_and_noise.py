"""A weight of two counts a row twice, in losses and scores; known noise is no part of what a model predicts."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from helpers.fitted_models import fitted, in_units, some_curves
from helpers.models import small_model
from mpnp.errors import InputError
from mpnp.evaluation.metrics import score_task
from mpnp.inference.assess import Cut, assess, cut_curves, mean_log_prob
from mpnp.inference.fit import FitOptions, fit_curves
from mpnp.inference.forecasters import RivalPredictor
from mpnp.inference.leaderboard import Rows, learn_weights, rank
from mpnp.inference.recalibration import learn_calibration
from mpnp.inference.rivalry import learn_rivals
from mpnp.models.config import ModelSettings
from mpnp.models.registry import MODELS
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.tables.columns import Schema
from mpnp.tables.curves import Curves
from mpnp.tables.dataset import CurveDataset
from mpnp.tables.points import context_points, target_inputs
from mpnp.tasks.task import Task

QUICK = FitOptions(
    "cnp", steps=6, batch_size=4, held_out_contexts=30, rivals="mean,normal,gp", validation=0.3, test=0.2, num_samples=1
)
TINY = ModelSettings(width=8, num_heads=2, encoder_depth=1)
HOURS = np.arange(6.0)


def days(num=20, **known):
    rng = np.random.default_rng(0)
    return Curves.from_pairs([(HOURS, 50 + 3 * HOURS + 9 * rng.normal() + rng.normal(size=6)) for _ in range(num)], **known)


def tasks_of(y, weights=None, noise=None):
    """A task of points without context."""
    points = jnp.linspace(-1, 1, len(y))[:, None] if weights is not None or noise is not None else None
    x = jnp.zeros((len(y), 1)) if points is None else points
    everything = jnp.ones(len(y), bool)
    known = [None if values is None else jnp.asarray(values) for values in (weights, noise)]
    return Task(x, jnp.asarray(y)[:, None], ~everything, everything, loss_weights=known[0], known_noise=known[1])


@pytest.mark.parametrize("name", MODELS)
def test_known_noise_of_zero_is_no_noise_in_every_loss(name):
    model, key = small_model(name, x_dim=1, y_dim=1), jax.random.key(0)
    x, y = jnp.linspace(-1, 1, 5)[:, None], jnp.array([0.3, -0.2, 0.5, 0.1, 0.9])[:, None]
    context = jnp.arange(5) < 2
    losses = [
        float(model.loss(Task(x, y, context, ~context, known_noise=noise), key=key, num_samples=3)[0])
        for noise in (None, jnp.zeros(5), jnp.full(5, 5.0))
    ]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    assert abs(losses[2] - losses[0]) > 0.1


def test_the_loss_of_a_noisy_measurement_is_by_hand_that_of_both_variances():
    model = small_model("cnp", x_dim=1, y_dim=1)
    task = tasks_of([0.3, -0.2], noise=[0.5, 2.0])
    answer = model.predict(task.context, task.x, key=jax.random.key(0))
    std = np.hypot(answer.scale[0, :, 0], [0.5, 2.0])
    wanted = -norm.logpdf(task.y[:, 0], answer.loc[0, :, 0], std).mean()
    loss, _ = model.loss(task, key=jax.random.key(0), num_samples=1)
    np.testing.assert_allclose(loss, wanted, rtol=1e-5)
    np.testing.assert_allclose(score_task(answer, task)["target"], -wanted, rtol=1e-5)


def test_a_weight_of_two_counts_a_point_twice_in_loss_and_validation():
    model = small_model("cnp", x_dim=1, y_dim=1)
    x, y = jnp.array([[0.0], [0.5]]), jnp.array([[0.3], [-0.7]])
    nothing, both = jnp.zeros(2, bool), jnp.ones(2, bool)
    weighted = Task(x, y, nothing, both, loss_weights=jnp.array([2.0, 1.0]))
    rows = jnp.array([0, 0, 1])
    repeated = Task(x[rows], y[rows], nothing[rows], both[rows])
    losses = [model.loss(task, key=jax.random.key(0), num_samples=1)[0] for task in (weighted, repeated)]
    np.testing.assert_allclose(*losses, rtol=1e-6)
    scores = [score_task(model.predict(task.context, task.x, key=jax.random.key(0)), task) for task in (weighted, repeated)]
    for name in ("target", "rmse", "crps", "coverage_90"):
        np.testing.assert_allclose(scores[0][name], scores[1][name], rtol=1e-5)


def test_a_weight_of_two_counts_a_row_twice_in_every_score():
    columns = Schema.named(["x"], ["y"])
    x, y = np.array([[0.0], [1.0], [2.0]]), np.array([[0.5], [-1.0], [2.0]])
    rows, empty = [0, 1, 1, 2, 2, 2], np.zeros((0, 1))
    answer = Predictive(np.array([[[0.0], [0.2], [0.4]]]), np.ones((1, 3, 1)))
    weighted = [Cut(empty, empty, x, y, np.array([1.0, 2.0, 3.0]))]
    repeated, again = [Cut(empty, empty, x[rows], y[rows])], Predictive(answer.loc[:, rows], answer.scale[:, rows])
    first, second = assess(columns, answer, weighted)["y"], assess(columns, again, repeated)["y"]
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_allclose(first[name], second[name])
    by_hand = np.average(norm.logpdf([0.5, -1.0, 2.0], [0.0, 0.2, 0.4]), weights=[1, 2, 3])
    np.testing.assert_allclose(mean_log_prob(columns, answer, weighted), by_hand)
    np.testing.assert_allclose(first["squared_error"], (0.25 + 2 * 1.44 + 3 * 2.56) / 6)


def test_a_weight_of_two_counts_a_row_twice_in_standings_and_stacks():
    rng = np.random.default_rng(0)
    weights, cluster = rng.integers(0, 4, 40), np.repeat(np.arange(10), 4)
    rows = np.repeat(np.arange(40), weights)
    scores = {
        name: {metric: rng.normal(size=(40, 1)) ** 2 for metric in ("log_likelihood", "crps", "squared_error", "coverage_90")}
        for name in ("a", "b")
    }
    repeated = {name: {metric: values[rows] for metric, values in some.items()} for name, some in scores.items()}
    weighted = rank(scores, Rows(cluster, weights.astype(float)), np.ones(1))
    for one, other in zip(weighted, rank(repeated, Rows(cluster[rows], np.ones(len(rows))), np.ones(1)), strict=True):
        assert one.name == other.name
        np.testing.assert_allclose(dataclasses.astuple(one)[1:], dataclasses.astuple(other)[1:])
    densities = {name: -some["crps"][:, 0] for name, some in scores.items()}
    of_repeated = learn_weights({name: values[rows] for name, values in densities.items()}, 1_000, 10)
    assert learn_weights(densities, 1_000, 10, weights.astype(float)) == of_repeated


def test_equal_weights_and_noise_of_zero_change_nothing():
    plain, weighted, exact = (
        fit_curves(days(**known), QUICK, settings=TINY, quiet=True)
        for known in ({}, {"weights": [np.full(6, 7.0)] * 20}, {"noise": [np.zeros(6)] * 20})
    )
    for other in (weighted, exact):
        assert other.leaderboard.best == plain.leaderboard.best
    boards = [model.leaderboard.frame().to_numpy() for model in (plain, exact)]
    np.testing.assert_allclose(*boards, rtol=2e-3, atol=2e-3)
    rivals = [model.leaderboard.frame().loc[["normal", "gp", "mean"], "crps"] for model in (plain, weighted)]
    np.testing.assert_allclose(*rivals, rtol=1e-6)


def test_a_model_predicts_without_the_known_noise_and_with_that_of_its_rows():
    curves = some_curves()
    model = fitted("canp", curves)
    model = type(model)(model.network, dataclasses.replace(model.card, columns=model.card.columns.with_noise(["s"])))
    posterior = model.condition(*curves.pair(2))
    asked = pd.DataFrame({"x": [20.0, 30.0, 40.0], "s": [0.0, 5.0, 50.0]})
    std, mean = posterior.predict(asked[["x"]], "std"), posterior.predict(asked[["x"]])
    np.testing.assert_allclose(posterior.predict(asked, "std"), np.hypot(std, [0, 5, 50]), rtol=1e-6)
    np.testing.assert_allclose(posterior.predict(asked), mean)
    pair = curves.pair(2)
    (frame,) = model.predict_tasks([pair], [asked], "std")
    np.testing.assert_allclose(frame, posterior.predict(asked, "std"), rtol=1e-4)
    noisy, exact = (posterior.sample(rows, 400, noise=True).std(axis=0) for rows in (asked, asked[["x"]]))
    assert noisy[2] > 40 > exact[2]
    with pytest.raises(InputError, match="drop s from X"):
        posterior.joint_log_prob(asked, [300.0] * 3)
    assert np.isfinite(posterior.joint_log_prob(asked, [300.0] * 3, method="mixture"))


def test_noise_in_other_units_gives_the_same_model():
    curves = days(noise=[HOURS] * 20)
    scaled = in_units(curves, x_shift=0.0, x_scale=1.0, y_shift=-7.0, y_scale=1_000.0)
    scaled = dataclasses.replace(scaled, noise=curves.noise * 1_000)
    first, second = (fit_curves(some, QUICK, settings=TINY, quiet=True) for some in (curves, scaled))
    asked = pd.DataFrame({"x": HOURS[3:], "y_noise": [1.0, 2.0, 3.0]})
    for name in ("network", "normal", "gp"):
        one = first.use(name).condition(HOURS[:3], [50.0, 53.0, 56.0]).predict(asked, "std")
        y = np.array([50.0, 53.0, 56.0]) * 1_000 - 7
        other = second.use(name).condition(HOURS[:3], y).predict(asked.assign(y_noise=asked["y_noise"] * 1_000), "std")
        np.testing.assert_allclose(other, one * 1_000, rtol=2e-3)


def test_rivals_give_the_typical_noise_up_and_take_that_of_each_row_back():
    curves = days(noise=[np.full(6, 0.8)] * 20)
    table = CurveDataset(curves)
    rivals, _ = learn_rivals(table, ("mean", "persistence", "normal", "gp"), seed=0, tell=lambda line: None)
    columns, without = table.columns, CurveDataset(days()).columns
    context, targets = (
        context_points(columns, HOURS[:3, None], 50 + 3 * HOURS[:3, None]),
        target_inputs(columns, HOURS[:, None]),
    )
    for rival in rivals.values():
        quiet, loud = (RivalPredictor(rival, some)(context, targets) for some in (columns, without))
        noise = columns.encode_noise(np.full((6, 1), 0.8))
        clear = np.asarray(loud.scale)[0] > 1.01 * noise
        assert clear.any()
        np.testing.assert_allclose(np.asarray(quiet.with_noise(noise).scale)[0][clear], np.asarray(loud.scale)[0][clear])


def test_a_network_that_knows_the_noise_claims_less_of_its_own():
    rng = np.random.default_rng(1)
    loud = np.where(rng.random((120, 6)) < 0.5, 20.0, 0.0)
    pairs = [(HOURS, 3 * HOURS + rng.normal(size=6) + noise * rng.normal(size=6)) for noise in loud]
    options = dataclasses.replace(QUICK, steps=150, rivals="none", batch_size=16)
    blind, told = (
        fit_curves(Curves.from_pairs(pairs, **known), options, settings=TINY, quiet=True)
        for known in ({}, {"noise": list(loud)})
    )
    assert told.condition().predict(HOURS, "std").max() < 0.8 * blind.condition().predict(HOURS, "std").min()
    scores = [model.card.about["validation"]["y"]["log_likelihood"] for model in (blind, told)]
    assert scores[1] > scores[0] + 0.1


def test_known_noise_is_no_error_of_the_prediction():
    rng = np.random.default_rng(0)
    error = 0.5 * rng.standard_normal(20_000) + 0.6 * rng.standard_normal(20_000)
    calibration = learn_calibration(np.full(20_000, 0.1), error, noise=0.6)
    np.testing.assert_allclose(calibration(np.array([0.1])), 0.5, rtol=0.1)


def test_cuts_carry_what_is_known_of_their_targets():
    curves = days(noise=[HOURS] * 20, weights=[HOURS + 1] * 20)
    for cut in cut_curves(curves, "random", max_rows=6, num_cuts=2, seed=0):
        np.testing.assert_array_equal(cut.noise, cut.x_target)
        np.testing.assert_array_equal(cut.weights, cut.x_target[:, 0] + 1)


def test_other_likelihoods_are_refused():
    settings = dataclasses.replace(TINY, likelihood="laplace")
    with pytest.raises(InputError, match="known noise is normal, so it needs the likelihood 'gaussian', not 'laplace'"):
        fit_curves(days(noise=[HOURS] * 20), QUICK, settings=settings, quiet=True)
