"""Draws of a quantity that some functions lack."""

import numpy as np
import pytest

from mpnp.errors import InputError
from mpnp.inference.draws import Draws


def test_functions_without_the_quantity_do_not_count():
    draws = Draws(np.array([[1.0, np.nan], [3.0, np.nan], [np.nan, np.nan]]))
    np.testing.assert_array_equal(draws.mean, [2, np.nan])
    np.testing.assert_array_equal(draws.quantile([0.0, 1.0]), [[1, np.nan], [3, np.nan]])
    np.testing.assert_allclose(draws.exists, [2 / 3, 0])
    assert np.isnan(draws.std[1]) and np.isnan(draws.interval()[0][1])


@pytest.mark.parametrize("level", [-0.1, 1.5])
def test_levels_that_are_none_are_refused(level):
    for levels in (level, [0.5, level]):
        with pytest.raises(InputError, match="a level must be a number from 0 to 1"):
            Draws(np.arange(3.0)).quantile(levels)
    with pytest.raises(InputError, match="probability must be a number from 0 to 1"):
        Draws(np.arange(3.0)).interval(level)
