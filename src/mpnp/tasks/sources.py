"""Task sources: which task is drawn at which step.

Every task has an index, and its key is derived from the source's key and that index alone. So nothing is stored: a fixed
set is a range of indices, a small set is the beginning of a large one, and a run that resumes at a step meets the very
tasks it would have met.
"""

import functools

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Integer, PRNGKeyArray

from mpnp.tasks.families import AbstractTaskFamily
from mpnp.tasks.task import Task

__all__ = ["FULL_SIZE", "TEST_SEED", "VALIDATION_SEED", "Problem", "TaskSource", "fixed_tasks", "training_indices"]


class Problem(eqx.Module):
    """What is to be learnt: where the tasks of training, of validation and of the test come from."""

    training: AbstractTaskFamily
    validation: AbstractTaskFamily
    test: AbstractTaskFamily
    data: str | None = eqx.field(static=True, default=None)
    """What stored data the tasks are cut from, for the records; nothing if they are drawn."""


class TaskSource(eqx.Module):
    """The tasks of a family, numbered."""

    family: AbstractTaskFamily
    key: PRNGKeyArray

    def task_key(self, index: Integer[Array, ""]) -> PRNGKeyArray:
        """The key that draws one task."""
        return jax.random.fold_in(jax.random.split(self.key)[0], index)

    def noise_key(self, index: Integer[Array, ""]) -> PRNGKeyArray:
        """The key for a model's own draws on one task, independent of what drew the task."""
        return jax.random.fold_in(jax.random.split(self.key)[1], index)

    def batch(self, indices: Integer[Array, " batch"]) -> Task:
        """The tasks of these numbers, drawn on the device; call it inside the compiled step."""
        return jax.vmap(lambda index: self.family.numbered(index, self.task_key(index)))(indices)


def training_indices(step: int, batch_size: int, *, num_tasks: int | None, seed: int) -> Integer[np.ndarray, " batch"]:
    """The tasks of a training step: new ones for ever, or a fixed number of them reshuffled every epoch."""
    if num_tasks is None:
        return np.arange(step * batch_size, (step + 1) * batch_size, dtype=np.uint32)
    steps_per_epoch = num_tasks // batch_size
    epoch, position = divmod(step, steps_per_epoch)
    return _shuffled(num_tasks, seed, epoch)[position * batch_size : (position + 1) * batch_size]


@functools.lru_cache(maxsize=2)
def _shuffled(num_tasks: int, seed: int, epoch: int) -> Integer[np.ndarray, " task"]:
    order = np.random.default_rng([seed, epoch]).permutation(num_tasks).astype(np.uint32)
    order.setflags(write=False)  # it is cached, and views of it are handed out
    return order


VALIDATION_SEED = 42
"""The fixed tasks that choose between checkpoints. Both seeds are those of the authors' code."""

TEST_SEED = 43
"""The fixed tasks that scores are reported on."""

FULL_SIZE = 25_600
"""Tasks in a full validation or test set."""


def fixed_tasks(family: AbstractTaskFamily, seed: int) -> TaskSource:
    """The same tasks every time; a smaller set is the beginning of a larger one."""
    return TaskSource(family, jax.random.key(seed))
