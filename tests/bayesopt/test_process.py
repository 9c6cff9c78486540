"""The fitted Gaussian process: its gradients, its fit, its warps, and what it says about noise."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import check_grad
from scipy.stats import multivariate_normal, norm

from mpnp.bayesopt.acquisition import log_expected_improvement, log_improvement_slopes
from mpnp.bayesopt.matern import OFFSET, Matern, _Problem, fit_matern
from mpnp.bayesopt.process import FittedProcess, fit_process
from mpnp.bayesopt.warping import Linear, Logarithmic, warps_for

RNG = np.random.default_rng(0)
X = RNG.random((9, 2))
Z = np.sin(5 * X[:, 0]) + X[:, 1]
KERNEL = Matern(np.array([0.4, 0.9]), 1.3, 0.05)
LINEAR = Linear(0.0, 1.0)


def covariance(a, b):
    """Entry by entry, as in the books."""

    def entry(p, q):
        r = np.sqrt((((p - q) / KERNEL.lengths) ** 2).sum())
        return 1.3**2 * (1 + np.sqrt(5) * r + 5 / 3 * r**2) * np.exp(-np.sqrt(5) * r) + OFFSET

    return np.array([[entry(p, q) for q in b] for p in a])


def test_the_posterior_is_that_of_the_books():
    process, points = FittedProcess(X, Z, KERNEL, LINEAR), RNG.random((5, 2))
    inverse, cross = np.linalg.inv(covariance(X, X) + 0.05**2 * np.eye(9)), covariance(points, X)
    mean, std = process.at(points)
    np.testing.assert_allclose(mean, cross @ inverse @ Z, rtol=1e-6)
    np.testing.assert_allclose(std**2, np.diag(covariance(points, points) - cross @ inverse @ cross.T), rtol=1e-5, atol=1e-8)


def test_gradients_are_those_of_the_functions():
    problem = _Problem(X, Z)
    for parameters in RNG.normal(-1, 0.5, (3, 4)):
        assert check_grad(lambda p: problem(p)[0], lambda p: problem(p)[1], parameters) < 1e-3
    process, point = FittedProcess(X, Z, KERNEL, LINEAR), np.array([0.3, 0.6])
    assert check_grad(lambda p: process.at(p[None])[0][0], lambda p: process.slopes(p)[0], point) < 1e-5
    assert check_grad(lambda p: process.at(p[None])[1][0] ** 2, lambda p: process.slopes(p)[1], point) < 1e-5


@pytest.mark.parametrize(("mean", "std"), [(0.3, 0.5), (2.0, 0.1), (-1.0, 0.3)])
def test_slopes_of_the_log_improvement_are_its_differences(mean, std):
    def value(m, s):
        return float(log_expected_improvement(np.array([m]), np.array([s]), np.zeros(1))[0])

    got, step = log_improvement_slopes(mean, std, 0.0), 1e-6
    wanted = [value(mean, std)]
    wanted += [(value(mean + step, std) - value(mean - step, std)) / (2 * step)]
    wanted += [(value(mean, std + step) - value(mean, std - step)) / (2 * step)]
    np.testing.assert_allclose(got, wanted, rtol=1e-4)


def test_the_density_that_is_maximised_is_that_of_the_outputs_times_the_prior():
    problem, parameters = _Problem(X, Z), np.log([*KERNEL.lengths, KERNEL.amplitude, KERNEL.noise])
    outputs = multivariate_normal(np.zeros(9), covariance(X, X) + 0.05**2 * np.eye(9)).logpdf(Z)
    kernel = norm(problem.prior_mean, problem.prior_std).logpdf(parameters) + np.log(problem.prior_std * np.sqrt(2 * np.pi))
    assert -problem(parameters)[0] == pytest.approx(outputs + kernel.sum(), abs=1e-4)


def test_the_fit_finds_lengths_and_noise_and_the_input_that_does_not_matter():
    x = np.random.default_rng(1).random((60, 2))
    clean = np.sin(9 * x[:, 0])
    noisy = clean + np.random.default_rng(2).normal(0, 0.2, 60)
    kernels = [fit_matern(x, (y - y.mean()) / y.std()).kernel for y in (clean, noisy)]
    for kernel in kernels:
        assert kernel.lengths[1] > 3 * kernel.lengths[0]
    assert kernels[0].noise < 0.01 and kernels[1].noise * noisy.std() == pytest.approx(0.2, rel=0.3)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_warp_can_be_undone_and_keeps_probabilities(sign):
    y = sign * np.random.default_rng(3).lognormal(0, 1.5, 20)
    warps = list(warps_for(y))
    assert [type(warp) for warp in warps] == [Linear, Logarithmic, Logarithmic]
    for warp in warps:
        z = warp.apply(y)
        assert abs(z.mean()) < 1e-9 and z.std() == pytest.approx(1)
        beyond = np.linspace(y.min() - 3, y.max() + 3, 50)
        np.testing.assert_allclose(warp.undo(warp.apply(beyond)), beyond, rtol=1e-9, atol=1e-9)
        assert (np.diff(warp.apply(beyond)) > 0).all()

        def density(value, warp=warp):
            at = np.array([value])
            return (norm.pdf(warp.apply(at)) * np.exp(warp.log_slope(at))).item()

        mass, _ = quad(density, -200, 200, limit=500, points=[0])
        assert mass == pytest.approx(1, abs=0.02)


def test_a_function_of_many_magnitudes_is_seen_through_a_logarithm():
    x = np.random.default_rng(4).random((25, 1))
    assert isinstance(fit_process(x, np.exp(12 * x[:, 0])).warp, Logarithmic)
    assert isinstance(fit_process(x, np.sin(6 * x[:, 0])).warp, Linear)


def test_outputs_with_noise_are_not_seen_through_a_logarithm():
    """Near the end it would spread noise as far apart as differences."""
    rng = np.random.default_rng(0)
    x, noise = rng.random((24, 1)), rng.standard_normal(24)
    skewed = np.exp(6 * x[:, 0])
    skewed /= skewed.std()
    assert isinstance(fit_process(x, skewed).warp, Logarithmic)
    assert isinstance(fit_process(x, skewed + 0.03 * noise).warp, Linear)


def test_sampled_functions_have_the_posterior_moments():
    process, points = FittedProcess(X, Z, KERNEL, LINEAR), RNG.random((4, 2))
    draws = process.draw(np.repeat(X[None], 600, axis=0), np.repeat(Z[None], 600, axis=0), points, np.arange(600))
    mean, std = process.at(points)
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=4 * std.max() / np.sqrt(600))
    np.testing.assert_allclose(draws.std(axis=0), std, rtol=0.25)
    (again,) = process.draw(X[None], Z[None], points[2:], np.array([7]))
    np.testing.assert_allclose(again, draws[7, 2:])  # one function, wherever it is read
