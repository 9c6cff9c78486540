"""Stacking: laws of the weights, and of the mixture."""

import numpy as np
import pytest
from scipy.stats import norm
from stacking import context_parts, stack, stacking_weight


def test_forecasts_that_agree_share_the_weight():
    scores = np.random.default_rng(0).normal(size=20)
    assert stacking_weight(scores, scores) == pytest.approx(0.5)
    assert stacking_weight(scores[:0], scores[:0]) == pytest.approx(0.5)


def test_the_better_forecast_gets_more_and_never_all():
    rng = np.random.default_rng(1)
    y = rng.normal(size=200)
    right, wrong = norm.logpdf(y), norm.logpdf(y, 3)
    assert 0.9 < stacking_weight(right, wrong) < 0.976
    assert stacking_weight(right, wrong) + stacking_weight(wrong, right) == pytest.approx(1)
    assert stacking_weight(right[:5], wrong[:5]) < stacking_weight(right, wrong)


def test_the_weight_of_a_true_mixture_is_found():
    rng = np.random.default_rng(2)
    y = np.where(rng.random(4_000) < 0.3, rng.normal(-3, size=4_000), rng.normal(3, size=4_000))
    assert stacking_weight(norm.logpdf(y, -3), norm.logpdf(y, 3)) == pytest.approx(0.3, abs=0.03)


def test_parts_are_even_and_hold_context_alone():
    context = np.random.default_rng(3).random((7, 40)) < 0.6
    parts = context_parts(context, 5, seed=0)
    assert ((parts >= 0) == context).all()
    for row in parts:
        sizes = np.bincount(row[row >= 0], minlength=5)
        assert sizes.max() - sizes.min() <= 1


def test_a_mixture_lies_between_its_forecasts_and_never_sees_a_target():
    rng = np.random.default_rng(4)
    context = rng.random((3, 30)) < 0.5
    y = rng.normal(size=(3, 30, 1))
    seen = []

    def forecaster(mean, y=y):
        def answer(mask):
            seen.append(mask)
            return norm.logpdf(y, mean)[..., 0], norm.cdf(y, mean)

        return answer

    log_density, cdf = stack(forecaster(0.0), forecaster(1.0), context)
    assert all((mask <= context).all() for mask in seen) and len(seen) == 12
    ends = np.stack([norm.logpdf(y, mean)[..., 0] for mean in (0.0, 1.0)])
    assert ((log_density >= ends.min(axis=0) - 1e-12) & (log_density <= ends.max(axis=0) + 1e-12)).all()
    assert ((cdf <= norm.cdf(y, 0)) & (cdf >= norm.cdf(y, 1))).all()
    changed = np.where(context[..., None], y, 7.0)
    again, _ = stack(forecaster(0.0, changed), forecaster(1.0, changed), context)
    np.testing.assert_array_equal(again[context], log_density[context])
