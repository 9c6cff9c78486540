"""Student-t noise as Gaussian noise with random variance.

Noise $\\gamma T(\\nu)$ is Gaussian with variance $v = \\gamma^2/\\lambda$, $\\lambda \\sim \\Gamma(\\nu/2, \\nu/2)$. The
distribution of $v$ is discretised finely into atoms, so that sums replace integrals.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import gammaincc

from mpnp.tasks.gaussian_process import StudentTNoise

__all__ = ["NoiseAtoms", "noise_atoms"]

SMALLEST, LARGEST = 1e-3, 1e3
"""Range of the atoms' standard deviations: from far below the Gaussian noise to far above nearly all draws."""


class NoiseAtoms(eqx.Module):
    """A discrete distribution of the noise variance of one observation."""

    variances: Float[Array, " atom"]
    log_masses: Float[Array, " atom"]


def noise_atoms(noise: StudentTNoise, num_atoms: int = 96) -> NoiseAtoms:
    """Geometric bins of standard deviations, one atom at the middle of each; the outermost bins include the tails."""
    edges = np.geomspace(SMALLEST, LARGEST, num_atoms + 1)
    gamma = noise.max_gamma * (np.arange(4_000) + 0.5) / 4_000
    half = noise.degrees_of_freedom / 2
    # v < t if and only if lambda > gamma^2 / t.
    below = gammaincc(half, half * (gamma / edges[1:-1, None]) ** 2).mean(axis=1)
    masses = np.diff(below, prepend=0.0, append=1.0)
    return NoiseAtoms(jnp.asarray(edges[1:] * edges[:-1]), jnp.asarray(np.log(masses)))
