"""Predict at once, whatever the sizes: arrays are padded to one of few shapes, so that nothing is compiled anew."""

import collections
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer, Key, PRNGKeyArray, PyTree, Shaped

from mpnp.errors import InputError
from mpnp.models.contract import AbstractNeuralProcess
from mpnp.networks.predictive import Predictive
from mpnp.options import require_seed
from mpnp.pieces import piece_size
from mpnp.tasks.task import PointSet

__all__ = ["Predictor", "pad_points", "round_up", "task_count"]

ROWS_TO_COMPILE_FOR = 5_000_000
"""Rows of activations, one a task, sample and slot, from which on sizes get programs of their own."""

Targets = Shaped[Array, "..."] | Shaped[np.ndarray, "..."]


def round_up(size: int) -> int:
    """The next of 8, 12, 16, 24, 32, 48, ...: at most half as much again, and few different numbers."""
    power = 8
    while power < size:
        if size <= power * 3 // 2:
            return power * 3 // 2
        power *= 2
    return power


class Predictor:
    """A model with its number of samples and a seed, that answers in the time its arithmetic takes.

    The same question gets the same answer, and the same context the same functions, whatever the targets.
    """

    def __init__(self, model: AbstractNeuralProcess, *, num_samples: int = 10, seed: int = 0) -> None:
        if num_samples < 1:
            raise InputError(f"num_samples must be at least 1, got {num_samples}")
        require_seed(seed)
        self.model, self.num_samples, self._key = model, num_samples, jax.random.key(seed)
        self._parameters, static = eqx.partition(model, eqx.is_array)
        self._dims = model.x_dim, model.y_dim

        def predict(
            parameters: PyTree, context: PointSet, x_target: Float[Array, "target x_dim"], key: PRNGKeyArray
        ) -> Predictive:
            return eqx.combine(parameters, static).predict(context, x_target, key=key, num_samples=num_samples)

        def predict_many(
            parameters: PyTree, contexts: PointSet, x_targets: Float[Array, "task target x_dim"], keys: Key[Array, " task"]
        ) -> Predictive:
            num_tasks, num_targets = x_targets.shape[:2]
            slots = max(num_targets, contexts.mask.shape[-1])
            return jax.lax.map(
                lambda arguments: predict(parameters, *arguments),
                (contexts, x_targets, keys),
                batch_size=piece_size(model, num_tasks, slots, num_samples),
            )

        self._predict, self._predict_many = jax.jit(predict), jax.jit(predict_many)

    def __call__(self, context: PointSet, x_target: Targets, *, seed: int | None = None) -> Predictive:
        """Condition on one context and predict at the targets; another seed draws other functions."""
        self._check(context, x_target)
        padded = pad_points(context, round_up(len(context.mask)))
        targets = _pad_rows(np.asarray(x_target), round_up(len(x_target)))
        key = self._key if seed is None else jax.random.key(seed)
        answer = jax.device_get(self._predict(self._parameters, padded, targets, key))
        return jax.device_put(jax.tree.map(lambda values: values[:, : len(x_target)], answer))

    def many(
        self, contexts: Sequence[PointSet], x_targets: Sequence[Targets], *, seeds: Sequence[int] | None = None
    ) -> list[Predictive]:
        """One prediction for each context at its own targets, as if asked one by one but for the draws.

        With `seeds`, one a context, the draws too are those of being asked one by one with these seeds.
        """
        if len(contexts) != len(x_targets):
            raise InputError(
                f"every context needs its targets: got {len(contexts)} contexts and {len(x_targets)} sets of targets"
            )
        if seeds is not None and len(seeds) != len(contexts):
            raise InputError(f"every context needs its seed: got {len(contexts)} contexts and {len(seeds)} seeds")
        for context, x_target in zip(contexts, x_targets, strict=True):
            self._check(context, x_target)
        sizes = [
            (round_up(len(context.mask)), round_up(len(x_target)))
            for context, x_target in zip(contexts, x_targets, strict=True)
        ]
        answers: dict[int, Predictive] = {}
        for (context_slots, target_slots), numbers in self._group(sizes).items():
            # A group is filled up with repeats of its first tasks to a number of tasks that a program exists for.
            filled = np.resize(numbers, task_count(len(numbers)))
            stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *(pad_points(contexts[n], context_slots) for n in filled))
            targets = np.stack([_pad_rows(np.asarray(x_targets[n]), target_slots) for n in filled])
            keys = self._keys(filled, seeds)
            answer = jax.device_get(self._predict_many(self._parameters, stacked, targets, keys))
            for row, number in enumerate(numbers):
                count = len(x_targets[number])
                answers[number] = jax.tree.map(lambda values, row=row, count=count: values[row, :, :count], answer)
        return jax.device_put([answers[number] for number in range(len(contexts))])

    def _check(self, context: PointSet, x_target: Targets) -> None:
        """Refuse what the model cannot read; in the common case this only compares a few numbers."""
        shape = np.shape(x_target)
        if len(shape) != 2 or (context.x.shape[-1], context.y.shape[-1], shape[-1]) != (*self._dims, self._dims[0]):
            self.model.check_targets(context, x_target, self.num_samples)

    def _keys(self, numbers: Integer[np.ndarray, " task"], seeds: Sequence[int] | None) -> Key[Array, " task"]:
        if seeds is None:
            return jax.vmap(lambda number: jax.random.fold_in(self._key, number))(jnp.asarray(numbers))
        return jax.vmap(jax.random.key)(jnp.asarray(np.asarray(seeds, np.uint32)[numbers]))

    def _group(self, sizes: Sequence[tuple[int, int]]) -> dict[tuple[int, int], list[int]]:
        """Which tasks are computed together, by their numbers of slots.

        Few tasks share the largest sizes: to compute on padding costs less than to compile one more program.
        """
        if not sizes:
            return {}
        largest = max(context for context, _ in sizes), max(target for _, target in sizes)
        if len(sizes) * sum(largest) * self.num_samples <= ROWS_TO_COMPILE_FOR:
            return {largest: list(range(len(sizes)))}
        groups: dict[tuple[int, int], list[int]] = collections.defaultdict(list)
        for number, size in enumerate(sizes):
            groups[size].append(number)
        return groups


def task_count(count: int) -> int:
    """As many tasks as a program is compiled for: few are worth programs of their own."""
    return next((size for size in (1, 2, 4) if count <= size), round_up(count))


def pad_points(points: PointSet, size: int) -> PointSet:
    """The same points in so many slots."""
    return jax.tree.map(lambda leaf: _pad_rows(np.asarray(leaf), size), points)


def _pad_rows(rows: np.ndarray, size: int) -> np.ndarray:
    return np.concatenate([rows, np.zeros((size - len(rows), *rows.shape[1:]), rows.dtype)])
