"""Task families: where tasks come from.

A family draws one task from one key. To add a family of functions, write a process, that is one sampler of function values
at given inputs, and wrap it in a `FunctionFamily`; to add anything else, write a family with its own `sample`.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Integer, PRNGKeyArray

from mpnp.errors import InputError
from mpnp.tasks.task import Task

__all__ = ["AbstractProcess", "AbstractTaskFamily", "FunctionFamily", "TargetsOnly", "leading_slots", "sample_sizes"]


class AbstractTaskFamily(eqx.Module):
    """A distribution over tasks of fixed dimensions."""

    x_dim: eqx.AbstractVar[int]
    y_dim: eqx.AbstractVar[int]

    @abc.abstractmethod
    def sample(self, key: PRNGKeyArray) -> Task:
        """Draw one task."""

    def numbered(self, index: Integer[Array, ""], key: PRNGKeyArray) -> Task:
        """The task of a number. A family of stored things may go through them in order; any other draws."""
        del index
        return self.sample(key)


class AbstractProcess(eqx.Module):
    """A stochastic process: a distribution over functions."""

    @abc.abstractmethod
    def __call__(self, x: Float[Array, "point x_dim"], key: PRNGKeyArray) -> Float[Array, "point y_dim"]:
        """Draw one function and observe it at the inputs."""


class FunctionFamily(AbstractTaskFamily):
    """Functions of a process, observed under the paper's protocol.

    Inputs are uniform in a box. The context has from 3 to `max_points` - 3 points, the target from 3 to what is left, both
    evenly and anew for each task.
    """

    process: AbstractProcess
    x_dim: int = eqx.field(static=True, default=1)
    y_dim: int = eqx.field(static=True, default=1)
    max_points: int = eqx.field(static=True, default=50)
    low: float = eqx.field(static=True, default=-2.0)
    high: float = eqx.field(static=True, default=2.0)

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
        """The part of a task's key that draws its function, from which an oracle can recover what was drawn."""
        return jax.random.split(key, 3)[2]


class TargetsOnly(AbstractTaskFamily):
    """Tasks of another family, of which only the points to be predicted count in training.

    A model that must also repeat its context, errors and all, may become too sure of what lies between. But it is by
    repeating that attention is learnt: begin with all points, and go on with these.
    """

    family: AbstractTaskFamily
    x_dim: int = eqx.field(static=True)
    y_dim: int = eqx.field(static=True)

    def __init__(self, family: AbstractTaskFamily) -> None:
        self.family, self.x_dim, self.y_dim = family, family.x_dim, family.y_dim

    def sample(self, key: PRNGKeyArray) -> Task:
        task = self.family.sample(key)
        return task.asking(task.target_mask)


def leading_slots(
    num_slots: int, num_context: Int[Array, ""], num_target: Int[Array, ""]
) -> tuple[Bool[Array, " slot"], Bool[Array, " slot"]]:
    """Masks of a context in the first slots and a target in the next."""
    slot = jnp.arange(num_slots)
    in_context = slot < num_context
    return in_context, ~in_context & (slot < num_context + num_target)


def sample_sizes(max_points: int, *, key: PRNGKeyArray, min_points: int = 3) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """$|c| \\sim U\\{3, \\dots, N - 3\\}$ and $|t| \\sim U\\{3, \\dots, N - |c|\\}$, ends included."""
    context_key, target_key = jax.random.split(key)
    num_context = jax.random.randint(context_key, (), min_points, max_points - min_points + 1)
    num_target = jax.random.randint(target_key, (), min_points, max_points - num_context + 1)
    return num_context, num_target
