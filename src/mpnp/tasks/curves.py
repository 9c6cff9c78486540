"""A broad prior over curves of one input, for a model that is to read any curve.

Each task draws its own kind of function: smooth or rough, short or long, periodic, trending, changing at a point, and its own
noise: of any size, growing along the curve, or with outliers. Outputs are scaled by the context, as they are in use.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from mpnp.tasks.base import AbstractTaskFamily, leading_slots
from mpnp.tasks.protocol import CURVE_POINTS
from mpnp.tasks.task import Task

__all__ = ["CurvePrior", "CurveProcess", "context_scale", "log_uniform"]

JITTER = 1e-4
"""Relative variance added to kernels, which single precision needs."""

FARTHEST_OUTPUT = 30.0
"""Targets farther from the context's mean, in its standard deviations, do not count: they would drown all others."""


def context_scale(y: Float[Array, "point 1"], mask: Bool[Array, " point"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Mean and standard deviation of the context's outputs; 0 and 1 where there are too few to estimate them."""
    count = mask.sum()
    mean = jnp.sum(y[:, 0], where=mask) / jnp.maximum(count, 1)
    std = jnp.sqrt(jnp.sum((y[:, 0] - mean) ** 2, where=mask) / jnp.maximum(count, 1))
    return mean, jnp.where((count > 1) & (std > 0), std, 1)


class CurveProcess(eqx.Module):
    """Draws a kernel and a noise level, then one curve at the inputs."""

    def __call__(self, x: Float[Array, " point"], key: PRNGKeyArray) -> tuple[Float[Array, " point"], Float[Array, " point"]]:
        """The noise-free curve and its observations."""
        kernel_key, draw_key, noise_key, trend_key = jax.random.split(key, 4)
        covariance = self.covariance(x, kernel_key)
        variance = jnp.mean(jnp.diagonal(covariance))
        factor = jnp.linalg.cholesky(covariance + JITTER * variance * jnp.eye(len(x)))
        curve = factor @ jax.random.normal(draw_key, x.shape) + _trend(x, trend_key)
        return curve, curve + _noise(x, noise_key) * jnp.sqrt(variance)

    def covariance(self, x: Float[Array, " point"], key: PRNGKeyArray) -> Float[Array, "point point"]:
        """A random kernel at the inputs: of one component, a sum, a product, or two with a change between them."""
        first_key, second_key, how_key, warp_key, change_key = jax.random.split(key, 5)
        warped = _warp(x, warp_key)
        first, second = _component(warped, first_key), _component(x, second_key)
        at, width = jax.random.uniform(change_key, (2,), minval=jnp.array([-1.5, 0.0]), maxval=jnp.array([1.5, 0.2]))
        after = jax.nn.sigmoid((x - at) / (width + 1e-3))
        change = (1 - after)[:, None] * (1 - after) * first + after[:, None] * after * second
        how = jax.random.choice(how_key, 4, p=jnp.array([0.5, 0.3, 0.1, 0.1]))
        return jnp.select([how == 0, how == 1, how == 2], [first, first + second, first * second], change)


def _component(x: Float[Array, " point"], key: PRNGKeyArray) -> Float[Array, "point point"]:
    """A stationary kernel, possibly with a period."""
    length_key, scale_key, kind_key, period_key, shape_key = jax.random.split(key, 5)
    gap = jnp.abs(x[:, None] - x)
    length = log_uniform(length_key, 0.04, 4.0)
    distance = gap / length
    kinds = jnp.stack(
        [
            jnp.exp(-0.5 * distance**2),
            jnp.exp(-distance),
            (1 + jnp.sqrt(3.0) * distance) * jnp.exp(-jnp.sqrt(3.0) * distance),
            (1 + jnp.sqrt(5.0) * distance + 5 / 3 * distance**2) * jnp.exp(-jnp.sqrt(5.0) * distance),
            1 / (1 + 0.5 * distance**2),
        ]
    )
    # A fourth of all components repeat themselves, exactly or nearly so.
    kind = jax.random.choice(kind_key, 6, p=jnp.array([0.25, 0.1, 0.1, 0.2, 0.1, 0.25]))
    period, roughness = log_uniform(period_key, 0.15, 3.0), log_uniform(shape_key, 0.4, 3.0)
    repeating = jnp.exp(-2 * (jnp.sin(jnp.pi * gap / period) / roughness) ** 2 - 0.5 * (gap / (8 * jnp.sqrt(length))) ** 2)
    return log_uniform(scale_key, 0.3, 1.5) ** 2 * jnp.where(kind == 5, repeating, kinds[jnp.minimum(kind, 4)])


def _warp(x: Float[Array, " point"], key: PRNGKeyArray) -> Float[Array, " point"]:
    """Inputs run faster in some places than in others, for a third of all curves."""
    whether, strength, place = jax.random.uniform(key, (3,))
    frequency = 1.2
    bend = 0.9 * strength / frequency * jnp.sin(frequency * x + 2 * jnp.pi * place)
    return x + jnp.where(whether < 1 / 3, bend, 0)


def _trend(x: Float[Array, " point"], key: PRNGKeyArray) -> Float[Array, " point"]:
    """A line, for a third of all curves."""
    whether_key, slope_key = jax.random.split(key)
    return jnp.where(jax.random.uniform(whether_key) < 1 / 3, jax.random.normal(slope_key), 0) * x


def _noise(x: Float[Array, " point"], key: PRNGKeyArray) -> Float[Array, " point"]:
    """Noise relative to the curve's deviation; it changes along a fourth of all curves, and a fifth have outliers."""
    level_key, kind_key, draw_key, tail_key, place_key = jax.random.split(key, 5)
    level = log_uniform(level_key, 0.01, 1.0)
    changing, outlying = jax.random.uniform(kind_key, (2,)) < jnp.array([0.25, 0.2])
    slope, place = jax.random.normal(place_key, (2,))
    growth = jnp.where(changing, jnp.exp(jnp.tanh(slope * (x - place))), 1)
    heavy = jnp.clip(jax.random.t(tail_key, 3.0, x.shape), -20, 20)
    return level * growth * jnp.where(outlying, heavy, jax.random.normal(draw_key, x.shape))


class CurvePrior(AbstractTaskFamily):
    """Curves observed at regular, random or clustered inputs, to be completed anywhere, beyond an end or in a gap."""

    process: CurveProcess = CurveProcess()
    max_points: int = eqx.field(static=True, default=CURVE_POINTS)
    x_dim: int = eqx.field(static=True, default=1)
    y_dim: int = eqx.field(static=True, default=1)

    def sample(self, key: PRNGKeyArray) -> Task:
        sizes_key, x_key, order_key, process_key = jax.random.split(key, 4)
        num_context, num_target = self._sizes(sizes_key)
        x = self._inputs(num_context + num_target, x_key)
        x = x[_order(x, num_context, num_context + num_target, order_key)]
        _, y = self.process(x, process_key)
        context, target = leading_slots(self.max_points, num_context, num_target)
        mean, std = context_scale(y[:, None], context)
        scaled = ((y - mean) / std)[:, None]
        counted = jnp.isfinite(scaled[:, 0]) & (jnp.abs(scaled[:, 0]) < FARTHEST_OUTPUT)
        scaled = jnp.where(counted[:, None], scaled, 0)
        return Task(x[:, None], scaled, context & counted, target & counted)

    def _sizes(self, key: PRNGKeyArray) -> tuple[Int[Array, ""], Int[Array, ""]]:
        """Contexts of any order of magnitude are equally frequent, from none to three quarters of all points."""
        context_key, target_key = jax.random.split(key)
        most = self.max_points * 3 // 4
        num_context = jnp.floor(jnp.exp(jax.random.uniform(context_key, maxval=jnp.log(most + 1.0)))).astype(int) - 1
        return num_context, jax.random.randint(target_key, (), 8, self.max_points // 4 + 1)

    def _inputs(self, count: Int[Array, ""], key: PRNGKeyArray) -> Float[Array, " point"]:
        """Inputs in [-2, 2], as many as slots; those beyond the count are not used."""
        kind_key, uniform_key, cluster_key, centre_key = jax.random.split(key, 4)
        slots = jnp.arange(self.max_points)
        regular = -2 + 4 * (slots + 0.5) / count
        anywhere = jax.random.uniform(uniform_key, (self.max_points,), minval=-2, maxval=2)
        centres = jax.random.uniform(centre_key, (4,), minval=-2, maxval=2)
        clustered = jnp.clip(centres[slots % 4] + 0.3 * jax.random.normal(cluster_key, (self.max_points,)), -2, 2)
        kind = jax.random.choice(kind_key, 3, p=jnp.array([0.4, 0.45, 0.15]))
        return jnp.select([kind == 0, kind == 1], [regular, anywhere], clustered)


def _order(
    x: Float[Array, " point"], num_context: Int[Array, ""], count: Int[Array, ""], key: PRNGKeyArray
) -> Int[Array, " point"]:
    """Which inputs come first, and so are the context: any, those before an end, or those around a gap."""
    kind_key, shuffle_key, flip_key, gap_key = jax.random.split(key, 4)
    unused = jnp.arange(len(x)) >= count
    shuffled = jax.random.uniform(shuffle_key, x.shape)
    forecast = x * jnp.where(jax.random.bernoulli(flip_key, 0.8), 1, -1)
    gap = -jnp.abs(x - jax.random.uniform(gap_key, minval=-1.5, maxval=1.5))
    kind = jax.random.choice(kind_key, 3, p=jnp.array([0.55, 0.3, 0.15]))
    return jnp.argsort(jnp.where(unused, jnp.inf, jnp.select([kind == 0, kind == 1], [shuffled, forecast], gap)))


def log_uniform(key: PRNGKeyArray, low: float, high: float, shape: tuple[int, ...] = ()) -> Float[Array, "*shape"]:
    """Numbers of any order of magnitude within the bounds."""
    return jnp.exp(jax.random.uniform(key, shape, minval=jnp.log(low), maxval=jnp.log(high)))
