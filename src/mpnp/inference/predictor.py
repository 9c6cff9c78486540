"""Fast predictions for any sizes of contexts and targets: arrays are padded to few shapes, which reuses compiled programs."""

import collections
import functools
from collections.abc import Callable, Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer, Key, PRNGKeyArray, PyTree, Shaped

from mpnp.errors import InputError
from mpnp.models.base import AbstractNeuralProcess
from mpnp.models.microbatch import microbatch_size
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.options import MOST_SAMPLES, require_count, require_seed
from mpnp.tasks.task import PointSet

__all__ = ["Predictor", "pad_points", "round_up", "task_count"]

ROWS_AT_ONCE = 65_536
"""Rows of activations (one per sample and target) that are computed at once for one task, which bounds memory."""

ROWS_TO_COMPILE_FOR = 5_000_000
"""Above this many rows of activations (one per task, sample and slot), each padded size gets its own program."""

Targets = Shaped[Array, "..."] | Shaped[np.ndarray, "..."]


def round_up(size: int) -> int:
    """The smallest of 8, 12, 16, 24, 32, 48, ... that is not below `size`.

    >>> [round_up(size) for size in (1, 9, 13, 100)]
    [8, 12, 16, 128]
    """
    power = 8
    while power < size:
        if size <= power * 3 // 2:
            return power * 3 // 2
        power *= 2
    return power


@functools.lru_cache(maxsize=64)
def _programs(static: AbstractNeuralProcess, num_samples: int) -> tuple[Callable[..., Predictive], Callable[..., Predictive]]:
    """Compiled predictions for one task and for many, shared by all models that differ in their weights only."""

    def predict(parameters: PyTree, context: PointSet, x_target: Float[Array, "target x_dim"], key: PRNGKeyArray) -> Predictive:
        return eqx.combine(parameters, static).predict(context, x_target, key=key, num_samples=num_samples)

    def predict_many(
        parameters: PyTree, contexts: PointSet, x_targets: Float[Array, "task target x_dim"], keys: Key[Array, " task"]
    ) -> Predictive:
        num_tasks, num_targets = x_targets.shape[:2]
        slots = max(num_targets, contexts.mask.shape[-1])
        return jax.lax.map(
            lambda arguments: predict(parameters, *arguments),
            (contexts, x_targets, keys),
            batch_size=microbatch_size(static, num_tasks, slots, num_samples),
        )

    return jax.jit(predict), jax.jit(predict_many)


class Predictor:
    """A compiled model with a fixed number of samples and a fixed seed.

    Predictions are deterministic, and the same context gives the same functions at any targets.
    """

    def __init__(
        self, model: AbstractNeuralProcess, *, num_samples: int = 10, seed: int = 0, rows_at_once: int = ROWS_AT_ONCE
    ) -> None:
        require_count("num_samples", num_samples, most=MOST_SAMPLES)
        require_seed(seed)
        self.model, self.num_samples, self._key = model, num_samples, jax.random.key(seed)
        self._parameters, static = eqx.partition(model, eqx.is_array)
        self._dims = model.x_dim, model.y_dim
        self.targets_at_once = max(1, rows_at_once // model.num_components(num_samples))
        """Number of targets of one task that are computed at once."""

        self._predict, self._predict_many = _programs(static, num_samples)

    def __call__(self, context: PointSet, x_target: Targets, *, seed: int | None = None) -> Predictive:
        """Condition on one context and predict at the targets. A seed replaces the predictor's own."""
        self._check(context, x_target)
        if seed is not None:
            require_seed(seed)
        return jax.device_put(self._in_chunks(context, x_target, self._key if seed is None else jax.random.key(seed)))

    def _in_chunks(self, context: PointSet, x_target: Targets, key: PRNGKeyArray) -> Predictive:
        """Predict some targets at a time. All chunks have the same key, so they are parts of the same functions."""
        padded, targets = pad_points(context, round_up(len(context.mask))), np.asarray(x_target)
        parts = []
        for start in range(0, max(len(targets), 1), self.targets_at_once):
            chunk = targets[start : start + self.targets_at_once]
            answer = jax.device_get(self._predict(self._parameters, padded, _pad_rows(chunk, round_up(len(chunk))), key))
            parts.append(jax.tree.map(lambda values, chunk=chunk: values[:, : len(chunk)], answer))
        return parts[0] if len(parts) == 1 else jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *parts)

    def many(
        self, contexts: Sequence[PointSet], x_targets: Sequence[Targets], *, seeds: Sequence[int] | None = None
    ) -> list[Predictive]:
        """Predict many tasks, each context at its own targets.

        Every task has its own random draws. With `seeds`, one per context, they are those of a single call with that seed.
        """
        if len(contexts) != len(x_targets):
            raise InputError(
                f"every context needs its targets: got {len(contexts)} contexts and {len(x_targets)} sets of targets"
            )
        if seeds is not None and len(seeds) != len(contexts):
            raise InputError(f"every context needs its seed: got {len(contexts)} contexts and {len(seeds)} seeds")
        for context, x_target in zip(contexts, x_targets, strict=True):
            self._check(context, x_target)
        answers: dict[int, Predictive] = {}
        sizes: dict[int, tuple[int, int]] = {}
        for number, (context, x_target) in enumerate(zip(contexts, x_targets, strict=True)):
            if len(x_target) > self.targets_at_once:
                answers[number] = self._in_chunks(context, x_target, self._keys(np.array([number]), seeds)[0])
            else:
                sizes[number] = round_up(len(context.mask)), round_up(len(x_target))
        for (context_slots, target_slots), numbers in self._group(sizes).items():
            # Repeat tasks until their number is one that programs are compiled for.
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
        """Raise an error if dimensions do not fit. The common case only compares a few numbers."""
        shape = np.shape(x_target)
        if len(shape) != 2 or (context.x.shape[-1], context.y.shape[-1], shape[-1]) != (*self._dims, self._dims[0]):
            self.model.check_targets(context, x_target, self.num_samples)

    def _keys(self, numbers: Integer[np.ndarray, " task"], seeds: Sequence[int] | None) -> Key[Array, " task"]:
        if seeds is None:
            return jax.vmap(lambda number: jax.random.fold_in(self._key, number))(jnp.asarray(numbers))
        return jax.vmap(jax.random.key)(jnp.asarray(np.asarray(seeds, np.uint32)[numbers]))

    def _group(self, sizes: Mapping[int, tuple[int, int]]) -> dict[tuple[int, int], list[int]]:
        """Indices of the tasks to compute together, by numbers of context and target slots.

        Few tasks are all padded to the largest size, because computing on padding costs less than compiling another program.
        """
        if not sizes:
            return {}
        largest = max(context for context, _ in sizes.values()), max(target for _, target in sizes.values())
        if len(sizes) * sum(largest) * self.num_samples <= ROWS_TO_COMPILE_FOR:
            return {largest: list(sizes)}
        groups: dict[tuple[int, int], list[int]] = collections.defaultdict(list)
        for number, size in sizes.items():
            groups[size].append(number)
        return groups


def task_count(count: int) -> int:
    """The smallest number of tasks, at least `count`, that programs are compiled for."""
    return next((size for size in (1, 2, 4) if count <= size), round_up(count))


def pad_points(points: PointSet, size: int) -> PointSet:
    """Pad the points to `size` slots."""
    return jax.tree.map(lambda leaf: _pad_rows(np.asarray(leaf), size), points)


def _pad_rows(rows: np.ndarray, size: int) -> np.ndarray:
    return np.concatenate([rows, np.zeros((size - len(rows), *rows.shape[1:]), rows.dtype)])
