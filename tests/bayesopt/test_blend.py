"""Blends of surrogates: mixtures whose weights follow who predicts the search's own evaluations."""

import numpy as np
import pytest

from mpnp.bayesopt import GaussianProcess, Kernel
from mpnp.bayesopt.blend import FORGETTING, Blend

SMOOTH, ROUGH = (GaussianProcess(Kernel(amplitude=1.0, length=length, noise=0.05)) for length in (0.5, 0.02))
SEEDS = np.zeros(1, np.uint32)


def points(count=12, seed=0):
    x = np.random.default_rng(seed).random((count, 1))
    return x, np.sin(4 * x[:, 0])


def test_a_blend_is_a_mixture():
    x, z = points(3)
    candidates = np.linspace(0, 1, 7)[:, None]
    mean, std = Blend([SMOOTH, ROUGH], np.array([0.3, 0.7]), x, z).at(candidates)
    parts = [member.moments(x[None], z[None], candidates, SEEDS) for member in (SMOOTH, ROUGH)]
    drawn = np.concatenate(
        [
            np.random.default_rng(0).normal(m[0], s[0], (int(w * 200_000), 7))
            for (m, s), w in zip(parts, (0.3, 0.7), strict=True)
        ]
    )
    np.testing.assert_allclose(mean, drawn.mean(axis=0), atol=0.01)
    np.testing.assert_allclose(std, drawn.std(axis=0), atol=0.01)


def test_weights_are_the_discounted_probabilities_of_the_evaluations():
    x, z = points(4)
    scores = np.zeros(2)
    for count in range(1, 5):
        given = x[: count - 1], z[: count - 1], x[count - 1], float(z[count - 1])
        scores = FORGETTING * scores + [member.log_density(*given) for member in (SMOOTH, ROUGH)]
    np.testing.assert_allclose(Blend.of([SMOOTH, ROUGH], x, z).weights, np.exp(scores) / np.exp(scores).sum(), rtol=1e-9)


def test_who_predicts_the_latest_evaluations_well_is_believed():
    assert Blend.of([SMOOTH, ROUGH], *points()).weights[0] > 0.95
    x, z = points(16)
    z[8:] = np.random.default_rng(1).normal(size=8)  # the function turns out to be rough
    assert Blend.of([SMOOTH, ROUGH], x, z).weights[0] < 0.05
    np.testing.assert_array_equal(Blend.of([SMOOTH, ROUGH], x[:0], z[:0]).weights, [0.5, 0.5])


def test_pending_points_leave_the_mean_and_take_the_uncertainty():
    x, z = points(4)
    blend, asked = Blend.of([SMOOTH, ROUGH], x, z), np.array([[0.5]])
    before, after = blend.at(asked), blend.believing(asked).at(asked)
    assert after[0] == pytest.approx(before[0], abs=0.05) and after[1] < 0.5 * before[1]


def test_log_densities_are_those_of_the_joint_distribution():
    x, z = points(5)
    kernel = SMOOTH.kernel
    covariance = kernel(x, x) + kernel.noise**2 * np.eye(5)
    wanted = -z @ np.linalg.solve(covariance, z) / 2 - np.linalg.slogdet(2 * np.pi * covariance)[1] / 2
    chain = [SMOOTH.log_density(x[:i], z[:i], x[i], float(z[i])) for i in range(5)]
    assert sum(chain) == pytest.approx(wanted, abs=1e-6)
