"""The space searched: its bounds, its points and the scale of its outputs."""

import numpy as np
import pytest

from mpnp.bayesopt import Optimizer
from mpnp.bayesopt.space import OutputScale, same_point
from mpnp.errors import InputError


def test_points_that_differ_by_rounding_alone_are_the_same():
    a = np.array([[0.3, 0.7]])
    assert same_point(a, a + 1e-10).all() and not same_point(a, a + np.array([0.0, 1e-8])).any()


def test_outputs_are_standardised_whatever_their_size():
    y = np.array([[1.0, 2.0, 6.0]])
    for factor in (1.0, 2.0**-500, 2.0**900):
        scale = OutputScale.of(factor * y)
        np.testing.assert_array_equal(scale.apply(factor * y), OutputScale.of(y).apply(y))
        np.testing.assert_allclose(scale.undo(scale.apply(factor * y)), factor * y)
    for same in ([[5.0]], [[0.1, 0.1, 0.1]], [[0.0, 0.0]]):
        assert OutputScale.of(np.array(same)).scale[0, 0] == 1


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((1, 0), "the lower bound must be below the upper"),
        ((1, 1), "the lower bound must be below the upper"),
        ([(0, 1), (3, 2)], "those of input 1 are 3 and 2"),
        ((0, np.inf), "must be finite"),
        ((np.nan, 1), "must be finite"),
        ((-1.7e308, 1.7e308), "must be finite"),
        ((1e9, 1e9 + 0.1), "too close"),
        ((0, 1, 2), "pair"),
        ([], "pair"),
        ([(0, 1), (2,)], "pair"),
        ("ab", "pair"),
        (("0", "1"), "pair"),
        (None, "pair"),
    ],
)
def test_bounds_that_make_no_box_are_refused(bounds, message):
    with pytest.raises(InputError, match=message):
        Optimizer("random", bounds)
