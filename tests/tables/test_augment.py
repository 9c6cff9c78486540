"""Blends of curves have the mean and the covariance of the curves, and invent nothing where curves are unknown."""

import numpy as np
import pytest

from mpnp.errors import InputError
from mpnp.tables.augment import can_mix, mean_curve, mix_curves
from mpnp.tables.curves import Curves
from mpnp.tables.dataset import CurveDataset

HOURS = np.arange(6.0)


def many_curves(num: int = 400) -> Curves:
    """Random walks around a parabola, on a common grid."""
    rng = np.random.default_rng(0)
    walks = rng.normal(size=(num, len(HOURS))).cumsum(axis=1) + HOURS**2
    return Curves.from_pairs([(HOURS, walk) for walk in walks])


def grid(curves: Curves, first: int) -> np.ndarray:
    return np.stack([curves.pair(number)[1][:, 0] for number in range(first, len(curves))])


def test_blends_have_the_mean_and_the_covariance_of_the_curves():
    curves = many_curves()
    mixed = mix_curves(curves, 20_000, seed=0)
    assert len(mixed) == 20_400
    old, new = grid(curves, 0), grid(mixed, 400)
    np.testing.assert_array_equal(grid(mixed, 0)[:400], old)  # the curves themselves come first
    np.testing.assert_allclose(new.mean(axis=0), old.mean(axis=0), atol=0.06)
    np.testing.assert_allclose(np.cov(new.T), np.cov(old.T), atol=0.25)
    assert len({blend.tobytes() for blend in new} & {curve.tobytes() for curve in old}) == 0


def test_the_same_seed_gives_the_same_blends():
    first, second, other = (mix_curves(many_curves(10), 5, seed=seed).y for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


def test_a_blend_is_known_only_where_both_curves_are():
    curves = Curves.from_pairs([(np.arange(0.0, 6.0), np.ones(6)), (np.arange(3.0, 9.0), np.zeros(6))])
    for number in range(2, 40):
        x, _ = mix_curves(curves, 38, seed=0).pair(number)
        assert set(x[:, 0]) in ({0, 1, 2, 3, 4, 5}, {3, 4, 5, 6, 7, 8}, {3, 4, 5})  # of itself, or of both


def test_curves_that_do_not_meet_are_left_alone():
    curves = Curves.from_pairs([([0.0, 1.0], [1.0, 2.0]), ([5.0, 6.0], [3.0, 4.0])])
    mixed = mix_curves(curves, 30, seed=0)
    for number in range(2, 32):
        x, y = mixed.pair(number)
        # Each deviates by nothing from a mean that it alone makes, so every blend of it is itself.
        assert (x[:, 0].tolist(), y[:, 0].tolist()) in (([0.0, 1.0], [1.0, 2.0]), ([5.0, 6.0], [3.0, 4.0]))


def test_an_output_that_is_missing_stays_missing():
    one, other = np.array([[1.0, np.nan], [2.0, 5.0], [3.0, 6.0]]), np.array([[0.0, np.nan]] * 3)
    curves = Curves.from_pairs([(np.arange(3.0), one), (np.arange(3.0), other)])
    mixed = mix_curves(curves, 50, seed=0)
    for number in range(2, 52):
        _, y = mixed.pair(number)
        assert np.isfinite(y[:, 0]).all() and np.isnan(y[0, 1])
        assert np.isnan(y[:, 1]).all() or np.isfinite(y[1:, 1]).all()


def test_the_mean_curve_is_the_mean_at_each_input():
    inputs, means = mean_curve(many_curves())
    np.testing.assert_array_equal(inputs, HOURS)
    np.testing.assert_allclose(means[:, 0], grid(many_curves(), 0).mean(axis=0))
    x = np.random.default_rng(1).uniform(0, 1, (50, 40))
    inputs, means = mean_curve(Curves.from_pairs([(row, 3 * row) for row in x]))
    assert len(inputs) <= 64
    np.testing.assert_allclose(means[:, 0], 3 * inputs, atol=0.05)


def test_only_training_curves_of_one_input_are_mixed():
    curves = many_curves(40)
    plain, mixed = (CurveDataset(curves, validation=0.25, mixing=share).problem() for share in (0.0, 0.9))
    assert len(plain.training.counts) == 30 and len(mixed.training.counts) == 300
    assert len(plain.validation.counts) == len(mixed.validation.counts) == 10
    flat = Curves.from_pairs([(np.ones((3, 2)), np.ones(3))] * 4)
    assert not can_mix(flat) and not can_mix(many_curves(1))
    assert len(CurveDataset(flat, validation=0.25, mixing=0.9).problem().training.counts) == 3


@pytest.mark.parametrize("share", [1.0, -0.1, float("nan")])
def test_a_share_that_makes_no_sense_is_refused(share):
    with pytest.raises(InputError, match="mixing must be at least 0 and below 1"):
        CurveDataset(many_curves(), mixing=share)
