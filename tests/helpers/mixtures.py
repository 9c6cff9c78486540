"""What a mixture of Gaussians is, by definition and in double precision."""

import jax
import numpy as np
from scipy import stats

from mpnp.nn.likelihoods.predictive import Predictive


def component_densities(predictive: Predictive, y: jax.Array) -> np.ndarray:
    """Log densities by sample and target, in double precision: outputs of one target are independent given the function."""
    loc, scale, y = (np.asarray(part, np.float64) for part in (predictive.loc, predictive.scale, y))
    return np.sum(-(((y - loc) / scale) ** 2) / 2 - np.log(scale * np.sqrt(2 * np.pi)), axis=-1)


def mixture_cdf(predictive: Predictive, values: np.ndarray) -> np.ndarray:
    """Distribution function at values along a leading axis, for each target and output."""
    loc, scale = (np.asarray(part, np.float64)[:, None] for part in (predictive.loc, predictive.scale))
    return stats.norm.cdf(values, loc, scale).mean(axis=0)


def integrated_crps(predictive: Predictive, y: jax.Array) -> np.ndarray:
    """The score's definition, integrated on a grid far wider and finer than the mixture."""
    reach = np.abs(predictive.loc).max() + np.abs(y).max() + 8 * predictive.scale.max()
    grid = np.linspace(-reach, reach, 20_001)[:, None, None]
    return np.trapezoid((mixture_cdf(predictive, grid) - (grid >= np.asarray(y))) ** 2, grid, axis=0)
