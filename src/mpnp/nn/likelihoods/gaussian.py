"""The Gaussian likelihood, which the paper uses."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from mpnp.nn.likelihoods.distribution import AbstractDistribution, Values, namespace, special

__all__ = ["Gaussian"]


class Gaussian(AbstractDistribution):
    """The standard normal distribution."""

    std = 1.0

    def log_density(self, z: Values) -> Values:
        return -(z**2) / 2 - math.log(2 * math.pi) / 2

    def cdf(self, z: Values) -> Values:
        return special(z).ndtr(z)

    def quantile(self, level: Values) -> Values:
        return special(level).ndtri(level)

    def sample(self, shape: tuple[int, ...], dtype: jnp.dtype, *, key: PRNGKeyArray) -> Array:
        return jax.random.normal(key, shape, dtype)

    def mean_absolute(self, shift: Values, scale: Values) -> Values:
        ratio = shift / scale
        density = namespace(ratio).exp(self.log_density(ratio))
        return 2 * scale * density + shift * (2 * self.cdf(ratio) - 1)

    def mean_absolute_difference(self, shift: Values, scale: Values, other: Values) -> Values:
        return self.mean_absolute(shift, namespace(scale).sqrt(scale**2 + other**2))
