"""Folding finds periods, and depends on differences of inputs only."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.numpy_networks import folded_features
from mpnp.nn.folding import cycles, evidence, fold, num_features, summarise

NUM_PERIODS = 80
FREQUENCIES = cycles(NUM_PERIODS, 1)


def points(seed, num_points, y_dim=1):
    rng = np.random.default_rng(seed)
    return rng.uniform(-2, 2, (num_points, 1)).astype(np.float32), rng.normal(size=(num_points, y_dim)).astype(np.float32)


def summary(x, y, weights, x_target):
    return summarise([fold(FREQUENCIES, *map(jnp.asarray, (x, y, weights, x_target)))])


@pytest.mark.parametrize("frequency", [1.0, 3.3, 7.1])
def test_the_frequency_of_a_wave_has_the_largest_evidence(frequency):
    x, _ = points(0, 40)
    found = evidence(FREQUENCIES, jnp.asarray(x), jnp.sin(2 * np.pi * frequency * x + 0.4), jnp.ones(40))
    best = FREQUENCIES[np.argmax(found, axis=-1), 0] / (2 * np.pi)
    assert np.all(np.abs(best - frequency) < 0.13), best


def test_noise_has_little_evidence_beside_a_wave():
    x, noise = points(1, 40)
    of_noise = evidence(FREQUENCIES, jnp.asarray(x), jnp.asarray(noise), jnp.ones(40))
    of_wave = evidence(FREQUENCIES, jnp.asarray(x), jnp.sin(20 * x), jnp.ones(40))
    assert of_wave.max() > 3 * of_noise.max()


def test_a_wave_is_predicted_far_from_its_observations():
    x, _ = points(2, 40)
    target, speed = jnp.linspace(4, 6, 30)[:, None], FREQUENCIES[30, 0]
    mean = summary(x, np.sin(speed * x), np.ones(40), target)[:, 5]
    error = np.sqrt(np.mean((np.asarray(mean) - np.sin(speed * target[:, 0])) ** 2))
    assert error < 0.4 * np.sqrt(0.5)


@pytest.mark.parametrize("y_dim", [1, 2])
def test_features_agree_with_loops_over_points_frequencies_and_targets(y_dim):
    (x, y), target = points(3, 7, y_dim), points(4, 5)[0]
    weights = np.array([1, 1, 2, 1, 1, 0.5, 1], np.float32)
    frequencies = cycles(6, 1)
    got = summarise([fold(frequencies, *map(jnp.asarray, (x, y, weights, target)))])
    assert got.shape == (5, num_features(y_dim))
    np.testing.assert_allclose(got, folded_features(6, *map(np.float64, (x, y, weights, target))), rtol=2e-3, atol=2e-4)


def test_moving_all_points_together_changes_nothing():
    (x, y), target = points(5, 12), points(6, 5)[0]
    before, after = (summary(x + move, y, np.ones(12), target + move) for move in (0.0, 0.75))
    np.testing.assert_allclose(before, after, rtol=1e-2, atol=1e-3)


def test_a_point_of_weight_two_counts_as_two_points():
    (x, y), target = points(7, 9), points(8, 4)[0]
    weights = np.ones(9, np.float32)
    weights[3] = 2
    twice = summary(np.concatenate([x, x[3:4]]), np.concatenate([y, y[3:4]]), np.ones(10), target)
    np.testing.assert_allclose(summary(x, y, weights, target), twice, rtol=1e-4, atol=1e-5)


def test_points_of_weight_zero_do_not_count():
    (x, y), target = points(9, 9), points(10, 4)[0]
    weights = (np.arange(9) < 6).astype(np.float32)
    np.testing.assert_allclose(summary(x, y, weights, target), summary(x[:6], y[:6], np.ones(6), target), rtol=1e-4, atol=1e-5)


def test_an_empty_set_adds_nothing_to_a_union():
    (x, y), target = points(11, 9), points(12, 4)[0]
    own = fold(FREQUENCIES, *map(jnp.asarray, (x, y, np.ones(9), target)))
    none = fold(FREQUENCIES, *map(jnp.asarray, (x, y, np.zeros(9), target)))
    np.testing.assert_allclose(summarise([own, none]), summarise([own]), rtol=1e-6)


def test_without_observations_features_and_gradients_are_finite():
    x, y = points(13, 5)
    target = points(14, 3)[0]

    def total(target):
        return summarise([fold(FREQUENCIES, jnp.asarray(x), jnp.asarray(y), jnp.zeros(5), target)]).sum()

    assert np.isfinite(total(jnp.asarray(target))) and np.all(np.isfinite(jax.grad(total)(jnp.asarray(target))))


def test_several_inputs_are_folded_along_each():
    rng = np.random.default_rng(15)
    x = rng.uniform(-2, 2, (60, 2)).astype(np.float32)
    found = evidence(cycles(NUM_PERIODS, 2), jnp.asarray(x), jnp.sin(2 * np.pi * 3.0 * x[:, 1:]), jnp.ones(60))
    assert np.all(np.abs(np.argmax(found, axis=-1) - NUM_PERIODS - (3.0 - 0.5) / 10 * 79) < 1)
