"""A likelihood in one file: the logistic distribution."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from mpnp.nn.likelihoods.distribution import AbstractDistribution, Values, namespace, special

LEVELS = (np.arange(2_000) + 0.5) / 2_000


class Logistic(AbstractDistribution):
    """The standard logistic distribution, whose cdf is the sigmoid."""

    std = math.pi / math.sqrt(3)

    def log_density(self, z: Values) -> Values:
        return -abs(z) - 2 * namespace(z).log1p(namespace(z).exp(-abs(z)))

    def cdf(self, z: Values) -> Values:
        return special(z).expit(z)

    def quantile(self, level: Values) -> Values:
        return namespace(level).log(level) - namespace(level).log1p(-level)

    def sample(self, shape: tuple[int, ...], dtype: jnp.dtype, *, key: PRNGKeyArray) -> Array:
        return jax.random.logistic(key, shape, dtype)

    def mean_absolute(self, shift: Values, scale: Values) -> Values:
        return abs(shift) + 2 * scale * namespace(shift).log1p(namespace(shift).exp(-abs(shift) / scale))

    def mean_absolute_difference(self, shift: Values, scale: Values, other: Values) -> Values:
        # No closed form: the mean over quantiles of the other.
        apart = shift[..., None] - other[..., None] * self.quantile(LEVELS).astype(shift.dtype)
        return self.mean_absolute(apart, scale[..., None]).mean(axis=-1)
