"""The registry says what a family is without building it."""

import math

import pytest

from mpnp.tasks.base import FunctionFamily
from mpnp.tasks.registry import TASKS, task_reach


@pytest.mark.parametrize("name", TASKS)
def test_dimensions_inputs_and_sizes_are_those_of_the_family(name):
    family, (low, high, max_points) = TASKS[name].family, task_reach(name)
    assert TASKS[name].dims == (family.x_dim, family.y_dim)
    if isinstance(family, FunctionFamily):
        assert (low, high, max_points) == (family.low, family.high, family.max_points)
    else:
        assert (low, high) == (-math.inf, math.inf)
