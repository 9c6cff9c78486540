"""A batch in pieces gives the numbers of the batch as a whole, for every model."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.models import NUM_SAMPLES, assert_trees_close, small_model
from mpnp.models import microbatch
from mpnp.models.microbatch import Slots, batch_gradient, microbatch_size, slots_worth_a_program
from mpnp.models.registry import MODELS
from mpnp.tasks.base import TaskSource
from mpnp.tasks.registry import find_family
from mpnp.tasks.task import Task

BATCH = 4
SLOTS = Slots(context=25, points=45)


@pytest.fixture(scope="module")
def batch():
    tasks = TaskSource(find_family("rbf"), jax.random.key(3)).batch(jnp.arange(8 * BATCH))
    small = jax.vmap(lambda task: (task.context_mask.sum() <= SLOTS.context) & (task.mask.sum() <= SLOTS.points))(tasks)
    tasks = jax.vmap(lambda index: jax.tree.map(lambda leaf: leaf[index], tasks))(np.flatnonzero(small)[:BATCH])
    scattered = jnp.asarray(np.random.default_rng(0).permutation(50))  # where a task's points lie must not matter
    tasks = jax.vmap(lambda task: jax.tree.map(lambda leaf: leaf[scattered], task))(tasks)
    return tasks, jax.random.split(jax.random.key(4), BATCH)


@eqx.filter_jit
def plain_gradient(model, tasks, keys):
    """The whole batch at once, every slot computed: what a piecewise gradient must agree with."""

    @eqx.filter_grad(has_aux=True)
    def gradient(model):
        loss, terms = jax.vmap(lambda task, key: model.loss(task, key=key, num_samples=NUM_SAMPLES))(tasks, keys)
        return loss.mean(), jax.tree.map(jnp.mean, terms)

    return gradient(model)


@pytest.mark.parametrize("name", list(MODELS))
def test_pieces_of_a_batch_give_the_gradient_of_the_whole(name, batch, monkeypatch):
    monkeypatch.setattr(microbatch, "slots_worth_a_program", lambda *_: [SLOTS])  # one is enough for what a model does
    model, (tasks, keys) = small_model(name), batch
    # Draws that belong to slots follow them, so both ways must see the points in the same order.
    ordered = jax.vmap(Task.context_first)(tasks)
    gradient, terms = plain_gradient(model, ordered, keys)
    fast_terms, fast_gradient = eqx.filter_jit(batch_gradient)(
        model, tasks, keys, num_samples=NUM_SAMPLES, rows=2 * 50 * NUM_SAMPLES
    )
    for term, value in terms.items():
        np.testing.assert_allclose(fast_terms[term], value, rtol=1e-5, atol=1e-6)
    for got, wanted in zip(jax.tree.leaves(fast_gradient), jax.tree.leaves(gradient), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-5 + 1e-4 * np.abs(wanted).max())


@pytest.mark.parametrize("num_tasks", [2, 6, 24])
def test_every_piece_runs_on_slots_enough_for_its_tasks(num_tasks):
    model, keys = small_model("cnp"), jax.random.split(jax.random.key(4), num_tasks)
    tasks = TaskSource(find_family("rbf"), jax.random.key(3)).batch(jnp.arange(num_tasks))
    gradient, _ = plain_gradient(model, tasks, keys)
    _, fast_gradient = eqx.filter_jit(batch_gradient)(model, tasks, keys, num_samples=1, rows=2 * 50)
    assert_trees_close(fast_gradient, gradient, rtol=1e-3, atol=1e-5)


def test_a_piece_is_a_divisor_of_the_batch_and_smaller_for_more_samples():
    stochastic, conditional = small_model("mpnp"), small_model("cnp")
    assert microbatch_size(stochastic, 256, num_slots=50, num_samples=10) == 2
    assert microbatch_size(stochastic, 256, num_slots=1_000, num_samples=10) == 1
    assert microbatch_size(conditional, 256, num_slots=50, num_samples=10) == 16
    assert microbatch_size(conditional, 15, num_slots=50, num_samples=10) == 15
    assert microbatch_size(conditional, 14, num_slots=200, num_samples=10) == 2


def test_the_last_program_has_all_slots_and_there_are_no_more_programs_than_pieces():
    assert slots_worth_a_program(50, num_pieces=64) == [(17, 30), (25, 42), (34, 50), (50, 50)]
    assert slots_worth_a_program(50, num_pieces=2) == [(34, 50), (50, 50)]
    assert slots_worth_a_program(50, num_pieces=1) == [(50, 50)]


def test_points_in_another_order_are_the_same_task(batch):
    task = jax.tree.map(lambda leaf: leaf[0], batch[0])
    ordered = task.context_first()
    num_context, num_points = int(task.context_mask.sum()), int(task.mask.sum())
    np.testing.assert_array_equal(ordered.context_mask, np.arange(50) < num_context)
    np.testing.assert_array_equal(ordered.mask, np.arange(50) < num_points)
    np.testing.assert_array_equal(ordered.x[:num_context], task.x[task.context_mask])
    np.testing.assert_array_equal(ordered.y[num_context:num_points], task.y[task.target_mask])
    short = ordered.in_slots(num_context, num_points)
    assert short.mask.all() and short.mask.shape == (num_points,)
    assert short.context.mask.all() and short.context.mask.shape == (num_context,)
