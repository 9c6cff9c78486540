"""The broad prior over curves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mpnp.tasks.curves import FARTHEST_OUTPUT, CurvePrior, CurveProcess, context_scale

NUM_TASKS = 400


@pytest.fixture(scope="module")
def tasks():
    return jax.jit(jax.vmap(CurvePrior().sample))(jax.random.split(jax.random.key(0), NUM_TASKS))


def test_outputs_are_standardised_by_the_context(tasks):
    """What a user's curve goes through before the network reads it: mean 0, deviation 1, unless a single point has none."""
    mask, y = np.asarray(tasks.context_mask), np.asarray(tasks.y[..., 0], np.float64)
    enough = mask.sum(axis=1) > 1
    assert 0.5 < enough.mean() < 0.9
    for task in np.flatnonzero(enough):
        seen = y[task][mask[task]]
        if np.abs(seen).max() < FARTHEST_OUTPUT / 2 and len(seen) == mask[task].sum():
            np.testing.assert_allclose([seen.mean(), seen.std()], [0, 1], atol=2e-3)


def test_sizes_and_inputs_are_those_of_the_protocol(tasks):
    prior = CurvePrior()
    sizes, targets = np.asarray(tasks.context_mask.sum(axis=1)), np.asarray(tasks.target_mask.sum(axis=1))
    assert (sizes.min(), sizes.max()) >= (0, 60) and sizes.max() <= prior.max_points * 3 // 4
    assert np.median(sizes) < 12 < sizes.mean()  # small contexts are as frequent as large ones
    assert targets.max() <= prior.max_points // 4
    used = np.asarray(tasks.context_mask | tasks.target_mask)
    x = np.asarray(tasks.x[..., 0])
    assert np.all(np.abs(x[used]) <= 2) and not np.any(x[~used])
    assert not np.any(np.asarray(tasks.context_mask & tasks.target_mask))
    assert np.isfinite(np.asarray(tasks.y)).all() and np.abs(np.asarray(tasks.y)).max() <= FARTHEST_OUTPUT


def test_some_tasks_forecast_and_others_interpolate(tasks):
    both = np.asarray((tasks.context_mask.sum(axis=1) > 2) & (tasks.target_mask.sum(axis=1) > 2))
    x = np.asarray(tasks.x[..., 0])
    last = np.max(x, axis=1, where=np.asarray(tasks.context_mask), initial=-np.inf)
    first = np.min(x, axis=1, where=np.asarray(tasks.target_mask), initial=np.inf)
    assert 0.15 < np.mean(first[both] > last[both]) < 0.45


def test_kernels_are_covariances():
    x = jnp.linspace(-2, 2, 30)
    matrices = jax.vmap(lambda key: CurveProcess().covariance(x, key))(jax.random.split(jax.random.key(1), 100))
    np.testing.assert_allclose(matrices, jnp.swapaxes(matrices, 1, 2), atol=1e-6)
    lowest, highest = (np.linalg.eigvalsh(np.asarray(matrices, np.float64))[:, at] for at in (0, -1))
    assert np.all(lowest > -1e-5 * highest)


def test_noise_is_relative_to_the_curve_and_drawn_apart_from_it():
    x, keys = jnp.linspace(-2, 2, 40), jax.random.split(jax.random.key(2), 200)
    curves, observations = jax.vmap(lambda key: CurveProcess()(x, key))(keys)
    noise = np.asarray(observations - curves)
    assert abs(np.corrcoef(noise.ravel(), np.asarray(curves).ravel())[0, 1]) < 0.05
    levels = noise.std(axis=1) / np.asarray(curves).std(axis=1)
    assert np.quantile(levels, 0.1) < 0.05 and np.quantile(levels, 0.9) > 0.3


@pytest.mark.parametrize(("values", "mean", "std"), [([], 0, 1), ([3.0], 3, 1), ([2.0, 2.0], 2, 1), ([1.0, 3.0], 2, 1)])
def test_the_scale_of_a_context_is_the_one_where_there_is_too_little_to_tell(values, mean, std):
    y = jnp.zeros((4, 1)).at[: len(values), 0].set(jnp.asarray(values, jnp.float32))
    got = context_scale(y, jnp.arange(4) < len(values))
    np.testing.assert_allclose(got, (mean, std), atol=1e-6)
