"""A Gaussian process that is fitted to one search: its kernel and the warp of its outputs."""

import dataclasses
import functools
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_solve, solve_triangular

from mpnp.bayesopt.matern import JITTER, OFFSET, Matern, fit_matern
from mpnp.bayesopt.surrogates import AbstractSurrogate, Candidates, Inputs, Outputs, Point, Points, Scores, Seeds, Values
from mpnp.bayesopt.warping import AbstractWarp, Linear, warps_for

__all__ = ["FittedProcess", "fit_process"]

FEWEST = 4
"""With fewer points than this, no warp is tried: a skew of so few outputs says nothing."""

CALM = 0.05
"""Standard deviation of the noise up to which a logarithm is kept: near the end it magnifies noise."""

NUM_FEATURES = 1_024
"""Random features of a sampled function's prior."""

DEGREES = 5
"""Degrees of freedom of the Matérn-5/2 kernel's spectral density, a multivariate t."""


class FittedProcess(AbstractSurrogate):
    """The posterior of one search. Moments and draws are of the noise-free function, in warped units.

    A surrogate that has been conditioned already: it ignores the points that its methods get.
    """

    def __init__(self, x: Points, z: Float[np.ndarray, " point"], kernel: Matern, warp: AbstractWarp) -> None:
        self.x, self.z, self.kernel, self.warp = x, z, kernel, warp
        covariance = kernel(x, x)
        covariance[np.diag_indices(len(x))] += kernel.noise**2 + JITTER * kernel.variance
        self._factor = np.linalg.cholesky(covariance)
        self._solved = cho_solve((self._factor, True), z)

    @property
    def fitted_means(self) -> Float[np.ndarray, " point"]:
        """Posterior means at the observed points."""
        return self.kernel(self.x, self.x) @ self._solved

    def at(self, points: Points) -> tuple[Float[np.ndarray, " point"], Float[np.ndarray, " point"]]:
        """Posterior mean and standard deviation."""
        cross = self.kernel(points, self.x)
        white = solve_triangular(self._factor, cross.T, lower=True, check_finite=False)
        variance = self.kernel.variance - (white**2).sum(axis=0)
        return cross @ self._solved, np.sqrt(np.maximum(variance, JITTER * self.kernel.variance))

    def slopes(self, point: Float[np.ndarray, " input"]) -> tuple[Float[np.ndarray, " input"], Float[np.ndarray, " input"]]:
        """Gradients of the posterior mean and variance."""
        cross, slopes = self.kernel(point[None], self.x)[0], self.kernel.slopes(point, self.x)
        return slopes.T @ self._solved, -2 * slopes.T @ cho_solve((self._factor, True), cross, check_finite=False)

    def believing(self, pending: Points) -> "FittedProcess":
        """The process that has observed its own mean at the pending points."""
        if not len(pending):
            return self
        z = np.concatenate([self.z, self.at(pending)[0]])
        return FittedProcess(np.concatenate([self.x, pending]), z, self.kernel, self.warp)

    def moments(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> tuple[Scores, Scores]:
        mean, std = self.at(candidates)
        return np.tile(mean, (len(seeds), 1)), np.tile(std, (len(seeds), 1))

    def draw(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> Scores:
        return np.stack([self._draw(candidates, int(seed)) for seed in seeds])

    def log_density(self, x: Points, z: Values, point: Point, output: float) -> float:
        """Log predictive density of an unwarped observation."""
        y, (mean, std) = np.asarray([output]), self.at(point[None])
        variance = std**2 + self.kernel.noise**2
        surprise = (self.warp.apply(y) - mean) ** 2 / variance
        return float((self.warp.log_slope(y) - (surprise + np.log(2 * np.pi * variance)) / 2)[0])

    def require_inputs(self, num_inputs: int) -> None:
        """The strategy has asked already."""

    def describe(self) -> dict[str, Any]:
        return {"model": "gp", "kernel": "matern-5/2"}

    def _draw(self, points: Points, seed: int) -> Float[np.ndarray, " point"]:
        """One function: a draw from the prior by random features, corrected at the observations (Wilson et al., 2020)."""
        rng = np.random.default_rng(seed)
        stretch = np.sqrt(DEGREES / rng.chisquare(DEGREES, NUM_FEATURES))
        waves = rng.standard_normal((NUM_FEATURES, self.x.shape[1])) * stretch[:, None] / self.kernel.lengths
        phases, weights = rng.uniform(0, 2 * np.pi, NUM_FEATURES), rng.standard_normal(NUM_FEATURES)
        level = np.sqrt(OFFSET) * rng.standard_normal()

        def prior(at: Points) -> Float[np.ndarray, " point"]:
            return level + self.kernel.amplitude * np.sqrt(2 / NUM_FEATURES) * np.cos(at @ waves.T + phases) @ weights

        residuals = self.z - prior(self.x) - self.kernel.noise * rng.standard_normal(len(self.z))
        return prior(points) + self.kernel(points, self.x) @ cho_solve((self._factor, True), residuals)


def fit_process(x: Points, y: Float[np.ndarray, " point"]) -> FittedProcess:
    """The process of largest evidence, over kernels and warps of the outputs. `y` has about unit size.

    Outputs with noise are only standardised. Fits are kept, so several questions about the same points are answered by one.
    """
    return _fit(x.shape[1], np.ascontiguousarray(x).tobytes(), np.ascontiguousarray(y).tobytes())


@functools.lru_cache(maxsize=128)
def _fit(num_inputs: int, x_bytes: bytes, y_bytes: bytes) -> FittedProcess:
    x, y = np.frombuffer(x_bytes).reshape(-1, num_inputs), np.frombuffer(y_bytes)
    fits = [_Fit.of(x, y, warp) for warp in warps_for(y)] if len(y) >= FEWEST else [_Fit.of(x, y, Linear.of(y))]
    linear, *logarithmic = fits
    best = max([linear, *(fit for fit in logarithmic if fit.kernel.noise < CALM)], key=lambda fit: fit.evidence)
    return FittedProcess(x, best.z, best.kernel, best.warp)


@dataclasses.dataclass(frozen=True)
class _Fit:
    """The kernel for outputs that were warped in one way, and the evidence for both."""

    warp: AbstractWarp
    z: Values
    kernel: Matern
    evidence: float

    @staticmethod
    def of(x: Points, y: Values, warp: AbstractWarp) -> "_Fit":
        z = warp.apply(y)
        fit = fit_matern(x, z)
        return _Fit(warp, z, fit.kernel, fit.log_density + float(warp.log_slope(y).sum()))
