"""The benchmark's functions: their minima are those that regrets are measured from."""

import numpy as np
import pytest
from classic_objectives import BENCHMARK, VALIDATION
from scipy.optimize import minimize


@pytest.mark.parametrize("name", [*BENCHMARK, *VALIDATION])
def test_the_minimum_is_what_is_found_and_none_is_lower(name):
    classic = {**BENCHMARK, **VALIDATION}[name]
    low, high = np.array(classic.bounds).T
    points = low + np.random.default_rng(0).random((10_000, len(low))) * (high - low)
    values = classic.function(points)
    starts = points[np.argsort(values)[:6]]
    found = min(float(minimize(classic, start, method="L-BFGS-B", bounds=classic.bounds).fun) for start in starts)
    assert found == pytest.approx(classic.minimum, abs=1e-3) and values.min() > classic.minimum - 1e-6


def test_choices_are_made_on_other_functions_than_those_of_the_benchmark():
    functions = [{(c.function, c.bounds) for c in some.values()} for some in (BENCHMARK, VALIDATION)]
    assert not functions[0] & functions[1]
