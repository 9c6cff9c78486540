"""What a user or a sampler hands over becomes a task whose empty slots hold nothing."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.models import CONTEXT, NUM_SLOTS, TARGET, assert_trees_close, slot_mask, small_task
from mpnp import InputError, PointSet, Task
from mpnp.tasks.base import FunctionFamily, TargetsOnly
from mpnp.tasks.gaussian_process import GaussianProcessPrior, RBFPrior
from mpnp.tasks.task import masked_mean

EMPTY = np.setdiff1d(np.arange(NUM_SLOTS), np.concatenate([CONTEXT, TARGET]))
JUNK = pytest.mark.parametrize("junk", [1e6, np.nan, np.inf, -np.inf])


def numbers(*shape: int, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


@JUNK
def test_junk_in_empty_slots_is_zeroed(junk):
    task = small_task(junk=junk)
    assert_trees_close(task, small_task(junk=0.0), rtol=0)
    for part in (task.x, task.y, task.points.x, task.points.y):
        assert not np.any(part[EMPTY])


@JUNK
def test_junk_in_empty_slots_reaches_no_gradient(junk):
    mask = slot_mask(CONTEXT)
    junk_y = jnp.where(mask[:, None], 1.0, junk)

    def total(y):
        return jnp.sum(PointSet(jnp.zeros_like(y), y, mask).y ** 2)

    np.testing.assert_array_equal(jax.grad(total)(junk_y)[:, 0], 2.0 * mask)


def test_the_context_shows_nothing_of_the_target():
    task = small_task()
    target = task.target_mask[:, None]
    changed = Task(jnp.where(target, 5, task.x), jnp.where(target, 7, task.y), task.context_mask, task.target_mask)
    assert np.any(changed.points.y != task.points.y)
    assert_trees_close(changed.context, task.context, rtol=0)


def test_the_points_of_a_task_are_its_context_and_its_target():
    task = small_task()
    np.testing.assert_array_equal(np.flatnonzero(task.points.mask), np.sort(np.concatenate([CONTEXT, TARGET])))
    assert task.loss_count == len(CONTEXT) + len(TARGET)
    np.testing.assert_array_equal(task.points.y[CONTEXT], task.context.y[CONTEXT])
    np.testing.assert_array_equal(task.points.y[TARGET], task.y[TARGET])


def test_what_is_asked_of_a_task_stays_with_its_points():
    task = small_task()
    np.testing.assert_array_equal(task.loss_weights, task.mask)
    asked = task.with_loss_weights(task.target_mask | jnp.asarray(np.isin(np.arange(NUM_SLOTS), EMPTY)))
    np.testing.assert_array_equal(asked.loss_weights, task.target_mask)
    assert asked.loss_count == len(TARGET)
    moved = asked.context_first().in_slots(len(CONTEXT), len(CONTEXT) + len(TARGET))
    np.testing.assert_array_equal(moved.loss_weights, moved.target_mask)


def test_a_family_can_ask_for_targets_only():
    family = FunctionFamily(process=GaussianProcessPrior(RBFPrior()), x_dim=2)
    plain, asking = (some.sample(jax.random.key(0)) for some in (family, TargetsOnly(family)))
    assert_trees_close(asking.with_loss_weights(plain.mask), plain, rtol=0)
    np.testing.assert_array_equal(asking.loss_weights, plain.target_mask)
    assert (TargetsOnly(family).x_dim, TargetsOnly(family).y_dim) == (2, 1)


def test_a_task_without_points_has_a_number_of_points_that_can_divide():
    nothing = jnp.zeros(3, bool)
    assert Task(numbers(3, 1), numbers(3, 1), nothing, nothing).loss_count == 1


@pytest.mark.parametrize("shape_x, shape_y", [((), ()), ((4,), (4,)), ((), (4,)), ((4,), ())])
def test_a_union_holds_the_points_of_both_sets_for_every_sample(shape_x, shape_y):
    shared = PointSet(numbers(3, 2), numbers(3, 1), jnp.array([True, False, True]))
    other = PointSet(numbers(*shape_x, 2, 2, seed=1), numbers(*shape_y, 2, 1, seed=2), jnp.array([True, True]))
    for first, second in ((shared, other), (other, shared)):
        parts = (columns(points, np.broadcast_shapes(shape_x, shape_y)) for points in (first.union(second), first, second))
        for joined, one, two in zip(*parts, strict=True):
            np.testing.assert_array_equal(joined, np.concatenate([one, two], axis=-2))


def columns(points: PointSet, samples: tuple[int, ...]) -> list[np.ndarray]:
    """Inputs, outputs and mask, each written out for every sample."""
    parts = (points.x, points.y, points.mask[..., None])
    return [np.broadcast_to(part, (*samples, *part.shape[-2:])) for part in parts]


@pytest.mark.parametrize(
    "x, y, shape_x, shape_y",
    [
        ([0.0, 1.0], [2.0, 3.0], (2, 1), (2, 1)),
        ([0, 1], (2, 3), (2, 1), (2, 1)),
        ([[0.0, 1.0, 2.0]], [[3.0, 4.0]], (1, 3), (1, 2)),
        (np.arange(2.0), np.ones((2, 2), np.float32), (2, 1), (2, 2)),
        (jnp.arange(2.0), np.array([True, False]), (2, 1), (2, 1)),
        ([], [], (0, 1), (0, 1)),
        (np.zeros((0, 3)), np.zeros((0, 2)), (0, 3), (0, 2)),
    ],
    ids=["lists", "whole numbers", "rows", "arrays", "a JAX array", "nothing", "nothing of given width"],
)
def test_lists_and_arrays_become_one_row_a_point(x, y, shape_x, shape_y):
    points = PointSet.observed(x, y)
    assert (points.x.shape, points.y.shape) == (shape_x, shape_y)
    np.testing.assert_array_equal(np.ravel(points.x), np.ravel(np.asarray(x, float)))
    np.testing.assert_array_equal(np.ravel(points.y), np.ravel(np.asarray(y, float)))
    assert points.mask.shape == shape_x[:1]
    assert points.mask.all()
    assert points.x.dtype == points.y.dtype == jnp.float32


GOOD = [0.0, 1.0]
BAD_VALUES = {
    "nothing at all": (None, ["missing", "both x and y"]),
    "a missing entry": ([0.0, None], ["finite", "row 1", "nan"]),
    "not a number": ([0.0, np.nan], ["finite", "row 1", "nan", "drop or repair"]),
    "infinite": ([[0.0, 1.0], [-np.inf, 2.0]], ["finite", "row 1", "inf"]),
    "infinite in single precision": ([0.0, 1e300], ["finite", "row 1"]),
    "too large for any float": ([0.0, 10**400], ["numbers"]),
    "text": (["a", "b"], ["numbers"]),
    "digits as text": (["0.0", "1.0"], ["numbers"]),
    "complex": ([0.0, 1.0j], ["numbers"]),
    "dates": (np.array(["2020-01-01", "2020-01-02"], "datetime64[D]"), ["numbers"]),
    "ragged rows": ([[0.0], [1.0, 2.0]], ["rows of equal length"]),
    "many tasks at once": (np.zeros((2, 2, 2)), ["(points, dimensions)", "(2, 2, 2)", "one task at a time"]),
    "one number": (3.0, ["(points,)", "()"]),
    "one row too few": ([0.0], ["one row per point", "has 2", "has 1"]),
    "one row too many": ([0.0, 1.0, 2.0], ["one row per point", "has 2", "has 3"]),
}


@pytest.mark.parametrize("side", ["x", "y"])
@pytest.mark.parametrize("values, words", BAD_VALUES.values(), ids=BAD_VALUES)
def test_bad_values_are_refused_by_name(values, words, side):
    given = {"x": GOOD, "y": GOOD, side: values}
    with pytest.raises(InputError) as error:
        PointSet.observed(**given)
    assert re.search(rf"\b{side}\b", str(error.value))
    for word in words:
        assert word in str(error.value)


def test_a_split_makes_the_first_points_context_and_the_rest_target():
    task = Task.split([1.0, 2.0, 3.0], [4.0, 5.0, 6.0], num_context=2)
    np.testing.assert_array_equal(task.context_mask, [True, True, False])
    np.testing.assert_array_equal(task.target_mask, [False, False, True])
    np.testing.assert_array_equal(task.x[:, 0], [1, 2, 3])
    np.testing.assert_array_equal(task.y[:, 0], [4, 5, 6])


@pytest.mark.parametrize("num_context", [0, 2])
def test_a_split_may_leave_context_or_target_empty(num_context):
    task = Task.split(GOOD, GOOD, num_context)
    assert (task.context_mask.sum(), task.target_mask.sum()) == (num_context, 2 - num_context)


@pytest.mark.parametrize("num_context", [-1, 3])
def test_a_split_beyond_the_points_is_refused(num_context):
    with pytest.raises(InputError, match=f"num_context must lie between 0 and the 2 points given, got {num_context}"):
        Task.split(GOOD, GOOD, num_context)


def test_a_split_checks_the_points_it_is_given():
    with pytest.raises(InputError, match="x has 2 rows, y has 1"):
        Task.split(GOOD, [0.0], 1)


def test_targets_can_count_more_than_context_points_with_the_same_sum():
    task = small_task()
    weighed = task.weigh_targets(3.0)
    ratio = weighed.loss_weights[np.array(TARGET)][:, None] / weighed.loss_weights[np.array(CONTEXT)]
    np.testing.assert_allclose(ratio, 3, rtol=1e-6)
    np.testing.assert_allclose(weighed.loss_count, task.loss_count, rtol=1e-6)
    np.testing.assert_array_equal(weighed.loss_weights[np.array(EMPTY)], 0)
    np.testing.assert_array_equal(task.weigh_targets(1.0).loss_weights, task.loss_weights)
    nothing = task.with_loss_weights(jnp.zeros_like(task.mask)).weigh_targets(3.0)
    np.testing.assert_array_equal(nothing.loss_weights, 0)


@pytest.mark.parametrize("junk", [0.0, np.nan, np.inf])
def test_losses_are_weighted_sums_that_ignore_empty_slots(junk):
    task, values = small_task().weigh_targets(2.0), np.arange(NUM_SLOTS, dtype=np.float32)
    wanted = sum(float(task.loss_weights[slot]) * values[slot] for slot in [*CONTEXT, *TARGET])
    values[np.array(EMPTY)] = junk
    np.testing.assert_allclose(task.loss_sum(jnp.asarray(values)), wanted, rtol=1e-5)
    np.testing.assert_allclose(task.loss_mean(jnp.asarray(values)), wanted / len([*CONTEXT, *TARGET]), rtol=1e-5)


@JUNK
def test_a_masked_mean_is_the_mean_of_the_masked_values_alone(junk):
    mask = slot_mask(CONTEXT)
    values = jnp.where(mask, numbers(NUM_SLOTS), junk)
    mean, gradient = jax.value_and_grad(masked_mean)(values, mask)
    np.testing.assert_allclose(mean, np.asarray(values)[CONTEXT].mean(), rtol=1e-6)
    np.testing.assert_allclose(gradient, np.where(mask, 1 / len(CONTEXT), 0), rtol=1e-6)


def test_a_masked_mean_of_nothing_is_zero_and_so_is_its_gradient():
    mean, gradient = jax.value_and_grad(masked_mean)(numbers(4), jnp.zeros(4, bool))
    assert mean == 0
    assert not np.any(gradient)


def test_a_masked_mean_takes_one_mask_for_all_rows():
    values, mask = numbers(3, NUM_SLOTS), slot_mask(CONTEXT)
    np.testing.assert_allclose(masked_mean(values, mask), np.asarray(values)[:, CONTEXT].mean(axis=1), rtol=1e-6)
