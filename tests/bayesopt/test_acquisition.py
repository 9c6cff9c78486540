"""Acquisitions against integrals, closed forms and limits."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from mpnp.bayesopt.acquisition import expected_improvement, log_expected_improvement


@pytest.mark.parametrize(("mean", "std", "best"), [(0.3, 0.5, 0.0), (-1.0, 0.2, 0.4), (2.0, 0.7, -1.5), (0.0, 1.0, 0.0)])
def test_expected_improvement_is_an_integral(mean, std, best):
    wanted, _ = quad(
        lambda y: (best - y) * norm.pdf(y, mean, std), mean - 40 * std, best, points=[mean], epsabs=1e-14, limit=400
    )
    assert expected_improvement(np.array([mean]), np.array([std]), np.array([best]))[0] == pytest.approx(wanted, rel=1e-8)


def test_the_logarithm_agrees_with_the_closed_form_where_that_can_be_computed():
    z = np.linspace(-6, 8, 400)
    wanted = norm.pdf(z) + z * norm.cdf(z)
    got = np.exp(log_expected_improvement(-z, np.ones(1), np.zeros(1)))
    np.testing.assert_allclose(got, wanted, rtol=1e-6)
    np.testing.assert_array_equal(got, expected_improvement(-z, np.ones(1), np.zeros(1)))


def test_far_from_the_best_the_logarithm_is_finite_and_still_falls_without_a_step():
    mean = np.concatenate([np.linspace(0, 300, 3_001), np.geomspace(301, 1e150, 500)])
    values = log_expected_improvement(mean, np.ones(1), np.zeros(1))
    assert np.isfinite(values).all() and (np.diff(values) < 0).all()
    # Both formulas, on either side of where one hands over to the other, follow the known limit -z²/2 - 2 log z - log √2π.
    near = mean[(mean > 90) & (mean < 110)]
    limit = -(near**2) / 2 - 2 * np.log(near) - np.log(2 * np.pi) / 2 + np.log1p(-3 / near**2)
    np.testing.assert_allclose(log_expected_improvement(near, np.ones(1), np.zeros(1)), limit, rtol=0, atol=1e-6)


def test_without_spread_the_improvement_is_certain():
    got = expected_improvement(np.array([-2.0, 1.0]), np.zeros(2), np.zeros(2))
    np.testing.assert_array_equal(got, [2.0, 0.0])
