"""The decoder: from an input and a representation to a Gaussian at that input."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from mpnp.networks.dense import MLP
from mpnp.networks.predictive import Predictive

__all__ = ["GaussianDecoder"]


class GaussianDecoder(eqx.Module):
    """$(\\mu, \\log\\sigma) = \\mathrm{MLP}([x; r])$ with $\\sigma = \\sigma_{min} + (1 - \\sigma_{min})\\,\\mathrm{softplus}$.

    Its arguments are the parts of the MLP's input; axes before the target axis are samples, and parts broadcast along them.
    """

    mlp: MLP
    sigma_min: float = eqx.field(static=True)

    def __call__(self, *parts: Float[Array, "..."]) -> Predictive:
        loc, raw_scale = jnp.split(self.mlp(*parts), 2, axis=-1)
        return Predictive(loc, self.sigma_min + (1 - self.sigma_min) * jax.nn.softplus(raw_scale))
