"""A task family in one file: damped waves of random frequency and phase."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from mpnp.tasks.base import AbstractProcess, FunctionFamily


class DampedWaves(AbstractProcess):
    """$e^{-x^2/4} \\sin(\\omega x + \\phi)$, observed without noise."""

    def __call__(self, x: Float[Array, "point x_dim"], key: PRNGKeyArray) -> Float[Array, "point y_dim"]:
        frequency, phase = jax.random.uniform(key, (2,), minval=1.0, maxval=6.0)
        return jnp.exp(-(x**2) / 4) * jnp.sin(frequency * x + phase)


def damped_waves() -> FunctionFamily:
    """The waves under the paper's protocol."""
    return FunctionFamily(process=DampedWaves())
