"""Task families: where tasks come from.

A family draws one task per random key. To add a family of functions, write an `AbstractProcess`, which samples function values
at given inputs, and wrap it in a `FunctionFamily`. For anything else, subclass `AbstractTaskFamily` and write its `sample`.
"""

import abc
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Integer, PRNGKeyArray

from mpnp.errors import InputError
from mpnp.tasks.protocol import FUNCTION_POINTS, FUNCTION_RANGE
from mpnp.tasks.task import Task

__all__ = [
    "AbstractProcess",
    "AbstractTaskFamily",
    "FunctionFamily",
    "Problem",
    "TEST_SEED",
    "TargetsOnly",
    "TaskSource",
    "VALIDATION_SEED",
    "fixed_tasks",
    "leading_slots",
    "sample_sizes",
    "training_indices",
]


class AbstractTaskFamily(eqx.Module):
    """A distribution over tasks of fixed dimensions."""

    x_dim: eqx.AbstractVar[int]
    y_dim: eqx.AbstractVar[int]

    @abc.abstractmethod
    def sample(self, key: PRNGKeyArray) -> Task:
        """Draw one task."""

    def numbered(self, index: Integer[Array, ""], key: PRNGKeyArray) -> Task:
        """The task with this index. Families of stored data may return their items in order; all others draw from the key."""
        del index
        return self.sample(key)


class AbstractProcess(eqx.Module):
    """A stochastic process: a distribution over functions."""

    @abc.abstractmethod
    def __call__(self, x: Float[Array, "point x_dim"], key: PRNGKeyArray) -> Float[Array, "point y_dim"]:
        """Draw one function and observe it at the inputs."""


class FunctionFamily(AbstractTaskFamily):
    """Functions drawn from a process, observed under the paper's protocol.

    Inputs are uniform in the box [`low`, `high`]. Each task draws its sizes uniformly: 3 to `max_points` - 3 context points,
    then 3 to all remaining target points.

    >>> from mpnp.tasks.registry import find_family
    >>> find_family("rbf").sample(jax.random.key(0)).x.shape
    (50, 1)
    """

    process: AbstractProcess
    x_dim: int = eqx.field(static=True, default=1)
    y_dim: int = eqx.field(static=True, default=1)
    max_points: int = eqx.field(static=True, default=FUNCTION_POINTS)
    low: float = eqx.field(static=True, default=FUNCTION_RANGE[0])
    high: float = eqx.field(static=True, default=FUNCTION_RANGE[1])

    def __check_init__(self) -> None:
        if self.max_points < 6:
            raise InputError(f"max_points must leave room for 3 context and 3 target points, got {self.max_points}")

    def sample(self, key: PRNGKeyArray) -> Task:
        sizes_key, x_key, _ = jax.random.split(key, 3)
        num_context, num_target = sample_sizes(self.max_points, key=sizes_key)
        x = jax.random.uniform(x_key, (self.max_points, self.x_dim), minval=self.low, maxval=self.high)
        y = self.process(x, self.process_key(key))
        return Task(x, y, *leading_slots(self.max_points, num_context, num_target))

    def process_key(self, key: PRNGKeyArray) -> PRNGKeyArray:
        """The subkey that draws a task's function. Oracles use it to recover the function's kernel."""
        return jax.random.split(key, 3)[2]


class TargetsOnly(AbstractTaskFamily):
    """Tasks of another family whose training loss covers the target points only.

    A model that is also trained to reproduce its noisy context can become overconfident between context points. Attention,
    however, is learnt by reproducing the context: train on all points first, then continue with this family.
    """

    family: AbstractTaskFamily
    x_dim: int = eqx.field(static=True)
    y_dim: int = eqx.field(static=True)

    def __init__(self, family: AbstractTaskFamily) -> None:
        self.family, self.x_dim, self.y_dim = family, family.x_dim, family.y_dim

    def sample(self, key: PRNGKeyArray) -> Task:
        task = self.family.sample(key)
        return task.with_loss_weights(task.target_mask)


def leading_slots(
    num_slots: int, num_context: Int[Array, ""], num_target: Int[Array, ""]
) -> tuple[Bool[Array, " slot"], Bool[Array, " slot"]]:
    """Masks with the context in the leading slots and the target right after it."""
    slot = jnp.arange(num_slots)
    in_context = slot < num_context
    return in_context, ~in_context & (slot < num_context + num_target)


def sample_sizes(max_points: int, *, key: PRNGKeyArray, min_points: int = 3) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """Context and target sizes: $|c| \\sim U\\{3, \\dots, N - 3\\}$ and $|t| \\sim U\\{3, \\dots, N - |c|\\}$, inclusive."""
    context_key, target_key = jax.random.split(key)
    num_context = jax.random.randint(context_key, (), min_points, max_points - min_points + 1)
    num_target = jax.random.randint(target_key, (), min_points, max_points - num_context + 1)
    return num_context, num_target


class Problem(eqx.Module):
    """A learning problem: the families that training, validation and test tasks come from."""

    training: AbstractTaskFamily
    validation: AbstractTaskFamily
    test: AbstractTaskFamily
    data: str | None = eqx.field(static=True, default=None)
    """Description of the stored data behind the tasks, for records; None if tasks are simulated."""


class TaskSource(eqx.Module):
    """An indexed stream of tasks: the same family, key and index always give the same task."""

    family: AbstractTaskFamily
    key: PRNGKeyArray

    def task_key(self, index: Integer[Array, ""]) -> PRNGKeyArray:
        """The key that draws the task with this index."""
        return jax.random.fold_in(jax.random.split(self.key)[0], index)

    def noise_key(self, index: Integer[Array, ""]) -> PRNGKeyArray:
        """The key for a model's own random draws on this task, independent of the key that drew the task."""
        return jax.random.fold_in(jax.random.split(self.key)[1], index)

    def batch(self, indices: Integer[Array, " batch"]) -> Task:
        """The tasks with these indices. Runs on the device, so call it inside a compiled step."""
        return jax.vmap(lambda index: self.family.numbered(index, self.task_key(index)))(indices)


def training_indices(step: int, batch_size: int, *, num_tasks: int | None, seed: int) -> Integer[np.ndarray, " batch"]:
    """Indices of a step's tasks: an endless stream, or `num_tasks` fixed tasks reshuffled every epoch."""
    if num_tasks is None:
        return np.arange(step * batch_size, (step + 1) * batch_size, dtype=np.uint32)
    steps_per_epoch = num_tasks // batch_size
    epoch, position = divmod(step, steps_per_epoch)
    return _shuffled(num_tasks, seed, epoch)[position * batch_size : (position + 1) * batch_size]


@functools.lru_cache(maxsize=2)
def _shuffled(num_tasks: int, seed: int, epoch: int) -> Integer[np.ndarray, " task"]:
    order = np.random.default_rng([seed, epoch]).permutation(num_tasks).astype(np.uint32)
    order.setflags(write=False)  # cached, and callers get views of it
    return order


VALIDATION_SEED = 42
"""Seed of the validation tasks, which select the best checkpoint. Both seeds are those of the authors' code."""

TEST_SEED = 43
"""Seed of the test tasks, on which scores are reported."""


def fixed_tasks(family: AbstractTaskFamily, seed: int) -> TaskSource:
    """A fixed set of tasks, determined by the seed. Smaller sets are prefixes of larger ones."""
    return TaskSource(family, jax.random.key(seed))
