"""The decoder: maps inputs and features to the location and scale of the outputs."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from mpnp.nn.likelihoods.calibration import Calibration
from mpnp.nn.likelihoods.distribution import AbstractDistribution
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.nn.linear import MLP

__all__ = ["Decoder"]


class Decoder(eqx.Module):
    """$(\\mu, s) = \\mathrm{MLP}([x; r])$, and the standard deviation $\\sigma_{min} + (1 - \\sigma_{min})\\log(1 + e^s)$.

    It reads the first `direct_dim` dimensions of the input, and any further features. Axes before the target axis are samples,
    along which its arguments broadcast.
    `distribution` is the shape of the likelihood, which location and scale shift and stretch.
    """

    mlp: MLP
    x_dim: int = eqx.field(static=True)
    y_dim: int = eqx.field(static=True)
    direct_dim: int = eqx.field(static=True)
    sigma_min: float = eqx.field(static=True)
    distribution: AbstractDistribution = eqx.field(static=True)
    calibration: Calibration | None = eqx.field(static=True, default=None)

    def __call__(self, x: Float[Array, "*#sample target x_dim"], *features: Float[Array, "..."]) -> Predictive:
        loc, raw_scale = jnp.split(self.mlp(x[..., : self.direct_dim], *features), 2, axis=-1)
        std = self.sigma_min + (1 - self.sigma_min) * jax.nn.softplus(raw_scale)
        if self.calibration is not None:
            std = self.calibration(std)
        return Predictive(loc, std / self.distribution.std, self.distribution)
