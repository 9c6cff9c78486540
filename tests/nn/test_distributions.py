"""Laws of every likelihood's distribution, on JAX and on NumPy arrays, against SciPy's."""

import pkgutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from helpers.toy_likelihood import Logistic
from mpnp.models.registry import LIKELIHOODS
from mpnp.nn.likelihoods.distribution import namespace
from mpnp.nn.likelihoods.predictive import Predictive

DISTRIBUTIONS = [*(pkgutil.resolve_name(path)() for path in LIKELIHOODS.values()), Logistic()]
SCIPY = {
    each: getattr(stats, {"Gaussian": "norm"}.get(type(each).__name__, type(each).__name__.lower())) for each in DISTRIBUTIONS
}
GRID = np.linspace(-6, 6, 49)

pytestmark = pytest.mark.parametrize("distribution", SCIPY, ids=lambda distribution: type(distribution).__name__)


@pytest.mark.parametrize("asarray", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
def test_formulas_are_scipys(distribution, asarray):
    reference, z, levels = SCIPY[distribution], asarray(GRID), asarray(np.linspace(0.01, 0.99, 21))
    found = distribution.log_density(z), distribution.cdf(z), distribution.quantile(levels)
    wanted = reference.logpdf(GRID), reference.cdf(GRID), reference.ppf(np.linspace(0.01, 0.99, 21))
    rtol = 1e-12 if asarray is np.asarray else 1e-4
    for got, expected in zip(found, wanted, strict=True):
        assert namespace(got) is (np if asarray is np.asarray else jnp)
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=1e-6 if rtol > 1e-6 else 1e-13)
    np.testing.assert_allclose(distribution.std, reference.std(), rtol=1e-12)


def test_mean_distances_are_integrals(distribution):
    reference = SCIPY[distribution]
    for shift in (-3.0, -0.2, 0.0, 1.5):
        wanted = integrate.quad(
            lambda z, shift=shift: abs(shift + 0.7 * z) * reference.pdf(z), -60, 60, points=[0, -shift / 0.7]
        )
        np.testing.assert_allclose(distribution.mean_absolute(np.array([shift]), np.array([0.7])), wanted[0], rtol=1e-6)
        for other in (0.2, 0.7, 0.7001, 2.0):
            distances = [distribution.mean_absolute(np.array([shift - other * z]), np.array([0.7]))[0] for z in Z]
            found = distribution.mean_absolute_difference(np.array([shift]), np.array([0.7]), np.array([other]))
            np.testing.assert_allclose(found, np.trapezoid(distances * reference.pdf(Z), Z), rtol=2e-3)


Z = np.linspace(-40, 40, 8_001)


def test_draws_have_the_distribution(distribution):
    draws = distribution.sample((5_000,), jnp.dtype("float32"), key=jax.random.key(0))
    assert stats.kstest(np.asarray(draws), SCIPY[distribution].cdf).pvalue > 1e-3


def test_equal_likelihoods_share_compiled_programs(distribution):
    assert type(distribution)() == distribution and hash(type(distribution)()) == hash(distribution)
    assert sum(distribution == other for other in SCIPY) == 1


def test_predictions_in_double_precision_agree_with_those_of_jax(distribution):
    rng = np.random.default_rng(0)
    loc, scale, y = rng.normal(size=(4, 5, 2)), rng.uniform(0.1, 1, (4, 5, 2)), rng.normal(size=(5, 2))
    fine = Predictive(loc, scale, distribution)
    coarse = Predictive(jnp.asarray(loc, jnp.float32), jnp.asarray(scale, jnp.float32), distribution)
    for name in ("log_prob", "cdf", "crps"):
        np.testing.assert_allclose(getattr(coarse, name)(jnp.asarray(y)), getattr(fine, name)(y), rtol=1e-3, atol=1e-4)
    for name in ("mean", "std", "between_std", "within_std"):
        np.testing.assert_allclose(getattr(coarse, name), getattr(fine, name), rtol=1e-4, atol=1e-5)
    for level in (0.05, 0.5, 0.9):
        np.testing.assert_allclose(fine.cdf(np.asarray(fine.quantile(level))), level, rtol=1e-9)
        np.testing.assert_allclose(coarse.quantile(level), fine.quantile(level), rtol=1e-3, atol=1e-4)
    assert np.asarray(fine.std).dtype == np.float64 and fine.joint_log_prob(y, np.ones(5, bool)) < 0


def test_crps_of_a_mixture_is_the_integral_that_defines_it(distribution):
    loc, scale, y = np.array([[[-1.0]], [[0.5]]]), np.array([[[0.3]], [[0.8]]]), np.array([[0.2]])
    predictive, grid = Predictive(loc, scale, distribution), np.linspace(-30, 30, 60_001)
    cdf = SCIPY[distribution].cdf((grid - loc) / scale).mean(axis=(0, 1))
    wanted = np.trapezoid((cdf - (grid >= 0.2)) ** 2, grid)
    np.testing.assert_allclose(predictive.crps(y), wanted, rtol=2e-3)
