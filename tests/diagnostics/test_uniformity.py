"""ECDFs of uniform values stay inside their band as often as it promises; other values leave it for the right reason."""

import numpy as np
import pytest

from mpnp.diagnostics.estimate import cluster_mean, coverage
from mpnp.diagnostics.functionals import random_rank
from mpnp.diagnostics.uniformity import Uniformity


@pytest.mark.parametrize("num_values", [20, 300])
def test_uniform_values_stay_inside_the_band_nineteen_times_in_twenty(num_values):
    rng = np.random.default_rng(1)
    inside = np.mean([Uniformity(rng.random(num_values)).is_inside for _ in range(600)])
    assert 0.92 < inside < 0.985


@pytest.mark.parametrize(
    ("a", "b", "fault"), [(0.4, 0.4, "too narrow"), (3, 3, "too wide"), (2, 1, "too low"), (1, 2, "too high")]
)
def test_faults_are_named(a, b, fault):
    assert Uniformity(np.random.default_rng(2).beta(a, b, 400)).fault() == fault


def test_ranks_among_draws_of_the_same_distribution_are_uniform_even_with_ties():
    rng = np.random.default_rng(3)
    draws = rng.integers(0, 4, (500, 17)).astype(float)
    assert Uniformity(np.asarray([random_rank(row[0], row[1:], rng) for row in draws])).is_inside


def test_a_missing_truth_has_no_rank_and_missing_draws_do_not_count():
    rng = np.random.default_rng(4)
    assert np.isnan(random_rank(np.nan, np.ones(3), rng))
    assert random_rank(2.0, np.array([1.0, np.nan, np.nan]), rng) >= 0.5


def test_repeated_values_add_no_precision():
    values = np.random.default_rng(5).random(30)
    alone = cluster_mean(values, np.arange(30))
    np.testing.assert_allclose(alone.standard_error, values.std(ddof=1) / np.sqrt(30))
    repeated = cluster_mean(np.repeat(values, 7), np.repeat(np.arange(30), 7))
    np.testing.assert_allclose(repeated, alone)


def test_full_coverage_of_few_values_is_not_taken_for_certain():
    found = coverage(np.full(10, 0.5), 0.9, np.arange(10))
    assert found.mean == 1 and found.standard_error > 0.09
