"""Student-t noise as Gaussian noise of random variance.

Noise $\\gamma T(\\nu)$ is Gaussian of variance $v = \\gamma^2/\\lambda$, $\\lambda \\sim \\Gamma(\\nu/2, \\nu/2)$. Here the
distribution of $v$ is replaced by atoms, fine enough to make no difference, so that sums take the place of integrals.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import gammaincc

from mpnp.tasks.gaussian_process import StudentTNoise

__all__ = ["NoiseAtoms", "noise_atoms"]

SMALLEST, LARGEST = 1e-3, 1e3
"""Standard deviations between which atoms lie: far below the Gaussian noise, far above nearly all draws."""


class NoiseAtoms(eqx.Module):
    """A distribution over the variance of one observation's noise."""

    variances: Float[Array, " atom"]
    log_masses: Float[Array, " atom"]


def noise_atoms(noise: StudentTNoise, num_atoms: int = 96) -> NoiseAtoms:
    """Geometric bins of standard deviations, each at its middle; the outermost hold all that is beyond."""
    edges = np.geomspace(SMALLEST, LARGEST, num_atoms + 1)
    gamma = noise.max_gamma * (np.arange(4_000) + 0.5) / 4_000
    half = noise.degrees_of_freedom / 2
    # The variance is below t where the precision is above gamma^2 / t.
    below = gammaincc(half, half * (gamma / edges[1:-1, None]) ** 2).mean(axis=1)
    masses = np.diff(below, prepend=0.0, append=1.0)
    return NoiseAtoms(jnp.asarray(edges[1:] * edges[:-1]), jnp.asarray(np.log(masses)))
