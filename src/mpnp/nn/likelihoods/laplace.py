"""The Laplace likelihood. Its tails are heavier than the Gaussian's, so outliers affect predictions less."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from mpnp.nn.likelihoods.distribution import AbstractDistribution, Values, namespace

__all__ = ["Laplace"]


class Laplace(AbstractDistribution):
    """The standard Laplace distribution, with density $e^{-|z|} / 2$."""

    std = math.sqrt(2)

    def log_density(self, z: Values) -> Values:
        return -abs(z) - math.log(2)

    def cdf(self, z: Values) -> Values:
        xp = namespace(z)
        tail = xp.exp(-abs(z)) / 2
        return xp.where(z < 0, tail, 1 - tail)

    def quantile(self, level: Values) -> Values:
        xp = namespace(level)
        centred = level - 0.5
        return -xp.sign(centred) * xp.log1p(-2 * abs(centred))

    def sample(self, shape: tuple[int, ...], dtype: jnp.dtype, *, key: PRNGKeyArray) -> Array:
        return jax.random.laplace(key, shape, dtype)

    def mean_absolute(self, shift: Values, scale: Values) -> Values:
        distance = abs(shift)
        return distance + scale * namespace(shift).exp(-distance / scale)

    def mean_absolute_difference(self, shift: Values, scale: Values, other: Values) -> Values:
        # As a function of the shift, its second derivative is twice the density of sZ - s'Z', and it tends to |shift|. With
        # g(s) = s^3 exp(-|shift| / s) it is |shift| + (g(s) - g(s')) / (s^2 - s'^2); for nearly equal scales, use the limit.
        xp, distance = namespace(shift), abs(shift)
        gap, middle = scale**2 - other**2, (scale + other) / 2
        alike = abs(gap) < 1e-2 * middle**2
        apart = (scale**3 * xp.exp(-distance / scale) - other**3 * xp.exp(-distance / other)) / xp.where(alike, 1, gap)
        return distance + xp.where(alike, (3 * middle + distance) / 2 * xp.exp(-distance / middle), apart)
