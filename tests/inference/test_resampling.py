"""Predictive resampling: with an exact Gaussian process as the one-step predictive, all of it is known in closed form."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.exact_process import NOISE, ExactProcess, kernel
from helpers.fitted_models import fitted, some_curves
from helpers.models import small_model
from mpnp.errors import InputError
from mpnp.inference.designs import Forecast, Scattered, find_design
from mpnp.inference.model import FittedModel
from mpnp.inference.ood import OutsideRangeWarning
from mpnp.inference.predictor import pad_points
from mpnp.inference.regions import Box, spread_inputs
from mpnp.inference.resampler import choose_num_future
from mpnp.inference.resampling import chain_log_prob, complete_contexts, read_functions
from mpnp.models.registry import MODELS
from mpnp.tasks.images import positions
from mpnp.tasks.task import PointSet

X_CONTEXT = np.array([[-1.0], [0.4], [0.9]], np.float32)
Y_CONTEXT = np.array([[0.5], [-0.8], [0.3]], np.float32)
X_TARGET = np.linspace(-2, 2, 5, dtype=np.float32)[:, None]
CURVES = some_curves()
GRID = np.linspace(12, 46, 9)[:, None]


def exact_posterior():
    """Mean and covariance of the function itself at the targets."""
    covariance = np.asarray(kernel(X_CONTEXT, X_CONTEXT)) + NOISE**2 * np.eye(3)
    cross = np.asarray(kernel(X_TARGET, X_CONTEXT))
    gain = np.linalg.solve(covariance, cross.T).T
    return (gain @ Y_CONTEXT)[:, 0], np.asarray(kernel(X_TARGET, X_TARGET)) - gain @ cross.T


@pytest.fixture(scope="module", params=["in random order", "ascending"])
def functions(request):
    """Many functions of the exact process, with many more observations than it takes to know them."""
    rows = np.tile(np.linspace(-2.5, 2.5, 60), (2_000, 1))
    ordered = rows if request.param == "ascending" else np.random.default_rng(0).permuted(rows, axis=1)
    inputs = jnp.asarray(ordered[..., None])

    @jax.jit
    def draw(inputs, key):
        completed = complete_contexts(ExactProcess(), PointSet.observed(X_CONTEXT, Y_CONTEXT), inputs, 60, key=key)
        return read_functions(ExactProcess(), completed, jnp.asarray(X_TARGET), key=key).loc[..., 0]

    return np.asarray(draw(inputs.astype(jnp.float32), jax.random.key(0)))


def test_resampled_functions_have_the_mean_of_the_exact_posterior(functions):
    mean, covariance = exact_posterior()
    assert np.all(np.abs(functions.mean(axis=0) - mean) < 5 * np.sqrt(np.diag(covariance) / len(functions)))


def test_resampled_functions_have_the_covariance_of_the_exact_posterior(functions):
    # A few noisy observations near a target leave a little of its variance undecided: the rest is what the draws have.
    _, covariance = exact_posterior()
    scale = np.sqrt(np.diag(covariance))
    found = np.cov(functions.T) / np.outer(scale, scale)
    np.testing.assert_allclose(found, covariance / np.outer(scale, scale), atol=0.15)


def test_the_chain_rule_is_the_exact_joint_density_in_any_order():
    context = PointSet.observed(X_CONTEXT, Y_CONTEXT)
    y = np.array([[0.2], [0.1], [-0.5], [0.4], [1.0]], np.float32)
    points = PointSet.observed(X_TARGET, y)
    mean, covariance = exact_posterior()
    covariance = covariance + NOISE**2 * np.eye(5)
    error = y[:, 0] - mean
    wanted = -0.5 * (error @ np.linalg.solve(covariance, error) + np.linalg.slogdet(2 * np.pi * covariance)[1])
    for seed in range(3):
        order = jax.random.permutation(jax.random.key(seed), 5)
        found = chain_log_prob(ExactProcess(), context, points, order, key=jax.random.key(seed), num_samples=1)
        np.testing.assert_allclose(found, wanted, rtol=1e-3)
    padded = jax.tree.map(lambda leaf: jnp.concatenate([leaf, jnp.zeros((3, *leaf.shape[1:]), leaf.dtype)]), points)
    found = chain_log_prob(ExactProcess(), context, padded, jnp.arange(8), key=jax.random.key(9), num_samples=1)
    np.testing.assert_allclose(found, wanted, rtol=1e-3)


def test_the_chain_rule_predicts_each_point_from_those_before_it():
    """A network, unlike an exact process, gives each order a density of its own."""
    model, y = small_model("cnp"), np.array([[0.2], [0.1], [-0.5], [0.4], [1.0]], np.float32)
    context, points = PointSet.observed(X_CONTEXT, Y_CONTEXT), PointSet.observed(X_TARGET, y)
    order = np.array([2, 0, 4, 1, 3])
    x_all, y_all = np.concatenate([X_CONTEXT, X_TARGET[order]]), np.concatenate([Y_CONTEXT, y[order]])
    wanted = sum(
        model.predict_given(PointSet.observed(x_all[:number], y_all[:number]), jnp.asarray(x_all[number : number + 1]), None)
        .log_prob(jnp.asarray(y_all[number : number + 1]))
        .item()
        for number in range(3, 8)
    )
    chain = eqx.filter_jit(chain_log_prob)
    found, reverse = (
        chain(model, context, points, jnp.asarray(way), key=jax.random.key(0), num_samples=1) for way in (order, order[::-1])
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert abs(reverse - found) > 1e-3


@pytest.mark.parametrize("name", MODELS)
def test_appending_a_point_is_encoding_all_points_anew(name):
    model, context = small_model(name), PointSet.observed(X_CONTEXT, Y_CONTEXT)
    inputs = jnp.asarray(spread_inputs(2, 4, -np.ones(1), np.ones(1), np.random.default_rng(1)), jnp.float32)
    completed = eqx.filter_jit(complete_contexts)(model, context, inputs, 4, key=jax.random.key(3))
    assert completed.mask.shape == (2, 7) and completed.mask.all()
    np.testing.assert_array_equal(completed.x[:, 3:], inputs)
    np.testing.assert_array_equal(completed.y[:, :3], np.broadcast_to(Y_CONTEXT, (2, 3, 1)))

    @eqx.filter_jit
    def by_hand(model, x_future, key):
        y_future = jnp.zeros((4, 1))
        for number, step_key in enumerate(jax.random.split(key, 4)):
            noise_key, output_key = jax.random.split(step_key)
            before = context.union(PointSet(x_future, y_future, jnp.arange(4) < number))
            noise = model.draw_noise(before, 1, key=noise_key)
            (y,) = model.predict_given(before, x_future[number][None], noise).sample(1, key=output_key, noise=True)
            y_future = y_future.at[number].set(y[0])
        return y_future

    keys = jax.random.split(jax.random.key(3), 2)
    for draw in range(2):
        np.testing.assert_allclose(completed.y[draw, 3:], by_hand(model, inputs[draw], keys[draw]), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["cnp", "mpanp", "tnp"])
def test_padded_inputs_are_never_observed(name):
    model, context = small_model(name), PointSet.observed(X_CONTEXT, Y_CONTEXT)
    inputs = jnp.asarray(spread_inputs(2, 6, -np.ones(1), np.ones(1), np.random.default_rng(1)), jnp.float32)
    complete = eqx.filter_jit(complete_contexts)
    four, all_six = (complete(model, context, inputs, jnp.asarray(num), key=jax.random.key(3)) for num in (4, 6))
    np.testing.assert_array_equal(four.mask, np.tile(np.arange(9) < 7, (2, 1)))
    np.testing.assert_array_equal(four.y[:, :7], all_six.y[:, :7])


def test_padding_of_the_context_changes_no_function():
    context = PointSet.observed(X_CONTEXT, Y_CONTEXT)
    inputs = jnp.asarray(spread_inputs(2, 4, -np.ones(1), np.ones(1), np.random.default_rng(1)), jnp.float32)

    def draw(context):
        return complete_contexts(ExactProcess(), context, inputs, 4, key=jax.random.key(3)).y[:, -4:]

    padded = jax.tree.map(jnp.asarray, pad_points(context, 8))
    np.testing.assert_allclose(draw(padded), draw(context), rtol=1e-3, atol=1e-4)


def test_inputs_fill_the_box_evenly():
    low, high = np.array([-1.0, 5.0]), np.array([3.0, 6.0])
    rows = spread_inputs(50, 16, low, high, np.random.default_rng(0))
    assert rows.shape == (50, 16, 2) and (rows >= low).all() and (rows <= high).all()
    cells = np.sort(np.floor((rows[..., 0] - low[0]) / (high[0] - low[0]) * 16), axis=1)
    np.testing.assert_array_equal(cells, np.broadcast_to(np.arange(16), (50, 16)))


def test_scattered_observations_come_in_random_order():
    rng, x = np.random.default_rng(2), np.arange(6.0)[:, None]
    orders = Scattered().orders(x, 500, rng)
    np.testing.assert_array_equal(np.sort(orders), np.tile(np.arange(6), (500, 1)))
    np.testing.assert_allclose(orders.mean(axis=0), np.full(6, 2.5), atol=0.35)


def test_forecasts_start_after_the_last_observation_and_ascend():
    low, high, x_context = np.zeros(2), np.full(2, 9.0), np.array([[4.0, 1.0], [2.0, 8.0]])

    def place(x_context):
        return Forecast().place(3, 5, x_context, Box(low, high, (None, None)), np.random.default_rng(3))

    rows = place(x_context)
    assert rows.shape == (3, 5, 2) and rows[..., 0].min() >= 4 and rows[..., 1].min() < 4
    for nothing_ahead in (np.empty((0, 2)), np.array([[9.0, 1.0]])):
        assert place(nothing_ahead)[..., 0].min() < 4
    arranged = Forecast().arrange(rows, np.random.default_rng(4))
    np.testing.assert_array_equal(arranged[..., 0], np.sort(rows[..., 0]))
    np.testing.assert_array_equal(np.sort(arranged[..., 1]), np.sort(rows[..., 1]))


def test_models_of_images_imagine_pixels_each_at_most_once():
    design = find_design({"task": "mnist"})
    box, seen = Box(np.full(2, -0.5), np.full(2, 0.5), (None, None)), positions(28, 28)[:700].astype(float)
    rows = design.place(4, 30, seen, box, np.random.default_rng(5))
    assert rows.shape == (4, 30, 2)
    pixels = {tuple(pixel) for pixel in positions(28, 28)[700:]}
    for draw in rows.astype(np.float32):
        assert len({tuple(pixel) for pixel in draw} & pixels) == 30
    assert {tuple(pixel) for pixel in rows[0]} != {tuple(pixel) for pixel in rows[1]}
    assert find_design({"task": "rbf"}) == find_design({}) == find_design({"context": "random"})


# In the user's units


@pytest.mark.parametrize("name", ["cnp", "canp", "np", "bnp", "mpanp", "tnp"])
def test_functions_are_decided_by_their_seed_at_any_rows(name):
    posterior = fitted(name, CURVES).condition(*CURVES.pair(3))
    draws = posterior.sample(GRID, 4, seed=7)
    np.testing.assert_array_equal(posterior.sample(GRID, 4, seed=7), draws)
    np.testing.assert_allclose(posterior.sample(GRID[[2, 5]], 4, seed=7), draws[:, [2, 5]], rtol=1e-4)
    assert np.abs(posterior.sample(GRID, 4, seed=8) - draws).max() > 1e-3
    assert len(np.unique(draws, axis=0)) == 4


def test_one_row_and_thousands_have_the_same_functions():
    posterior, many = fitted("canp", CURVES).condition(*CURVES.pair(3)), np.linspace(12, 46, 3_000)
    draws = posterior.sample(many, 2, seed=7)
    assert draws.shape == (2, 3_000) and np.isfinite(draws).all()
    np.testing.assert_allclose(posterior.sample(many[1_234:1_235], 2, seed=7), draws[:, [1_234]], rtol=1e-4)


def test_outside_the_training_range_functions_are_drawn_with_a_warning():
    posterior = fitted("canp", CURVES).condition(*CURVES.pair(3))
    with pytest.warns(OutsideRangeWarning, match="1 of 2 rows lie outside the training range"):
        assert np.isfinite(posterior.sample([20.0, 60.0], 2)).all()
    inputs = posterior.model.resampler.place(posterior.x, np.array([[20.0], [90.0]]), 4, 10, np.random.default_rng(0))
    within = posterior.model.resampler.place(posterior.x, np.array([[20.0]]), 4, 10, np.random.default_rng(0))
    assert inputs.max() > within.max() + 0.5


def test_missing_inputs_are_refused():
    posterior = fitted("canp", CURVES).condition(*CURVES.pair(3))
    for ask in (posterior.sample, posterior.between_std, lambda x: posterior.joint_log_prob(x, [300.0, 301.0])):
        with pytest.raises(InputError, match="column 'x' is missing in row 1"):
            ask([20.0, np.nan])


def test_observations_scatter_around_functions_by_the_noise():
    posterior = fitted("canp", CURVES).condition(*CURVES.pair(3))
    functions, observations = (posterior.sample(GRID, 300, seed=3, noise=noise) for noise in (False, True))
    np.testing.assert_allclose((observations - functions).std(axis=0), posterior.within_std(GRID), rtol=0.2)
    np.testing.assert_allclose(functions.std(axis=0), posterior.between_std(GRID), rtol=0.4)


@pytest.mark.parametrize("missing", [False, True])
def test_several_outputs_and_an_empty_context_work(missing):
    curves = some_curves(outputs=2, missing=missing)
    model = fitted("mpnp", curves)
    assert model.condition(*curves.pair(4)).sample(GRID, 3).shape == (3, 9, 2)
    assert np.isfinite(model.condition().sample(GRID, 3)).all()
    x, y = curves.pair(5)
    assert np.isfinite(model.condition(*curves.pair(4)).joint_log_prob(x, y))


def test_the_density_of_all_rows_changes_with_units_by_the_jacobian():
    x, y = CURVES.pair(4)
    posterior = fitted("canp", CURVES).condition(*CURVES.pair(3))
    alone = posterior.log_prob(x[:1], y[:1])[0]
    np.testing.assert_allclose(posterior.joint_log_prob(x[:1], y[:1]), alone, rtol=1e-4)


def test_models_that_continue_curves_observe_the_future_in_order():
    model = fitted("canp", CURVES)
    about = {**model.card.about, "context": "prefix"}
    model = FittedModel(model.network, dataclasses.replace(model.card, about=about))
    (x, y), (later, outputs) = CURVES.pair(3), CURVES.pair(4)
    posterior = model.condition(x[:4], y[:4])
    ascending = np.argsort(later[:, 0])[:5]
    by_hand, growing = 0.0, posterior
    for row in ascending:
        by_hand += growing.log_prob(later[[row]], outputs[[row]])[0]
        growing = growing.add(later[[row]], outputs[[row]])
    found = posterior.joint_log_prob(later[ascending[::-1]], outputs[ascending[::-1]])
    np.testing.assert_allclose(found, by_hand, rtol=1e-4)


def test_a_user_may_say_where_future_observations_lie():
    posterior, asked = fitted("canp", CURVES).condition(*CURVES.pair(3)), []

    def inputs(rng, num):
        asked.append(num)
        return rng.uniform(20, 30, num)

    assert posterior.sample(GRID, 2, num_future=5, future_inputs=inputs).shape == (2, 9)
    assert set(asked) == {5}
    with pytest.raises(InputError, match=r"future_inputs must return finite numbers of shape \(5, 1\), got shape \(4,\)"):
        posterior.sample(GRID, 2, num_future=5, future_inputs=lambda rng, num: np.ones(num - 1))


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (lambda rng, num: np.full(num, np.nan), "what future_inputs returned must be finite"),
        (lambda rng, num: "soon", "what future_inputs returned must hold numbers"),
    ],
)
def test_future_inputs_that_are_none_are_refused(returned, words):
    posterior = fitted("canp", CURVES).condition(*CURVES.pair(3))
    with pytest.raises(InputError, match=words):
        posterior.sample(GRID, 2, num_future=5, future_inputs=returned)


def test_questions_without_rows_or_a_future_are_refused():
    posterior = fitted("mpnp", CURVES).condition(*CURVES.pair(3))
    for draw in (posterior.sample, posterior.between_std, lambda x: posterior.functional(max, x)):
        with pytest.raises(InputError, match="there are no rows to draw functions at"):
            draw([])
    with pytest.raises(InputError, match="belong to method='resample'"):
        posterior.sample(GRID, 2, method="generate", num_future=5)


@pytest.mark.parametrize("num_future", [0, -1, 10_000])
def test_too_few_or_too_many_future_observations_are_refused(num_future):
    posterior = fitted("canp", CURVES).condition(*CURVES.pair(3))
    with pytest.raises(InputError, match="num_future must"):
        posterior.sample(GRID, 2, num_future=num_future)


def test_unknown_methods_are_refused_with_a_suggestion():
    posterior = fitted("canp", CURVES).condition(*CURVES.pair(3))
    with pytest.raises(InputError, match=r"unknown method 'resampled'\. Did you mean 'resample'"):
        posterior.sample(GRID, 2, method="resampled")
    with pytest.raises(InputError, match=r"unknown method 'chained'\. Did you mean 'chain'"):
        posterior.joint_log_prob(*CURVES.pair(4), method="chained")


def test_as_many_observations_are_imagined_as_training_contexts_have_up_to_a_bound():
    domain = fitted("canp", CURVES).card.seen
    assert domain.largest_context == 10
    sizes = [dataclasses.replace(domain, largest_context=size) for size in (3, 10, 24, 30, 197)]
    assert [choose_num_future(size) for size in sizes] == [10, 10, 24, 30, 30]
