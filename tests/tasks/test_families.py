"""A task's number decides all there is to know about it, and every step knows its tasks' numbers."""

import importlib
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.models import assert_trees_close
from mpnp import InputError
from mpnp.tasks.base import TEST_SEED, VALIDATION_SEED, AbstractTaskFamily, TaskSource, fixed_tasks, training_indices
from mpnp.tasks.registry import TASKS, find_family, import_family
from mpnp.tasks.task import Task

SOURCE = TaskSource(TASKS["rbf"].family, jax.random.key(5))
NUM_TASKS, BATCH_SIZE = 11, 3
STEPS_PER_EPOCH = 3
CLOSE = {"rtol": 1e-3, "atol": 1e-4}
"""The linear algebra behind a draw may round otherwise in a batch of another size."""


def finite(step: int, *, num_tasks: int = NUM_TASKS, seed: int = 0) -> np.ndarray:
    return training_indices(step, BATCH_SIZE, num_tasks=num_tasks, seed=seed)


def epoch(number: int, **options: int) -> np.ndarray:
    return np.concatenate([finite(number * STEPS_PER_EPOCH + position, **options) for position in range(STEPS_PER_EPOCH)])


@eqx.filter_jit
def draw(source: TaskSource, numbers: jax.Array) -> Task:
    return source.batch(numbers)


def test_a_batch_holds_the_tasks_that_its_numbers_draw_one_at_a_time():
    numbers, sample = jnp.array([4, 0, 7]), jax.jit(SOURCE.family.sample)
    alone = [sample(SOURCE.task_key(number)) for number in numbers]
    assert_trees_close(draw(SOURCE, numbers), jax.tree.map(lambda *leaves: jnp.stack(leaves), *alone), **CLOSE)


def test_a_small_fixed_set_is_the_beginning_of_a_large_one():
    small, large = (draw(fixed_tasks(TASKS["rbf"].family, TEST_SEED), jnp.arange(num)) for num in (3, 5))
    assert_trees_close(small, jax.tree.map(lambda leaf: leaf[:3], large), **CLOSE)


def test_validation_and_test_tasks_have_nothing_in_common():
    validation, test = (draw(fixed_tasks(TASKS["rbf"].family, seed), jnp.arange(5)) for seed in (VALIDATION_SEED, TEST_SEED))
    mask = test.context_mask | test.target_mask
    assert not np.isin(test.x[mask], validation.x).any()


def test_no_key_serves_twice():
    numbers = jnp.arange(100)
    drawn = [jax.random.key_data(jax.vmap(keys)(numbers)) for keys in (SOURCE.task_key, SOURCE.noise_key)]
    assert len(np.unique(np.concatenate(drawn), axis=0)) == 200


def test_new_tasks_never_repeat_and_none_is_left_out():
    steps = [training_indices(step, BATCH_SIZE, num_tasks=None, seed=0) for step in range(500)]
    np.testing.assert_array_equal(np.concatenate(steps), np.arange(500 * BATCH_SIZE))


@pytest.mark.parametrize("number", [0, 1, 7])
def test_an_epoch_meets_no_task_twice_and_drops_the_incomplete_batch(number):
    met = epoch(number)
    assert len(met) == len(np.unique(met)) == STEPS_PER_EPOCH * BATCH_SIZE
    assert met.min() >= 0
    assert met.max() < NUM_TASKS


def test_an_epoch_of_whole_batches_covers_every_task_once():
    num_tasks = STEPS_PER_EPOCH * BATCH_SIZE
    np.testing.assert_array_equal(np.sort(epoch(4, num_tasks=num_tasks)), np.arange(num_tasks))


def test_over_the_epochs_no_task_is_left_out():
    assert len(np.unique(np.concatenate([epoch(number) for number in range(20)]))) == NUM_TASKS


def test_every_epoch_has_an_order_of_its_own():
    orders = {tuple(epoch(number)) for number in range(20)}
    assert len(orders) == 20


def test_a_step_has_the_same_tasks_whenever_it_is_asked_for():
    forwards = {step: finite(step).copy() for step in range(12)}
    for step in (11, 0, 7, 3, 3, 10, 1):
        np.testing.assert_array_equal(finite(step), forwards[step])


def test_the_seed_decides_the_order():
    np.testing.assert_array_equal(epoch(0, seed=1), epoch(0, seed=1))
    assert np.any(epoch(0, seed=1) != epoch(0, seed=2))


@pytest.mark.parametrize("num_tasks", [None, NUM_TASKS])
def test_the_numbers_of_a_step_draw_its_batch(num_tasks):
    numbers = training_indices(1, BATCH_SIZE, num_tasks=num_tasks, seed=0)
    assert_trees_close(draw(SOURCE, jnp.asarray(numbers)), draw(SOURCE, jnp.asarray(numbers, jnp.int32)), rtol=0)


@pytest.mark.parametrize("name", TASKS)
def test_a_family_of_the_catalogue_is_found_by_name(name):
    assert find_family(name) is TASKS[name].family


@pytest.mark.parametrize("name, nearest", [("rfb", "rbf"), ("Matern", "matern"), ("tnoise", "t-noise"), ("rbf4d", "rbf-4d")])
def test_an_unknown_name_is_answered_with_the_nearest(name, nearest):
    with pytest.raises(InputError, match=rf"unknown task '{name}'\. Did you mean '{nearest}'\?"):
        find_family(name)


def test_a_name_like_no_other_is_answered_with_where_to_look():
    with pytest.raises(InputError, match=r"unknown task 'xyzzy'\. Run 'mpnp tasks'"):
        find_family("xyzzy")


OWN_MODULE = """
import jax.numpy as jnp
from mpnp import Task
from mpnp.tasks.base import AbstractTaskFamily

class Constant(AbstractTaskFamily):
    x_dim: int = 2
    y_dim: int = 3

    def sample(self, key):
        first = jnp.arange(4) < 1
        return Task(jnp.ones((4, 2)), jnp.ones((4, 3)), first, ~first)

family = Constant()
number = 7
"""


@pytest.fixture
def own_module(tmp_path, monkeypatch) -> str:
    """A module of a user's own, which only this test can import."""
    name = "own_families_of_a_user"
    (tmp_path / f"{name}.py").write_text(OWN_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    sys.modules.pop(name, None)


def test_a_family_of_a_users_own_is_found_by_its_path(own_module):
    family = import_family(f"{own_module}:family")
    assert find_family(f"{own_module}:family") is family
    assert family is importlib.import_module(own_module).family
    assert isinstance(family, AbstractTaskFamily)
    batch = TaskSource(family, jax.random.key(0)).batch(jnp.arange(2))
    assert (batch.x.shape, batch.y.shape) == ((2, 4, 2), (2, 4, 3))


@pytest.mark.parametrize("attribute, kind", [("number", "int"), ("Constant", "must be a task family"), ("jnp", "module")])
def test_what_is_no_family_is_refused(own_module, attribute, kind):
    with pytest.raises(InputError, match=f"'{own_module}:{attribute}' must be a task family") as error:
        import_family(f"{own_module}:{attribute}")
    assert kind in str(error.value)


def test_an_attribute_that_is_not_there_is_named(own_module):
    with pytest.raises(InputError, match=f"cannot import the task family '{own_module}:absent': .* no attribute"):
        import_family(f"{own_module}:absent")


@pytest.mark.parametrize(
    "path",
    ["no_such_module:family", "mpnp.no_such_module:family", ":family", ".relative:family", ":", "json:", "../json:family"],
)
def test_a_path_that_cannot_be_imported_is_named(path):
    with pytest.raises(InputError, match=f"cannot import the task family '{path}'"):
        import_family(path)
