"""A prediction is an equal mixture of Gaussians, and everything it reports follows from that."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from helpers.mixtures import component_densities, integrated_crps, mixture_cdf
from mpnp import Predictive
from mpnp.nn.likelihoods.predictive import log_mean_exp

NUM_SAMPLES, NUM_TARGETS = 4, 5
# Compiled, they serve every level and every test with arrays of the same shape.
quantile, crps = eqx.filter_jit(Predictive.quantile), eqx.filter_jit(Predictive.crps)
LEVELS = pytest.mark.parametrize("level", [0.01, 0.1, 0.3, 0.6, 0.9, 0.99])


def random_predictive(y_dim: int = 1, *, num_samples: int = NUM_SAMPLES, spread: float = 1.0) -> Predictive:
    rng = np.random.default_rng(0)
    shape = (num_samples, NUM_TARGETS, y_dim)
    loc, scale = spread * rng.normal(size=shape), rng.uniform(0.1, 1.0, shape)
    return Predictive(jnp.asarray(loc, jnp.float32), jnp.asarray(scale, jnp.float32))


def random_outputs(y_dim: int = 1) -> jax.Array:
    return jnp.asarray(np.random.default_rng(1).normal(size=(NUM_TARGETS, y_dim)), jnp.float32)


def far_apart() -> Predictive:
    """Components with nothing but empty space between them."""
    loc = jnp.array([-50.0, 0.0, 9.0, 80.0])[:, None, None]
    return Predictive(loc, jnp.array([0.1, 0.5, 0.1, 2.0])[:, None, None])


MIXTURES = pytest.mark.parametrize("predictive", [random_predictive(2), far_apart()], ids=["random", "far apart"])


@pytest.mark.parametrize("y_dim", [1, 3])
def test_log_prob_is_the_mixtures_log_density_at_each_point(y_dim):
    predictive, y = random_predictive(y_dim), random_outputs(y_dim)
    wanted = np.log(np.exp(component_densities(predictive, y)).mean(axis=0))
    np.testing.assert_allclose(predictive.log_prob(y), wanted, rtol=1e-4)


@pytest.mark.parametrize("y_dim", [1, 3])
def test_joint_log_prob_mixes_functions_not_points(y_dim):
    predictive, y = random_predictive(y_dim), random_outputs(y_dim)
    mask = np.array([True, False, True, True, False])
    wanted = logsumexp(component_densities(predictive, y)[:, mask].sum(axis=1)) - np.log(NUM_SAMPLES)
    np.testing.assert_allclose(predictive.joint_log_prob(y, jnp.asarray(mask)), wanted, rtol=1e-4)
    assert not np.isclose(wanted, predictive.log_prob(y)[mask].sum(), rtol=1e-2)


def test_joint_log_prob_ignores_what_lies_outside_the_mask():
    predictive, mask = random_predictive(), jnp.arange(NUM_TARGETS) < 2
    values = [predictive.joint_log_prob(random_outputs().at[2:].set(junk), mask) for junk in (0.0, 1e9, jnp.inf)]
    assert values[0] == values[1] == values[2]


def test_one_functions_joint_density_is_the_product_of_its_marginals():
    predictive, y = random_predictive(2, num_samples=1), random_outputs(2)
    joint = predictive.joint_log_prob(y, jnp.ones(NUM_TARGETS, bool))
    np.testing.assert_allclose(joint, predictive.log_prob(y).sum(), rtol=1e-5)


def test_the_joint_density_of_one_point_is_its_marginal():
    predictive, y = random_predictive(), random_outputs()
    joint = [predictive.joint_log_prob(y, jnp.arange(NUM_TARGETS) == point) for point in range(NUM_TARGETS)]
    np.testing.assert_allclose(joint, predictive.log_prob(y), rtol=1e-5)


def test_mean_and_std_are_the_moments_of_the_mixture():
    predictive = random_predictive(2)
    loc, scale = np.asarray(predictive.loc, np.float64), np.asarray(predictive.scale, np.float64)
    first, second = loc.mean(axis=0), (loc**2 + scale**2).mean(axis=0)
    np.testing.assert_allclose(predictive.mean, first, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(predictive.std, np.sqrt(second - first**2), rtol=1e-5)


def test_variance_is_what_lies_between_functions_plus_what_lies_within():
    predictive = random_predictive(2)
    np.testing.assert_allclose(predictive.between_std**2, np.var(np.asarray(predictive.loc), axis=0), rtol=1e-5)
    np.testing.assert_allclose(predictive.within_std**2, np.mean(np.asarray(predictive.scale) ** 2, axis=0), rtol=1e-5)
    np.testing.assert_allclose(predictive.std**2, predictive.between_std**2 + predictive.within_std**2, rtol=1e-5)


def test_one_function_has_no_spread_between():
    predictive = random_predictive(num_samples=1)
    assert not np.any(predictive.between_std)
    np.testing.assert_allclose(predictive.std, predictive.scale[0], rtol=1e-6)


def test_cdf_is_the_mean_of_the_components_cdfs():
    predictive, y = random_predictive(2), random_outputs(2)
    np.testing.assert_allclose(predictive.cdf(y), mixture_cdf(predictive, np.asarray(y)[None])[0], rtol=1e-4, atol=1e-6)


@LEVELS
@MIXTURES
def test_the_cdf_of_a_quantile_is_its_level(predictive, level):
    np.testing.assert_allclose(predictive.cdf(quantile(predictive, jnp.asarray(level))), level, atol=1e-4)


@MIXTURES
def test_the_quantile_of_a_cdf_is_its_value(predictive):
    value = predictive.loc[1] + 0.3 * predictive.scale[1]
    levels = predictive.cdf(value)
    for position in np.ndindex(levels.shape):
        np.testing.assert_allclose(quantile(predictive, levels[position])[position], value[position], rtol=1e-3, atol=1e-3)


@LEVELS
def test_the_quantile_of_one_component_is_the_normals(level):
    predictive = random_predictive(num_samples=1)
    wanted = stats.norm.ppf(level, np.asarray(predictive.loc[0]), np.asarray(predictive.scale[0]))
    np.testing.assert_allclose(quantile(predictive, jnp.asarray(level)), wanted, rtol=1e-5, atol=1e-5)


def test_a_level_may_be_a_plain_number():
    predictive = far_apart()
    np.testing.assert_allclose(predictive.quantile(0.3), quantile(predictive, jnp.asarray(0.3)), rtol=1e-6)


@pytest.mark.parametrize("num_samples, spread", [(1, 1.0), (NUM_SAMPLES, 1.0), (NUM_SAMPLES, 10.0)])
def test_crps_is_the_integral_that_defines_it(num_samples, spread):
    predictive, y = random_predictive(2, num_samples=num_samples, spread=spread), random_outputs(2)
    np.testing.assert_allclose(crps(predictive, y), integrated_crps(predictive, y), rtol=1e-3, atol=1e-3)


def test_crps_of_one_gaussian_is_its_closed_form():
    predictive, y = random_predictive(num_samples=1), random_outputs()
    loc, scale = np.asarray(predictive.loc[0], np.float64), np.asarray(predictive.scale[0], np.float64)
    z = (np.asarray(y) - loc) / scale
    wanted = scale * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    np.testing.assert_allclose(crps(predictive, y), wanted, rtol=1e-4)


def test_crps_of_a_sure_prediction_is_the_error():
    predictive, y = Predictive(jnp.full((3, NUM_TARGETS, 1), 2.0), jnp.full((3, NUM_TARGETS, 1), 1e-6)), random_outputs()
    np.testing.assert_allclose(crps(predictive, y), np.abs(np.asarray(y) - 2), rtol=1e-5)


def test_a_noise_free_draw_follows_one_function_over_all_targets():
    predictive, num = random_predictive(2), 2000
    draws = predictive.sample(num, key=jax.random.key(0))
    follows = (draws[:, None] == predictive.loc[None]).all(axis=(2, 3))
    np.testing.assert_array_equal(follows.sum(axis=1), 1)
    assert stats.chisquare(follows.sum(axis=0)).pvalue > 1e-3


def test_draws_with_noise_have_the_mixtures_moments():
    predictive, num = random_predictive(2), 20_000
    draws = np.asarray(predictive.sample(num, key=jax.random.key(0), noise=True))
    assert draws.shape == (num, NUM_TARGETS, 2)
    standard_error = draws.std(axis=0) / np.sqrt(num)
    assert np.all(np.abs(draws.mean(axis=0) - predictive.mean) < 4 * standard_error)
    np.testing.assert_allclose(draws.std(axis=0), predictive.std, rtol=0.03)


def test_a_draws_noise_is_that_of_the_function_it_follows():
    predictive = far_apart()
    draws = predictive.sample(20_000, key=jax.random.key(0), noise=True)
    error = np.asarray(draws - predictive.loc[:, None])[..., 0, 0]
    followed = np.abs(error).argmin(axis=0)
    for component, scale in enumerate(np.ravel(predictive.scale)):
        np.testing.assert_allclose(error[component, followed == component].std(), scale, rtol=0.1)


def test_noise_is_independent_over_targets_and_outputs_given_the_function():
    predictive, num = random_predictive(2, num_samples=1), 20_000
    draws = np.asarray(predictive.sample(num, key=jax.random.key(0), noise=True)).reshape(num, -1)
    correlation = np.corrcoef(draws, rowvar=False)
    assert np.abs(correlation - np.eye(len(correlation))).max() < 4 / np.sqrt(num)


def test_the_key_decides_the_draws():
    predictive = random_predictive()
    first, again, other = (predictive.sample(20, key=jax.random.key(seed), noise=True) for seed in (0, 0, 1))
    np.testing.assert_array_equal(again, first)
    assert not np.any(other == first)


@pytest.mark.parametrize("value", [-1e4, 0.0, 1e4])
def test_the_log_mean_exp_of_equal_values_is_their_value(value):
    np.testing.assert_allclose(log_mean_exp(jnp.full((7, 2), value)), [value, value], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("offset", [-1e4, 0.0, 1e3])
def test_log_mean_exp_neither_underflows_nor_overflows(offset):
    values = jnp.array([1.0, 3.0, 8.0])
    np.testing.assert_allclose(log_mean_exp(offset + jnp.log(values)), offset + np.log(4), rtol=1e-6, atol=2e-3)


def test_an_impossible_component_only_dilutes_the_others():
    np.testing.assert_allclose(log_mean_exp(jnp.array([-jnp.inf, 0.0])), -np.log(2), rtol=1e-6)
