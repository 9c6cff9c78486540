"""Batches worked through in pieces: same numbers, but the arrays of one piece stay in the processor's cache.

The tasks of a batch are sorted by the size of their contexts, so that a piece of small contexts is computed on few slots.
"""

import functools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree, Shaped

from mpnp.models.contract import AbstractNeuralProcess, LossTerms
from mpnp.tasks.task import Task

__all__ = ["batch_gradient", "context_sizes", "piece_size"]

ROWS = 1_000
"""Rows of activations in a piece, one a task, sample and slot: half a megabyte a layer at the paper's width. With twice as many
a small batch has too few pieces for contexts of like size to come together, which costs attentive models a fifth."""

CONTEXT_SIZES = 3
"""Numbers of context slots that a step is compiled for: each makes compiling longer and spares less work than the last."""


def piece_size(model: AbstractNeuralProcess, batch_size: int, num_slots: int, num_samples: int) -> int:
    """How many tasks to work on at once: a divisor of the batch, and as near to `ROWS` as it can."""
    components = model.num_components(num_samples)
    wanted = max(1, round(ROWS / (components * num_slots)))
    return max(size for size in range(1, wanted + 1) if batch_size % size == 0)


def context_sizes(num_slots: int, num_pieces: int) -> list[int]:
    """Numbers of context slots worth their own program, in even steps up to all of them."""
    count = min(CONTEXT_SIZES, num_pieces)
    return [math.ceil(num_slots * (i + 1) / count) for i in range(count)]


def batch_gradient(
    model: AbstractNeuralProcess, tasks: Task, keys: Key[Array, " batch"], *, num_samples: int
) -> tuple[LossTerms, PyTree[Float[Array, "..."]]]:
    """The terms of the loss, each a mean over the tasks of the batch, and the gradient of their sum."""
    batch_size, num_slots = tasks.context_mask.shape
    size = piece_size(model, batch_size, num_slots, num_samples)
    num_pieces = batch_size // size
    slots = context_sizes(num_slots, num_pieces)

    tasks = jax.vmap(Task.context_first)(tasks)
    num_context = tasks.context_mask.sum(axis=-1)
    order = jnp.argsort(num_context)
    pieces = jax.tree.map(lambda leaf: leaf[order].reshape(num_pieces, size, *leaf.shape[1:]), (tasks, keys))
    shape_index = jnp.searchsorted(jnp.asarray(slots), num_context[order].reshape(num_pieces, size).max(axis=-1))

    @eqx.filter_grad(has_aux=True)
    def gradient(model: AbstractNeuralProcess, tasks: Task, keys: Key[Array, " piece"]) -> tuple[Float[Array, ""], LossTerms]:
        loss, terms = jax.vmap(lambda task, key: model.loss(task, key=key, num_samples=num_samples))(tasks, keys)
        return loss.sum() / batch_size, jax.tree.map(lambda term: term.sum() / batch_size, terms)

    def piece_gradient(context_slots: int, tasks: Task, keys: Key[Array, " piece"]) -> tuple[PyTree, LossTerms]:
        return gradient(model, jax.vmap(lambda task: task.with_context_slots(context_slots))(tasks), keys)

    branches = [functools.partial(piece_gradient, count) for count in slots]

    def add_piece(
        total: PyTree[Shaped[Array, "..."]], piece: tuple[Int[Array, ""], tuple[Task, Key[Array, " piece"]]]
    ) -> tuple[PyTree[Shaped[Array, "..."]], None]:
        index, arguments = piece
        return jax.tree.map(jnp.add, total, jax.lax.switch(index, branches, *arguments)), None

    task, key = jax.tree.map(lambda leaf: leaf[0, 0], pieces)
    _, terms = jax.eval_shape(lambda: model.loss(task, key=key, num_samples=num_samples))
    zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), (eqx.filter(model, eqx.is_inexact_array), terms))
    (gradients, terms), _ = jax.lax.scan(add_piece, zero, (shape_index, pieces))
    return terms, gradients
