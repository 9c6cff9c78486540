"""The registry says what a family is without building it."""

import jax
import numpy as np
import pytest

from helpers.command_line import call
from helpers.toy_family import damped_waves
from mpnp.tasks.base import FunctionFamily
from mpnp.tasks.registry import TASKS, TaskEntry, task_reach


@pytest.mark.parametrize("name", TASKS)
def test_dimensions_inputs_and_sizes_are_those_of_the_family(name):
    family, (low, high, max_points) = TASKS[name].family, task_reach(name)
    assert TASKS[name].dims == (family.x_dim, family.y_dim)
    if isinstance(family, FunctionFamily):
        assert (low, high, max_points) == (family.low, family.high, family.max_points)
    task = family.sample(jax.random.key(0))
    inputs = np.asarray(task.x)[np.asarray(task.context_mask | task.target_mask)]
    assert low <= inputs.min() <= inputs.max() <= high and len(task.x) <= max_points


def test_a_new_family_is_one_file_and_one_row(monkeypatch, tmp_path):
    monkeypatch.setitem(TASKS, "waves", TaskEntry(damped_waves, (1, 1), "damped waves", (-2.0, 2.0, 50)))
    test_dimensions_inputs_and_sizes_are_those_of_the_family("waves")
    assert "damped waves" in call("tasks").out
    small = ("--steps", 2, "--batch-size", 2, "--width", 8, "--validation-tasks", 4)
    assert call("train", "--model", "cnp", "--task", "waves", *small, "--out", tmp_path / "run").code == 0
    assert call("evaluate", tmp_path / "run", "--num-tasks", 4).code == 0
