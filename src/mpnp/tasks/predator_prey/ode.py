"""Predator–prey dynamics with random rates, shocks and measurement errors: broader than one fixed simulator."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from mpnp.tasks.base import AbstractTaskFamily, leading_slots, sample_sizes
from mpnp.tasks.predator_prey.trajectories import MIN_POINTS, standardise
from mpnp.tasks.task import Task

__all__ = ["LotkaVolterraRates", "MayRates", "VariedPredation", "follow"]

LOWEST, HIGHEST, FASTEST = -8.0, 4.0, 10.0
"""Bounds on log populations, which rule out extinction and explosion, and on their rate of change."""

Rate = Float[Array, ""]


class LotkaVolterraRates(eqx.Module):
    """Lotka–Volterra equations with crowding of the prey, in units in which small cycles have period 2 pi.

    The state is log predators w and log prey u, relative to their equilibrium.
    """

    ratio: Rate
    crowding: Rate

    def prey_growth(self, predators: Rate, prey: Rate) -> Rate:
        """du/dt."""
        return self.ratio * (-jnp.expm1(predators) - self.crowding * jnp.expm1(prey))

    def predator_growth(self, predators: Rate, prey: Rate) -> Rate:
        """dw/dt."""
        return jnp.expm1(prey) / self.ratio

    def shocks_for(self, amplitude: Rate) -> Rate:
        """Shock size at which log prey has about this standard deviation, by the linearised equations."""
        return amplitude * jnp.sqrt(2 * self.ratio * self.crowding / (1 + self.ratio**2))


class MayRates(eqx.Module):
    """May's equations, in years: predators saturate, and their carrying capacity is proportional to the prey.

    At rates estimated for hares and lynx, cycles persist without shocks.
    """

    growth: Rate
    hunger: Rate
    satiation: Rate
    turnover: Rate

    def prey_growth(self, predators: Rate, prey: Rate) -> Rate:
        """du/dt."""
        return -self.growth * jnp.expm1(prey) - self.hunger * jnp.exp(predators) / (jnp.exp(prey) + self.satiation)

    def predator_growth(self, predators: Rate, prey: Rate) -> Rate:
        """dw/dt."""
        return -self.turnover * jnp.expm1(predators - prey)


def follow(
    rates: LotkaVolterraRates | MayRates,
    start: Float[Array, " 2"],
    shocks: Float[Array, "step 2"],
    step: Rate,
) -> Float[Array, "step 2"]:
    """Integrate log predators and log prey. Shocks are standard deviations per unit time."""

    def move(state: Float[Array, " 2"], shock: Float[Array, " 2"]) -> tuple[Float[Array, " 2"], Float[Array, " 2"]]:
        predators, prey = state
        kick = jnp.sqrt(step) * shock
        # Semi-implicit: explicit Euler steps would spiral outward with every cycle.
        growth = jnp.clip(rates.prey_growth(predators, prey), -FASTEST, FASTEST)
        prey = jnp.clip(prey + step * growth + kick[1], LOWEST, HIGHEST)
        growth = jnp.clip(rates.predator_growth(predators, prey), -FASTEST, FASTEST)
        predators = jnp.clip(predators + step * growth + kick[0], LOWEST, HIGHEST)
        state = jnp.stack([predators, prey])
        return state, state

    return jax.lax.scan(move, start, shocks, unroll=4)[1]


class VariedPredation(AbstractTaskFamily):
    """Populations with random rates and shocks, by the Lotka–Volterra or May equations, as trapping records show them.

    Counts are taken at random or regular times, with multiplicative errors that differ between the species, a slow drift
    shared by both, and a delay of up to a year in one of them. The ranges cover what is generally known of such populations:
    cycles of 6 to 16 years, records of 60 to 100 years, peaks 2 to 50 times as high as troughs. Context and target sizes and
    the scaling follow `TrajectoryFamily`.
    """

    num_points: int = eqx.field(static=True, default=100)
    num_steps: int = eqx.field(static=True, default=2_000)
    burn_in: int = eqx.field(static=True, default=600)
    x_dim: int = eqx.field(static=True, default=1)
    y_dim: int = eqx.field(static=True, default=2)

    def sample(self, key: PRNGKeyArray) -> Task:
        path_key, time_key, error_key, size_key = jax.random.split(key, 4)
        path = self._path(path_key)
        moment = self._moments(time_key)
        measured = self._measure(path, moment, error_key)
        sizes = sample_sizes(self.num_points - 1, key=size_key, min_points=MIN_POINTS)  # the original leaves one point out
        masks = leading_slots(self.num_points, *sizes)
        return standardise(moment[:, None], jnp.exp(measured), *masks)

    def _path(self, key: PRNGKeyArray) -> Float[Array, "step 2"]:
        """Log predators and log prey after a burn-in."""
        which_key, rates_key, start_key, shock_key = jax.random.split(key, 4)
        shocks = jax.random.normal(shock_key, (self.burn_in + self.num_steps, 2))
        start = jax.random.normal(start_key, (2,))

        def lotka_volterra() -> Float[Array, "step 2"]:
            keys = jax.random.split(rates_key, 4)
            rates = LotkaVolterraRates(ratio=_log_uniform(0.8, 2.5, keys[0]), crowding=_log_uniform(0.02, 0.4, keys[1]))
            amplitude = jax.random.uniform(keys[2], minval=0.4, maxval=1.4)
            duration = 2 * math.pi * jax.random.uniform(keys[3], minval=5.0, maxval=14.0)
            first = amplitude * start * jnp.stack([1 / rates.ratio, jnp.ones(())])
            return follow(rates, first, rates.shocks_for(amplitude) * shocks, duration / self.num_steps)

        def may() -> Float[Array, "step 2"]:
            ranges = ((1.0, 2.5), (1.5, 4.0), (0.03, 0.15), (0.5, 1.2), (0.1, 0.5), (60.0, 100.0))
            drawn = [_log_uniform(*ends, key) for ends, key in zip(ranges, jax.random.split(rates_key, 6), strict=True)]
            *rates, strength, years = drawn
            return follow(MayRates(*rates), 0.5 * start - 1.0, strength * shocks, years / self.num_steps)

        return jnp.where(jax.random.bernoulli(which_key), lotka_volterra(), may())[self.burn_in :]

    def _moments(self, key: PRNGKeyArray) -> Float[Array, " point"]:
        """Observation times as fractions of the record, in random order."""
        regular_key, random_key, order_key = jax.random.split(key, 3)
        evenly = jax.random.permutation(order_key, (jnp.arange(self.num_points) + 0.5) / self.num_points)
        return jnp.where(jax.random.bernoulli(regular_key, 0.8), evenly, jax.random.uniform(random_key, (self.num_points,)))

    def _measure(
        self, path: Float[Array, "step 2"], moment: Float[Array, " point"], key: PRNGKeyArray
    ) -> Float[Array, "point 2"]:
        """Log counts, centred at zero."""
        keys = jax.random.split(key, 7)
        delay = jax.random.uniform(keys[0], (2,), minval=-1.0, maxval=1.0) / 80 * jnp.array([1.0, 0.0])
        slot = (jnp.clip(moment[:, None] + delay, 0.0, 0.9999) * self.num_steps).astype(int)
        seen = jnp.take_along_axis(path, slot, axis=0)
        errors = jnp.stack([_log_uniform(0.05, 0.3, keys[1]), _log_uniform(0.1, 0.5, keys[2])])
        errors = errors * jax.random.normal(keys[3], (self.num_points, 2))
        waves, phase = (
            jax.random.uniform(keys[4], minval=0.3, maxval=1.5),
            jax.random.uniform(keys[5], maxval=2 * math.pi),
        )
        drift = _log_uniform(0.05, 0.5, keys[6]) * jnp.sin(2 * math.pi * waves * moment + phase)
        counted = seen + errors + drift[:, None]
        return counted - counted.mean(axis=0)


def _log_uniform(low: float, high: float, key: PRNGKeyArray) -> Float[Array, ""]:
    return jnp.exp(jax.random.uniform(key, (), minval=math.log(low), maxval=math.log(high)))
