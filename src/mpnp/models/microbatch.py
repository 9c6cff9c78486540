"""Gradients of a batch, summed over microbatches: the same numbers, but the arrays of a microbatch fit into the CPU's cache.

The tasks of a batch are sorted by size, so that a microbatch of small tasks is computed on few slots.
"""

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, PyTree, Shaped

from mpnp.models.base import AbstractNeuralProcess, LossTerms
from mpnp.nn.linear import mark_batch
from mpnp.tasks.task import Task

__all__ = ["Slots", "batch_gradient", "microbatch_size", "slots_worth_a_program"]

ROWS = 1_000
"""Rows of activations per microbatch, where each task, sample and slot has one: half a megabyte per layer at the paper's width.
With twice as many, a small batch has too few microbatches to group contexts of similar size, and attentive models are a fifth
slower."""

SHARES = ((1 / 3, 3 / 5), (1 / 2, 5 / 6), (2 / 3, 1), (1, 1))
"""Fractions of a task's slots, for the context and for all points, that a step is compiled for. They suit the paper's protocol,
in which a small context often comes with few targets. Each further pair adds compile time and saves less work."""


class Slots(NamedTuple):
    """Numbers of leading slots that a compiled program computes on."""

    context: int
    points: int


def microbatch_size(
    model: AbstractNeuralProcess, batch_size: int, num_slots: int, num_samples: int, *, rows: int = ROWS
) -> int:
    """Tasks per microbatch: the largest divisor of the batch size with about `rows` rows of activations at most."""
    components = model.num_components(num_samples)
    wanted = max(1, round(rows / (components * num_slots)))
    return max(size for size in range(1, wanted + 1) if batch_size % size == 0)


def slots_worth_a_program(num_slots: int, num_pieces: int) -> list[Slots]:
    """Sizes to compile a step for: at most one per microbatch. The last fits all tasks."""
    return [Slots(*(math.ceil(share * num_slots) for share in shares)) for shares in SHARES[-num_pieces:]]


def _first_that_holds(
    programs: Sequence[Slots], num_context: Int[Array, " *size"], num_points: Int[Array, " *size"]
) -> Int[Array, " *size"]:
    """Index of the smallest program that fits."""
    contexts, points = jnp.asarray(programs).T
    return jnp.argmax((num_context[..., None] <= contexts) & (num_points[..., None] <= points), axis=-1)


def batch_gradient(
    model: AbstractNeuralProcess, tasks: Task, keys: Key[Array, " batch"], *, num_samples: int, rows: int = ROWS
) -> tuple[LossTerms, PyTree[Float[Array, "..."]]]:
    """The loss terms, each a mean over the tasks of the batch, and the gradient of their sum."""
    batch_size, num_slots = tasks.context_mask.shape
    size = microbatch_size(model, batch_size, num_slots, num_samples, rows=rows)
    num_pieces = batch_size // size
    programs = slots_worth_a_program(num_slots, num_pieces)

    tasks = jax.vmap(Task.context_first)(tasks)
    counts = jax.vmap(lambda task: (task.context_mask.sum(), task.mask.sum()))(tasks)
    order = jnp.argsort(_first_that_holds(programs, *counts))
    pieces, counts = jax.tree.map(lambda leaf: leaf[order].reshape(num_pieces, size, *leaf.shape[1:]), ((tasks, keys), counts))
    chosen = _first_that_holds(programs, *(count.max(axis=-1) for count in counts))

    @eqx.filter_grad(has_aux=True)
    def gradient(model: AbstractNeuralProcess, tasks: Task, keys: Key[Array, " piece"]) -> tuple[Float[Array, ""], LossTerms]:
        def task_loss(task: Task, key: PRNGKeyArray, marker: Float[Array, ""]) -> tuple[Float[Array, ""], LossTerms]:
            return mark_batch(model, marker).loss(task, key=key, num_samples=num_samples)

        loss, terms = jax.vmap(task_loss)(tasks, keys, jnp.zeros(size))
        return loss.sum() / batch_size, jax.tree.map(lambda term: term.sum() / batch_size, terms)

    def piece_gradient(slots: Slots, tasks: Task, keys: Key[Array, " piece"]) -> tuple[PyTree, LossTerms]:
        return gradient(model, jax.vmap(lambda task: task.in_slots(slots.context, slots.points))(tasks), keys)

    branches = [functools.partial(piece_gradient, slots) for slots in programs]

    def add_piece(
        total: PyTree[Shaped[Array, "..."]], piece: tuple[Int[Array, ""], tuple[Task, Key[Array, " piece"]]]
    ) -> tuple[PyTree[Shaped[Array, "..."]], None]:
        index, arguments = piece
        return jax.tree.map(jnp.add, total, jax.lax.switch(index, branches, *arguments)), None

    task, key = jax.tree.map(lambda leaf: leaf[0, 0], pieces)
    _, terms = jax.eval_shape(lambda: model.loss(task, key=key, num_samples=num_samples))
    zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), (eqx.filter(model, eqx.is_inexact_array), terms))
    (gradients, terms), _ = jax.lax.scan(add_piece, zero, (chosen, pieces))
    return terms, gradients
