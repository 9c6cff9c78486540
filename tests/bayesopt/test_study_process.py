"""The process that learns from past searches: its parameters, its posterior and what it refuses."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from mpnp.bayesopt.study_process import NODE_WEIGHTS, NODES, ProcessOfSearches, _covariance, _noise_variance, _surface
from mpnp.errors import InputError

NOISE = 0.1
SEEDS = np.zeros(1, np.uint32)


def bowls(count, points=12, seed=0):
    """Quadratic functions of two inputs whose coefficients differ, with noise."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        x = rng.random((points, 2))
        coefficients = rng.normal([1.0, -0.5, 0.0, 0.8, 0.0, 0.3], [0.5, 0.3, 0.3, 0.05, 0.05, 0.05])
        yield x, _surface(x) @ coefficients + rng.normal(0, NOISE, points)


@pytest.fixture(scope="module")
def process():
    return ProcessOfSearches(list(bowls(60)))


def test_what_functions_have_in_common_is_learnt(process):
    learnt = process.parameters
    np.testing.assert_allclose(learnt["mean"], [1.0, -0.5, 0.0, 0.8, 0.0, 0.3], atol=0.2)
    assert np.exp(learnt["noise"]) == pytest.approx(NOISE, rel=0.3)
    asked = np.random.default_rng(2).random((5, 2))
    _, std = process.moments(asked[None, :0], np.zeros((1, 0)), asked, SEEDS)
    spread = np.array([0.5, 0.3, 0.3, 0.05, 0.05, 0.05])
    np.testing.assert_allclose(std[0], np.sqrt(_surface(asked) ** 2 @ spread**2), rtol=0.25)


def test_it_predicts_new_functions_from_few_points(process):
    x, z = next(bowls(1, points=400, seed=1))
    given, std = process.moments(x[None, :8], z[None, :8], x[8:], SEEDS)
    assert np.std(z[8:] - given[0]) < 2 * NOISE
    assert np.mean(np.abs(z[8:] - given[0]) < 2 * np.hypot(std[0], NOISE)) > 0.85


def test_predictions_one_after_another_are_the_joint_distribution(process):
    x, z = next(bowls(1, points=6, seed=2))
    chain = sum(process.log_density(x[:count], z[:count], x[count], float(z[count])) for count in range(6))
    p = process.parameters
    inner, mean = _covariance(p, x, x) + _noise_variance(p) * np.eye(6), _surface(x) @ p["mean"]
    scales = np.exp(NODES * np.exp(p["scales"]))
    parts = [multivariate_normal(scale * mean, scale**2 * inner).logpdf(z) for scale in scales]
    assert chain == pytest.approx(logsumexp(parts, b=NODE_WEIGHTS / NODE_WEIGHTS.sum()), abs=1e-6)


def test_sampled_functions_have_the_posterior_moments(process):
    x, z = next(bowls(1, points=6, seed=2))
    asked = np.random.default_rng(3).random((4, 2))
    mean, std = process.moments(x[None], z[None], asked, SEEDS)
    draws = process.draw(np.tile(x, (2_000, 1, 1)), np.tile(z, (2_000, 1)), asked, np.arange(2_000))
    np.testing.assert_allclose(draws.mean(axis=0), mean[0], atol=4 * std.max() / np.sqrt(2_000))
    np.testing.assert_allclose(draws.std(axis=0), std[0], rtol=0.1)


def test_functions_of_another_scale_are_recognised():
    rng = np.random.default_rng(0)
    searches = [(x, np.exp(rng.normal(0, 0.5)) * z) for x, z in bowls(60)]
    process = ProcessOfSearches(searches)
    assert np.exp(process.parameters["scales"]) == pytest.approx(0.5, rel=0.5)
    x, z = next(bowls(1, points=10, seed=4))
    (_, small), (_, large) = (process.moments(x[None], factor * z[None], x, SEEDS) for factor in (0.5, 2.0))
    assert np.median(large / small) > 2


def test_searches_that_teach_nothing_are_refused(process):
    with pytest.raises(InputError, match="no past searches to learn from"):
        ProcessOfSearches([(np.zeros((0, 2)), np.zeros(0))])
    with pytest.raises(InputError, match="the bounds have 1 inputs, but past searches had 2"):
        process.require_inputs(1)
