"""Predators and prey whose rates, shocks and measurement errors are unknown: a wider world than one simulator's."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from mpnp.tasks.families import AbstractTaskFamily, leading_slots
from mpnp.tasks.task import Task
from mpnp.tasks.trajectories import MIN_POINTS, standardise

__all__ = ["VariedPredation"]

LOWEST, HIGHEST = -6.0, 4.0
"""Bounds on logarithms of populations, relative to the equilibrium: no species dies out, none grows without end."""


class VariedPredation(AbstractTaskFamily):
    """Lotka–Volterra equations with random rates, a random carrying capacity and random shocks, measured with random errors.

    Logarithms u of prey and v of predators, both relative to their equilibrium, follow

        du = r (1 - exp v - k (exp u - 1)) dt + s dW,    dv = (exp u - 1) / r dt + s dW',

    in units in which small cycles last 2 pi. They are measured at random or regular times, with errors that scale with the
    population. Sizes of context and target, and the scaling, are those of `TrajectoryFamily`.
    """

    num_points: int = eqx.field(static=True, default=100)
    num_steps: int = eqx.field(static=True, default=2_000)
    cycles: tuple[float, float] = eqx.field(static=True, default=(2.0, 20.0))
    ratio: tuple[float, float] = eqx.field(static=True, default=(0.4, 2.5))
    crowding: tuple[float, float] = eqx.field(static=True, default=(0.002, 0.2))
    shocks: tuple[float, float] = eqx.field(static=True, default=(0.02, 0.6))
    errors: tuple[float, float] = eqx.field(static=True, default=(0.005, 0.4))
    x_dim: int = eqx.field(static=True, default=1)
    y_dim: int = eqx.field(static=True, default=2)

    def sample(self, key: PRNGKeyArray) -> Task:
        rates_key, path_key, time_key, error_key, size_key = jax.random.split(key, 5)
        cycles, ratio, crowding, shocks, errors = (
            _log_uniform(low, high, key)
            for (low, high), key in zip(
                (self.cycles, self.ratio, self.crowding, self.shocks, self.errors), jax.random.split(rates_key, 5), strict=True
            )
        )
        duration = 2 * math.pi * cycles
        path = self._path(duration, ratio, crowding, shocks, path_key)
        regular_key, random_key, order_key = jax.random.split(time_key, 3)
        evenly = jax.random.permutation(order_key, (jnp.arange(self.num_points) + 0.5) / self.num_points)
        by_chance = jax.random.uniform(random_key, (self.num_points,))
        moment = jnp.where(jax.random.bernoulli(regular_key), evenly, by_chance)
        measured = path[(moment * self.num_steps).astype(int)] + errors * jax.random.normal(error_key, (self.num_points, 2))

        context_key, target_key = jax.random.split(size_key)
        num_context = jax.random.randint(context_key, (), MIN_POINTS, self.num_points - MIN_POINTS)
        num_target = jax.random.randint(target_key, (), MIN_POINTS, self.num_points - num_context)
        masks = leading_slots(self.num_points, num_context, num_target)
        return standardise(moment[:, None], jnp.exp(measured), *masks)

    def _path(self, duration: Array, ratio: Array, crowding: Array, shocks: Array, key: PRNGKeyArray) -> Float[Array, "step 2"]:
        """Logarithms of predators and prey over time, by steps that keep cycles closed; it starts somewhere on a cycle."""
        start_key, shock_key = jax.random.split(key)
        step = duration / self.num_steps

        def move(state: Float[Array, " 2"], shock: Float[Array, " 2"]) -> tuple[Float[Array, " 2"], Float[Array, " 2"]]:
            predators, prey = state
            kick = jnp.sqrt(step) * shocks * shock
            # One after the other: moved together, the two would spiral outward with every cycle.
            growth = ratio * (-jnp.expm1(predators) - crowding * jnp.expm1(prey))
            prey = jnp.clip(prey + step * growth + kick[1], LOWEST, HIGHEST)
            predators = jnp.clip(predators + step * jnp.expm1(prey) / ratio + kick[0], LOWEST, HIGHEST)
            state = jnp.stack([predators, prey])
            return state, state

        return jax.lax.scan(
            move, jax.random.normal(start_key, (2,)), jax.random.normal(shock_key, (self.num_steps, 2)), unroll=4
        )[1]


def _log_uniform(low: float, high: float, key: PRNGKeyArray) -> Float[Array, ""]:
    return jnp.exp(jax.random.uniform(key, (), minval=math.log(low), maxval=math.log(high)))
