"""The posterior in the user's units: laws that hold whatever the weights are."""

import concurrent.futures
import dataclasses
import warnings

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from helpers.fitted_models import fitted, in_units, renamed, some_curves
from mpnp.errors import InputError
from mpnp.inference.card import Reference
from mpnp.inference.ood import (
    ImplausibleContextWarning,
    LargeContextWarning,
    MissingContextWarning,
    OutsideRangeWarning,
    half_scores,
)
from mpnp.tables.points import context_points, target_inputs

pytestmark = pytest.mark.filterwarnings("ignore::mpnp.inference.ood.OutsideRangeWarning")

ONE, TWO = some_curves(), some_curves(outputs=2, missing=True)
GRID = np.linspace(12, 47, 9)[:, None]
CLOSE = {"rtol": 1e-4, "atol": 1e-3}


@pytest.fixture(scope="module")
def model():
    return fitted("mpanp", ONE)


@pytest.fixture(scope="module")
def double():
    return fitted("mpnp", TWO)


def full(posterior, X=GRID):
    return posterior.predict(X, "full")


def assert_same(got, wanted, **tolerance):
    assert got.keys() == wanted.keys()
    for name, values in wanted.items():
        np.testing.assert_allclose(got[name], values, **(tolerance or CLOSE))


@pytest.mark.parametrize("name", ["model", "double"])
def test_the_order_of_rows_does_not_matter(name, request):
    model, curves = request.getfixturevalue(name), {"model": ONE, "double": TWO}[name]
    x, y = curves.pair(5)
    order = np.random.default_rng(0).permutation(len(x))
    assert_same(full(model.condition(x[order], y[order])), full(model.condition(x, y)))


@pytest.mark.parametrize("scales", [(2.0, 0.25), (1024.0, 2.0**-20)])
def test_a_change_of_units_changes_nothing_but_the_units(scales):
    x_scale, y_scale = scales
    units = {"x_shift": 0.0, "x_scale": x_scale, "y_shift": 64 * y_scale, "y_scale": y_scale}
    (x, y), (x_new, y_new) = ONE.pair(5), in_units(ONE, **units).pair(5)
    before = full(fitted("mpanp", ONE).condition(x, y))
    after = full(fitted("mpanp", in_units(ONE, **units)).condition(x_new, y_new), GRID * x_scale)
    for name, values in before.items():
        shift = units["y_shift"] if name in ("mean", "quantiles") else 0.0
        np.testing.assert_allclose(after[name], values * y_scale + shift, rtol=1e-6)


def test_units_far_from_zero_lose_no_precision():
    (x, y), far = ONE.pair(5), in_units(ONE, x_shift=2.0**31, x_scale=1.0, y_shift=2.0**31, y_scale=1.0)
    before = full(fitted("mpanp", ONE).condition(x, y))
    after = full(fitted("mpanp", far).condition(*far.pair(5)), GRID + 2.0**31)
    np.testing.assert_allclose(after["mean"] - 2.0**31, before["mean"], rtol=1e-3)
    np.testing.assert_allclose(after["std"], before["std"], rtol=1e-3)


def test_adding_rows_equals_conditioning_on_all(model):
    x, y = ONE.pair(5)
    grown = model.condition(x[:2], y[:2]).add(x[2:5], y[2:5]).add(x[5:], y[5:])
    assert_same(full(grown), full(model.condition(x, y)), rtol=0, atol=0)
    np.testing.assert_array_equal(grown.sample(GRID, 3), model.condition(x, y).sample(GRID, 3))


@pytest.mark.parametrize("name", ["model", "double"])
def test_pandas_lists_and_arrays_agree(name, request):
    model, curves = request.getfixturevalue(name), {"model": ONE, "double": TWO}[name]
    x, y = curves.pair(4)
    columns = curves.columns
    frame = pd.DataFrame(np.hstack([x, y]), columns=[*columns.inputs, *columns.outputs], index=range(100, 100 + len(x)))
    at = pd.DataFrame({"x": GRID[:, 0], "other": "text"}, index=list("abcdefghi"))
    arrays = full(model.condition(x, y))
    assert_same(full(model.condition(x.tolist(), y.tolist()), GRID.tolist()), arrays, rtol=0)
    answer = model.condition(frame).predict(at, "full")
    assert answer.index.tolist() == at.index.tolist()
    for output, prefix in enumerate([""] if len(columns.outputs) == 1 else [f"{name}_" for name in columns.outputs]):
        for column in ("mean", "std", "between_std", "within_std"):
            wanted = arrays[column].reshape(len(GRID), -1)[:, output]
            np.testing.assert_array_equal(answer[f"{prefix}{column}"], wanted)
        quantiles = arrays["quantiles"].reshape(len(GRID), -1, 5)[:, output]
        np.testing.assert_array_equal(answer[[f"{prefix}q{level}" for level in ("05", "25", "50", "75", "95")]], quantiles)
    np.testing.assert_array_equal(model.condition(frame).predict(at), model.condition(x, y).predict(GRID))


def test_missing_outputs_of_a_row_are_as_if_never_asked_for(double):
    x, y = TWO.pair(5)
    blank = np.vstack([y, [np.nan, np.nan]])
    assert_same(full(double.condition(np.vstack([x, [[30.0]]]), blank)), full(double.condition(x, y)), rtol=0)
    half = y.copy()
    half[:, 1] = np.nan
    assert np.abs(double.condition(x, half).predict(GRID) - double.condition(x, y).predict(GRID)).max() > 1e-3


@pytest.mark.parametrize("name", ["model", "double"])
def test_quantiles_rise_with_their_level_and_match_the_distribution_function(name, request):
    model, curves = request.getfixturevalue(name), {"model": ONE, "double": TWO}[name]
    posterior, levels = model.condition(*curves.pair(3)), [0.9, 0.01, 0.5, 0.500001, 0.3]
    values = posterior.predict(GRID, "quantiles", quantiles=levels)
    assert (np.diff(values[..., np.argsort(levels)], axis=-1) >= 0).all()
    for number, level in enumerate(levels):
        np.testing.assert_allclose(posterior.cdf(GRID, values[..., number]), level, atol=2e-3)


def test_moments_of_generated_draws_match_the_prediction(model):
    posterior = model.condition(*ONE.pair(5), num_samples=256)
    prediction = full(posterior)
    functions, observations = (posterior.sample(GRID, 2000, seed=3, noise=noise, method="generate") for noise in (False, True))
    error = prediction["std"] / np.sqrt(256)
    assert (np.abs(functions.mean(axis=0) - prediction["mean"]) < 5 * error).all()
    assert (np.abs(observations.mean(axis=0) - prediction["mean"]) < 5 * error).all()
    np.testing.assert_allclose(functions.std(axis=0), prediction["between_std"], rtol=0.3)
    np.testing.assert_allclose(observations.std(axis=0), prediction["std"], rtol=0.1)


def test_functions_are_coherent_and_decided_by_their_seed(model):
    posterior = model.condition(*ONE.pair(5))
    draws = posterior.sample(GRID, 4, seed=7)
    np.testing.assert_allclose(posterior.sample(GRID[[2, 5]], 4, seed=7), draws[:, [2, 5]], **CLOSE)
    np.testing.assert_array_equal(posterior.sample(GRID, 4, seed=7), draws)
    assert np.abs(posterior.sample(GRID, 4, seed=8) - draws).max() > 1e-3
    assert len(np.unique(posterior.sample(GRID, 300, seed=7), axis=0)) == 300
    together = np.concatenate([posterior.sample(GRID, 300, seed=seed) for seed in (7, 8)])
    assert len(np.unique(together, axis=0)) == 600  # also of seeds that are neighbours


def test_a_conditional_model_generates_one_function():
    draws = fitted("cnp", ONE).condition(*ONE.pair(2)).sample(GRID, 3, method="generate")
    assert draws.shape == (3, 9) and (draws == draws[0]).all()


def test_a_linear_functional_has_the_moments_of_its_draws(model):
    posterior, weights = model.condition(*ONE.pair(5)), np.linspace(-1, 2, len(GRID))
    draws = posterior.sample(GRID, 256)
    integral = posterior.functional(lambda values: weights @ values, GRID)
    np.testing.assert_allclose(integral.mean, weights @ draws.mean(axis=0))
    covariance = np.cov(draws.T, bias=True)
    np.testing.assert_allclose(integral.std, np.sqrt(weights @ covariance @ weights))
    low, high = integral.interval(0.8)
    assert np.mean((integral.values >= low) & (integral.values <= high)) == pytest.approx(0.8, abs=0.02)
    where = posterior.functional(lambda values: GRID[np.argmax(values), 0], GRID)
    assert set(where.values) <= set(GRID[:, 0]) and where.quantile(0.5) in GRID


def test_a_quantity_that_some_functions_lack_is_that_of_the_others(model):
    posterior = model.condition(*ONE.pair(5))
    peaks = posterior.sample(GRID, 256).max(axis=1)
    threshold = np.quantile(peaks, 0.25)
    crossing = posterior.functional(lambda values: values.max() if values.max() > threshold else np.nan, GRID)
    crossed = peaks[peaks > threshold]
    assert crossing.exists == len(crossed) / 256 == 0.75
    np.testing.assert_allclose([crossing.mean, crossing.std], [crossed.mean(), crossed.std()])
    np.testing.assert_allclose(crossing.interval(0.5), np.quantile(crossed, [0.25, 0.75]))


def test_log_densities_are_those_of_the_mixture_in_the_users_units(model, double):
    posterior, (x, y) = model.condition(*ONE.pair(3)), ONE.pair(4)
    prediction = posterior.prediction(x)
    density = norm.pdf(y, prediction.loc, prediction.scale)[..., 0]
    np.testing.assert_allclose(posterior.log_prob(x, y), np.log(density.mean(axis=0)), rtol=1e-6)
    np.testing.assert_allclose(posterior.joint_log_prob(x, y, method="mixture"), np.log(density.prod(axis=1).mean()), rtol=1e-6)
    x, y = TWO.pair(5)
    first = double.condition(x[:3], y[:3])
    together = first.log_prob(x, y)
    alone = first.log_prob(x, np.where([True, False], y, np.nan))
    only_first = np.isnan(y[:, 1]) & ~np.isnan(y[:, 0])
    np.testing.assert_allclose(together[only_first], alone[only_first])
    assert np.isnan(first.cdf(x, y)).tolist() == np.isnan(y).tolist()


def test_many_tasks_at_once_are_answered_as_one_by_one(double):
    pairs = [TWO.pair(number) for number in range(4)]
    means = double.predict_tasks(pairs, [GRID] * 4)
    frame = pd.concat([pd.DataFrame({"task": n, "x": x[:, 0], "y0": y[:, 0], "y1": y[:, 1]}) for n, (x, y) in enumerate(pairs)])
    at = pd.concat([pd.DataFrame({"task": n, "x": GRID[:, 0]}) for n in (2, 0)])
    at = at.sample(frac=1, random_state=0)  # tasks in turns, and an index that repeats
    answer = double.predict_tasks(frame, at, "mean")
    assert answer["task"].tolist() == at["task"].tolist() and answer.index.tolist() == at.index.tolist()
    of_two = answer.loc[answer["task"] == 2, ["y0_mean", "y1_mean"]].to_numpy()
    assert np.abs(of_two - double.condition(*pairs[2]).predict(at.loc[at["task"] == 2, ["x"]].to_numpy())).max() < 60
    # Draws differ from task to task, so a function's mean agrees up to the spread of 32 draws.
    for number, mean in enumerate(means):
        posterior = double.condition(*pairs[number])
        error = posterior.prediction(GRID).between_std / np.sqrt(32)
        assert (np.abs(mean - posterior.predict(GRID)) <= 6 * error + 1e-3).all()
    assert answer.shape == (18, 3)


def test_sixteen_threads_that_share_a_model_get_the_answers_of_one():
    model = fitted("cnp")

    def ask(number):
        posterior = model.condition([20.0 + number % 5, 30.0], [300.0, 305.0], num_samples=4)
        at = np.linspace(12, 48, 4 + number % 3)
        return posterior.predict(at), posterior.sample(at, 2, num_future=3), posterior.log_prob(at, 300 + at)

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        together = list(pool.map(ask, range(32)))
    for number, answers in enumerate(together):
        for got, wanted in zip(answers, ask(number), strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_tasks_without_context_are_named(model):
    frame = pd.DataFrame({"task": ["a", "a"], "x": [20.0, 30.0], "y": [300.0, 301.0]})
    at = pd.DataFrame({"task": ["a", "b"], "x": [25.0, 25.0]})
    with pytest.warns(MissingContextWarning, match="1 tasks have no context, such as 'b'"):
        answer = model.predict_tasks(frame, at)
    assert answer["task"].tolist() == ["a", "b"]
    with pytest.warns(MissingContextWarning, match="such as 'a'"):  # rows without an output are no context
        model.predict_tasks(frame.assign(y=np.nan), at[:1])
    assert model.predict_tasks([], []) == []


def test_many_contexts_are_warned_of_as_one_is(model):
    large = (np.linspace(15, 45, 11), np.full(11, 300.0))
    with pytest.warns(LargeContextWarning, match="a context has 11 rows"):
        model.predict_tasks([large, ([20.0], [300.0])], [[25.0], [25.0]])


def test_nothing_observed_is_the_prior(model):
    prior = model.condition().predict(GRID)
    np.testing.assert_array_equal(model.condition([], []).predict(GRID), prior)
    np.testing.assert_array_equal(model.condition(pd.DataFrame({"x": [], "y": []})).predict(GRID), prior)


@pytest.mark.filterwarnings("default::mpnp.inference.ood.OutsideRangeWarning")
def test_what_training_never_showed_is_warned_of(model):
    x, y = ONE.pair(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        posterior = model.condition(x, y)
        posterior.predict(GRID)
    with pytest.warns(OutsideRangeWarning, match="1 of 2 rows lie outside the training range: 'x' is 99"):
        posterior.predict([20.0, 99.0])
    with pytest.warns(OutsideRangeWarning, match="the training data range from"):
        model.condition([-3.0], [300.0])
    with pytest.warns(LargeContextWarning, match="the context has 12 rows, more than the 10"):
        model.condition(np.linspace(12, 40, 12), np.full(12, 300.0))


def test_a_context_unlike_the_training_curves_is_warned_of():
    model = fitted("mpanp", ONE)
    contexts = [ONE.pair(number) for number in range(len(ONE))]
    scores = half_scores(model.predictor(32), model.card.columns, contexts)
    spread = np.linspace(scores.min() - 1, scores.max() + 1, 40)
    reference = Reference(np.repeat([4, 5, 6, 7, 8, 9], 40), np.tile(spread, 6))
    card = dataclasses.replace(model.card, reference=reference)
    model = type(model)(model.network, card)
    x, y = ONE.pair(3)
    assert 0.02 < model.plausibility(x, y) <= 1
    wild = y + 4000 * np.sin(np.arange(len(y)))[:, None]
    assert model.plausibility(x, wild) < 0.01
    with pytest.warns(ImplausibleContextWarning, match="the context does not look like the training data"):
        model.condition(x, wild)
    with pytest.warns(
        ImplausibleContextWarning, match=r"1 of 2 contexts \(about 0.02 are expected by chance\) do not look like"
    ):
        model.predict_tasks([(x, wild), (x, y)], [GRID, GRID])


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda m: m.condition([1, 2], [1.0]), "X has 2 rows and y has 1"),
        (lambda m: m.condition([[1, 2]], [1.0]), r"X must have 1 columns \(x\), got 2"),
        (lambda m: m.condition([20.0]), "y is missing"),
        (lambda m: m.condition([20.0], [[1.0, 2.0]]), r"y must have 1 columns \(y\), got 2"),
        (lambda m: m.condition([np.nan], [1.0]), "column 'x' is missing in row 0; repair it, or drop such rows"),
        (lambda m: m.condition(pd.DataFrame({"x": [1.0]})), "unknown column 'y'"),
        (lambda m: m.condition([20.0], [1.0], num_samples=0), "num_samples must be a whole number of at least 1"),
        (lambda m: m.condition([20.0], [1e60]).predict(GRID), "too far from the training data; check units"),
        (lambda m: m.condition().predict([1e200]), "too far from the training data; check units"),
        (lambda m: m.condition().predict(GRID, "median"), "unknown output_type 'median'"),
        (lambda m: m.condition().predict(GRID, "quantiles", quantiles=[0.0, 0.5]), "above 0 and below 1"),
        (lambda m: m.condition().sample(GRID, 0), "n must be a whole number of at least 1"),
        (lambda m: m.condition().sample(GRID, 2, seed=-1), "seed"),
        (lambda m: m.condition().functional(lambda v: v[v > v.mean()], GRID), "arrays of the same shape"),
        (lambda m: m.predict_tasks([([1], [2])], pd.DataFrame()), "must both be frames"),
        (lambda m: m.predict_tasks([1], [GRID]), "context 0 must be a pair"),
        (lambda m: m.predict_tasks([([1], [2])], []), "every context needs its rows of X"),
        (
            lambda m: m.predict_tasks(
                pd.DataFrame({"task": ["a"], "x": [20.0], "y": [1.0]}), pd.DataFrame({"task": [None], "x": [1.0]})
            ),
            "the task column 'task' is empty",
        ),
        (lambda m: m.predict_tasks(pd.DataFrame({"x": [1]}), pd.DataFrame({"x": [1]})), "unknown column 'task'"),
        (lambda m: m.condition().plot(output="z"), "unknown output 'z'"),
    ],
)
def test_questions_that_make_no_sense_are_refused(model, ask, message):
    with pytest.raises(InputError, match=message):
        ask(model)


def test_column_names_are_the_users():
    model = fitted("cnp", renamed(ONE, ("hour",), ("temp",)))
    frame = pd.DataFrame({"temp": [300.0], "hour": [20.0]})
    assert model.condition(frame).predict(frame).name == "mean"


def test_the_picture_shows_context_band_and_functions(double):
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    double.condition(*TWO.pair(4)).plot(ax=ax, output="y1", num_draws=3)
    labels = ax.get_legend_handles_labels()[1]
    assert labels == ["90% of observations", "function draws", "mean", "context"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x", "y1") and len(ax.lines) == 5


def test_the_prediction_is_the_networks_mixture_in_other_units(model):
    x, y = ONE.pair(5)
    posterior, columns = model.condition(x, y), model.card.columns
    mixture = model.predictor(32)(context_points(columns, x, y), target_inputs(columns, GRID))
    prediction, scale = posterior.prediction(GRID), model.card.columns.output_scale.scale
    truth = 300 + 5 * np.sin(GRID)
    normal = jnp.asarray(model.card.columns.encode_outputs(truth), jnp.float32)
    np.testing.assert_allclose(prediction.std, np.asarray(mixture.std) * scale, rtol=1e-4)
    np.testing.assert_allclose(prediction.crps(truth), np.asarray(mixture.crps(normal)) * scale, rtol=1e-3)
    np.testing.assert_allclose(prediction.cdf(truth), mixture.cdf(normal), atol=1e-5)
    np.testing.assert_allclose(prediction.log_prob(truth), np.asarray(mixture.log_prob(normal)) - np.log(scale), rtol=1e-4)
    level = model.card.columns.decode_outputs(np.asarray(mixture.quantile(0.3)))
    np.testing.assert_allclose(prediction.quantiles([0.3])[..., 0], level, rtol=1e-4)
