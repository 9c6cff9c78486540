"""A broad prior over functions of one to six inputs, for a model that searches them for their minimum.

Each task draws its own kind of function: smooth or rough, with a length per input, a sum of parts that read one input each or
not, bent, on a bowl, rippled, skewed; and its own noise, or none. Unused inputs are 0. Outputs are scaled by the context, as a
search does.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from mpnp.tasks.base import AbstractTaskFamily, leading_slots
from mpnp.tasks.curves import context_scale, log_uniform
from mpnp.tasks.protocol import FUNCTION_POINTS, FUNCTION_RANGE, MOST_SURFACE_INPUTS
from mpnp.tasks.task import Task

__all__ = ["Surface", "SurfacePrior"]

NUM_WAVES = 256
"""Random waves whose sum is a draw of a stationary process."""

FEWEST = 4
"""Points of the smallest context: a search starts with some."""

NUM_TARGETS = 6, 16
"""Fewest and most points to predict."""

FARTHEST_OUTPUT = 8.0
"""Points farther from the context's mean, in its standard deviations, do not count: they would drown all others."""

SPREAD = 8
"""Points all over the box before a search comes back to the lowest of them."""

Inputs = Float[Array, "point input"]


def _chance(key: PRNGKeyArray, probability: float) -> Bool[Array, ""]:
    return jax.random.bernoulli(key, probability)


class Surface(eqx.Module):
    """One function, which can be evaluated anywhere: waves, a bowl and ripples, of bent inputs."""

    waves: Float[Array, "wave input"]
    phases: Float[Array, " wave"]
    bends: Float[Array, "input 2"]
    """Strength and place of the bend of each input: functions run faster on one side of it."""
    bowl: Float[Array, "input 2"]
    """Curvature and bottom along each input."""
    ripples: Float[Array, "input 3"]
    """Height, frequency and phase along each input."""

    @staticmethod
    def draw(used: Bool[Array, " input"], key: PRNGKeyArray) -> "Surface":
        """A random function of some of the inputs."""
        wave_key, phase_key, bend_key, bowl_key, ripple_key = jax.random.split(key, 5)
        return Surface(
            waves=_waves(used, wave_key),
            phases=jax.random.uniform(phase_key, (NUM_WAVES,), maxval=2 * jnp.pi),
            bends=_bends(len(used), bend_key),
            bowl=_bowl(used, bowl_key),
            ripples=_ripples(used, ripple_key),
        )

    def __call__(self, x: Inputs) -> Float[Array, " point"]:
        """Values at points of the box."""
        strength, place = self.bends.T
        bent = x + strength * (jnp.sqrt(1 + (x - place) ** 2) - jnp.sqrt(1 + place**2))  # 0 stays 0
        smooth = jnp.sqrt(2 / NUM_WAVES) * jnp.cos(bent @ self.waves.T + self.phases).sum(axis=-1)
        curvature, bottom = self.bowl.T
        height, frequency, phase = self.ripples.T
        return smooth + ((x - bottom) ** 2 @ curvature) + jnp.cos(frequency * x + phase) @ height


def _waves(used: Bool[Array, " input"], key: PRNGKeyArray) -> Float[Array, "wave input"]:
    """Angular frequencies: those of a Matérn or an RBF kernel, for a third of all functions of one input each."""
    kind_key, tail_key, draw_key, length_key, each_key, idle_key, sum_key, input_key = jax.random.split(key, 8)
    degrees = jnp.array([3.0, 5.0, jnp.inf])[jax.random.choice(kind_key, 3, p=jnp.array([0.15, 0.5, 0.35]))]
    finite = jnp.where(jnp.isinf(degrees), 5.0, degrees)
    heavy = jnp.sqrt(finite / (2 * jax.random.gamma(tail_key, finite / 2, (NUM_WAVES, 1))))
    stretch = jnp.where(jnp.isinf(degrees), 1.0, heavy)
    count = used.sum()
    each = jnp.exp(0.5 * jax.random.normal(each_key, used.shape))
    idle = jnp.where(jax.random.bernoulli(idle_key, 0.15, used.shape), 10.0, 1.0)
    lengths = log_uniform(length_key, 0.3, 4.0) * jnp.sqrt(count) * each * idle
    waves = stretch * jax.random.normal(draw_key, (NUM_WAVES, len(used))) / lengths
    only = jax.nn.one_hot(jax.random.choice(input_key, len(used), (NUM_WAVES,), p=used / count), len(used))
    return jnp.where(_chance(sum_key, 1 / 3), only * jnp.sqrt(count), 1.0) * waves * used


def _bends(num_inputs: int, key: PRNGKeyArray) -> Float[Array, "input 2"]:
    """For two fifths of all functions; the rest are straight."""
    whether_key, strength_key, place_key = jax.random.split(key, 3)
    strength = jnp.where(_chance(whether_key, 0.4), jax.random.uniform(strength_key, (num_inputs,), minval=-0.9, maxval=0.9), 0)
    return jnp.stack([strength, jax.random.uniform(place_key, (num_inputs,), minval=-2, maxval=2)], axis=1)


def _bowl(used: Bool[Array, " input"], key: PRNGKeyArray) -> Float[Array, "input 2"]:
    """For half of all functions."""
    whether_key, size_key, each_key, place_key = jax.random.split(key, 4)
    curvature = log_uniform(size_key, 0.1, 2.0) * jnp.exp(0.7 * jax.random.normal(each_key, used.shape))
    curvature = jnp.where(_chance(whether_key, 0.5), curvature, 0) * used / jnp.sqrt(used.sum())
    return jnp.stack([curvature, jax.random.uniform(place_key, used.shape, minval=-1.8, maxval=1.8)], axis=1)


def _ripples(used: Bool[Array, " input"], key: PRNGKeyArray) -> Float[Array, "input 3"]:
    """For a fifth of all functions."""
    whether_key, height_key, frequency_key, phase_key = jax.random.split(key, 4)
    height = jnp.where(_chance(whether_key, 0.2), log_uniform(height_key, 0.1, 1.0), 0) * used / jnp.sqrt(used.sum())
    frequency = jnp.broadcast_to(log_uniform(frequency_key, 1.5, 10.0), used.shape)
    return jnp.stack([height, frequency, jax.random.uniform(phase_key, used.shape, maxval=2 * jnp.pi)], axis=1)


class SurfacePrior(AbstractTaskFamily):
    """Functions of one to six inputs, observed all over the box or as a search does: more and more near their minimum."""

    x_dim: int = eqx.field(static=True, default=MOST_SURFACE_INPUTS)
    y_dim: int = eqx.field(static=True, default=1)
    max_points: int = eqx.field(static=True, default=FUNCTION_POINTS)

    def sample(self, key: PRNGKeyArray) -> Task:
        used_key, sizes_key, surface_key, x_key, order_key, skew_key, noise_key = jax.random.split(key, 7)
        used = jnp.arange(self.x_dim) < jax.random.randint(used_key, (), 1, self.x_dim + 1)
        num_context, num_target = self._sizes(sizes_key)
        surface = Surface.draw(used, surface_key)
        x = self._inputs(surface, used, x_key)
        x = x[jnp.argsort(jax.random.uniform(order_key, (len(x),)))]
        y = _skewed(surface(x), skew_key)
        y = y + _noise(len(x), noise_key) * jnp.std(y)
        context, target = leading_slots(self.max_points, num_context, num_target)
        mean, std = context_scale(y[:, None], context)
        scaled = (y - mean) / std
        counted = jnp.isfinite(scaled) & (jnp.abs(scaled) < FARTHEST_OUTPUT)
        return Task(x, jnp.where(counted, scaled, 0)[:, None], context & counted, target & counted)

    def _sizes(self, key: PRNGKeyArray) -> tuple[Int[Array, ""], Int[Array, ""]]:
        """Contexts of any order of magnitude are equally frequent."""
        context_key, target_key = jax.random.split(key)
        fewest, most = NUM_TARGETS
        largest = self.max_points - fewest
        num_context = jnp.floor(log_uniform(context_key, float(FEWEST), largest + 1.0)).astype(int)
        return num_context, jax.random.randint(target_key, (), fewest, jnp.minimum(most, self.max_points - num_context) + 1)

    def _inputs(self, surface: Surface, used: Bool[Array, " input"], key: PRNGKeyArray) -> Inputs:
        """Points all over the box, of which for two thirds of all functions some are moved towards the lowest of the first."""
        anywhere_key, whether_key, share_key, near_key, step_key, distance_key = jax.random.split(key, 6)
        low, high = FUNCTION_RANGE
        shape = self.max_points, self.x_dim
        anywhere = jax.random.uniform(anywhere_key, shape, minval=low, maxval=high) * used
        lowest = anywhere[jnp.argmin(surface(anywhere[:SPREAD]))]
        steps = log_uniform(distance_key, 0.01, 1.0, (self.max_points, 1)) * jax.random.normal(step_key, shape)
        near = jax.random.uniform(near_key, (self.max_points, 1)) < 0.7 * jax.random.uniform(share_key)
        near = near & _chance(whether_key, 2 / 3) & (jnp.arange(self.max_points) >= SPREAD)[:, None]
        return jnp.where(near, jnp.clip(lowest + steps, low, high) * used, anywhere)


def _skewed(y: Float[Array, " point"], key: PRNGKeyArray) -> Float[Array, " point"]:
    """Large outputs are spread apart for two fifths of all functions, and small ones for a tenth: costs are mostly skewed."""
    whether_key, strength_key = jax.random.split(key)
    strength = log_uniform(strength_key, 0.2, 2.0)
    sign = jnp.array([0.0, 1.0, -1.0])[jax.random.choice(whether_key, 3, p=jnp.array([0.5, 0.4, 0.1]))]
    z = (y - jnp.mean(y)) / (jnp.std(y) + 1e-6)
    return jnp.where(sign == 0, z, sign * jnp.expm1(sign * strength * z) / strength)


def _noise(count: int, key: PRNGKeyArray) -> Float[Array, " point"]:
    """Noise relative to the function's deviation, for half of all functions."""
    whether_key, level_key, draw_key = jax.random.split(key, 3)
    level = jnp.where(_chance(whether_key, 0.5), log_uniform(level_key, 0.01, 1.0), 0)
    return level * jax.random.normal(draw_key, (count,))
