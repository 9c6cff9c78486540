"""Tasks from predator–prey trajectories, standardised by their context."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from mpnp.tasks.base import AbstractTaskFamily, leading_slots
from mpnp.tasks.task import Task

__all__ = ["SeriesFamily", "TrajectoryFamily", "standardise"]

MIN_POINTS = 15
"""Smallest context size and smallest target size."""

TINY = 1e-5


class TrajectoryFamily(AbstractTaskFamily):
    """Simulated trajectories, each observed at random events: 15 to 84 form the context, 15 to the remaining ones the target.

    Time and populations are standardised by the mean and standard deviation of the context.
    """

    events: Float[Array, "trajectory event 3"]
    counts: Int[Array, " trajectory"]
    x_dim: int = eqx.field(static=True, default=1)
    y_dim: int = eqx.field(static=True, default=2)

    def sample(self, key: PRNGKeyArray) -> Task:
        which_key, order_key, context_key, target_key = jax.random.split(key, 4)
        trajectory = jax.random.randint(which_key, (), 0, len(self.counts))
        num_slots, count = self.events.shape[1], self.counts[trajectory]
        num_context = jax.random.randint(context_key, (), MIN_POINTS, count - MIN_POINTS)
        num_target = jax.random.randint(target_key, (), MIN_POINTS, count - num_context)
        slot = jnp.arange(num_slots)
        lot = jnp.where(slot < count, jax.random.uniform(order_key, (num_slots,)), jnp.inf)
        points = self.events[trajectory][jnp.argsort(lot)]
        return standardise(points[:, :1], points[:, 1:], *leading_slots(num_slots, num_context, num_target))


class SeriesFamily(AbstractTaskFamily):
    """One observed series: a random context of 15 points to all but 15, and all other points as target."""

    x: Float[Array, "point 1"]
    y: Float[Array, "point y_dim"]
    x_dim: int = eqx.field(static=True, default=1)
    y_dim: int = eqx.field(static=True, default=2)

    def sample(self, key: PRNGKeyArray) -> Task:
        order_key, size_key = jax.random.split(key)
        num_points = len(self.x)
        order = jax.random.permutation(order_key, num_points)
        num_context = jax.random.randint(size_key, (), MIN_POINTS, num_points - MIN_POINTS)
        in_context = jnp.arange(num_points) < num_context
        return standardise(self.x[order], self.y[order], in_context, ~in_context)


def standardise(
    x: Float[Array, "point x_dim"],
    y: Float[Array, "point y_dim"],
    in_context: Bool[Array, " point"],
    in_target: Bool[Array, " point"],
) -> Task:
    """A task standardised so that its context has mean 0 and standard deviation 1 in every column."""

    def scaled(values: Float[Array, "point dim"]) -> Float[Array, "point dim"]:
        mean = jnp.mean(values, axis=0, where=in_context[:, None])
        spread = jnp.std(values, axis=0, where=in_context[:, None])
        return (values - mean) / (jnp.where(spread == 0, 1.0, spread) + TINY)

    return Task(scaled(x), scaled(y), in_context, in_target)
