"""Cases: the exact posterior beside them is exact, and clusters tell which of them depend on each other."""

import dataclasses

import numpy as np
import pytest

from helpers.fitted_models import fitted, some_curves
from mpnp.diagnostics.cases import cases_from_curves, cases_from_source
from mpnp.diagnostics.exact import cases_from_gaussian_process
from mpnp.diagnostics.functionals import random_rank
from mpnp.diagnostics.uniformity import Uniformity
from mpnp.tasks.base import fixed_tasks
from mpnp.tasks.registry import find_family


@pytest.fixture(scope="module")
def drawn():
    return cases_from_gaussian_process(fixed_tasks(find_family("rbf"), 7), "rbf", 150)


def test_the_exact_prediction_of_drawn_tasks_is_calibrated(drawn):
    assert drawn.has_exact and not drawn.noisy and drawn.num_independent == 150
    pit = [np.asarray(case.exact.target.cdf(case.y_target))[0, 0] for case in drawn]
    assert Uniformity(np.asarray(pit)).is_inside


@pytest.mark.parametrize("functional", [np.max, np.mean, lambda values: values[5] - values[40]])
def test_functions_of_the_exact_posterior_are_honest(drawn, functional):
    rng = np.random.default_rng(0)

    def rank(case):
        draws = [functional(values) for values in case.exact.sample(30, rng)[..., 0]]
        return random_rank(functional(case.y_function[:, 0]), np.asarray(draws), rng)

    assert Uniformity(np.asarray([rank(case) for case in drawn])).is_inside


def test_observations_scatter_around_the_function_by_the_noise(drawn):
    near = [
        y - np.interp(x, case.x_function[:, 0], case.y_function[:, 0])
        for case in drawn
        for x, y in zip(case.x_context[:, 0], case.y_context[:, 0], strict=True)
    ]
    assert 0.015 < np.median(np.abs(near)) / 0.6745 < 0.03


def test_a_family_without_exact_posterior_is_known_by_its_observations():
    cases = cases_from_source(fixed_tasks(find_family("t-noise"), 7), "t-noise", 5)
    assert cases.noisy and not cases.has_exact and len(cases) == 5
    for case in cases:
        assert len(case.x_context) >= 3 and (np.diff(case.x_function[:, 0]) >= 0).all()
        np.testing.assert_array_equal(np.sort(case.y_function, axis=0), np.sort(case.y_target, axis=0))


def test_curves_of_one_group_are_one_cluster_and_independent_cases_come_first():
    curves = dataclasses.replace(some_curves(6), groups=("a", "a", "b", "b", "c", "d"))
    cases = cases_from_curves(fitted("cnp"), curves, 24, seed=0)
    assert len(cases) == 24 and cases.num_independent == 4
    assert sorted(cases.clusters[:4]) == [0, 1, 2, 3]
    assert len(cases.first(10)) == 4 and np.bincount(cases.clusters).tolist().count(8) == 2
