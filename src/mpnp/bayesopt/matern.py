"""A Matérn-5/2 kernel with a length per input, and its fit to the evaluations of one function."""

import dataclasses

import numpy as np
from jaxtyping import Float
from scipy.linalg.lapack import dpotrf, dpotri  # pyright: ignore[reportAttributeAccessIssue]

__all__ = ["Matern", "MaternFit", "fit_matern"]

OFFSET = 1.0
"""Prior variance of the constant mean, for standardised outputs."""

JITTER = 1e-10
"""Jitter relative to the prior variance; keeps covariances positive definite despite rounding."""

NOISE_BOUNDS = 1e-4, 2.0
"""Bounds on the noise's standard deviation, for standardised outputs."""

LENGTH_PRIOR, AMPLITUDE_PRIOR, NOISE_PRIOR = (np.log(0.5), 0.8), (np.log(1.0), 1.0), (np.log(1e-3), 3.0)
"""Means and standard deviations of the parameters' logarithms. Lengths grow with the diagonal of the box."""

STARTS = ((0.3, 1e-3), (1.0, 1e-3), (0.15, 1e-3), (0.5, 0.3))
"""Lengths, relative to the diagonal, and noise where the search for the fit may start."""

NUM_CLIMBS = 2
"""The search starts from this many of the best starts."""

NUM_ITERATIONS = 40
"""Iterations of L-BFGS at most."""

Points = Float[np.ndarray, "point input"]
Others = Float[np.ndarray, "other input"]
Parameters = Float[np.ndarray, " parameter"]
"""Logarithms of the lengths, the amplitude and the noise."""


@dataclasses.dataclass(frozen=True)
class Matern:
    """$a^2 (1 + \\sqrt5 r + \\tfrac53 r^2) e^{-\\sqrt5 r}$ with $r^2 = \\sum_i (x_i - x_i')^2 / \\ell_i^2$.

    The prior variance of the constant mean is added.
    """

    lengths: Float[np.ndarray, " input"]
    amplitude: float
    noise: float

    @property
    def variance(self) -> float:
        """Prior variance of the function at a point."""
        return self.amplitude**2 + OFFSET

    def __call__(self, a: Points, b: Others) -> Float[np.ndarray, "point other"]:
        scaled = np.sqrt(5 * self._squares(a, b))
        return self.amplitude**2 * (1 + scaled + scaled**2 / 3) * np.exp(-scaled) + OFFSET

    def slopes(self, x: Float[np.ndarray, " input"], b: Others) -> Float[np.ndarray, "other input"]:
        """Gradient of the covariance with respect to x."""
        scaled = np.sqrt(5 * self._squares(x[None], b))[0]
        radial = self.amplitude**2 * 5 / 3 * (1 + scaled) * np.exp(-scaled)
        return -radial[:, None] * (x - b) / self.lengths**2

    def _squares(self, a: Points, b: Others) -> Float[np.ndarray, "point other"]:
        a, b = a / self.lengths, b / self.lengths
        squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
        return np.maximum(squares, 0)


@dataclasses.dataclass(frozen=True)
class MaternFit:
    """The kernel of largest posterior density, and the logarithm of that density."""

    kernel: Matern
    log_density: float


def fit_matern(x: Points, z: Float[np.ndarray, " point"]) -> MaternFit:
    """Maximum a posteriori estimate of lengths, amplitude and noise, for inputs in the unit box and standardised outputs.

    Deterministic: it depends on the points alone, so a search that is resumed continues in the same way.
    """
    from scipy.optimize import minimize  # here, because it takes long to import

    num_inputs = x.shape[1]
    problem = _Problem(x, z)
    diagonal = np.sqrt(num_inputs)
    starts = [np.log([*[length * diagonal] * num_inputs, 1.0, noise]) for length, noise in STARTS]
    bounds = [(np.log(0.01), np.log(30.0))] * num_inputs + [(np.log(0.05), np.log(50.0)), tuple(np.log(NOISE_BOUNDS))]
    starts.sort(key=lambda start: problem(start)[0])
    climbs = [
        minimize(problem, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": NUM_ITERATIONS})
        for start in starts[:NUM_CLIMBS]
    ]
    best = min(climbs, key=lambda climb: float(climb.fun))
    *lengths, amplitude, noise = np.exp(best.x)
    return MaternFit(Matern(np.asarray(lengths), float(amplitude), float(noise)), -float(best.fun))


class _Problem:
    """The negative log posterior density of the parameters, with its gradient."""

    def __init__(self, x: Points, z: Float[np.ndarray, " point"]) -> None:
        self.z, self.num_inputs = z, x.shape[1]
        self.squares = ((x[:, None] - x[None]) ** 2).transpose(2, 0, 1).reshape(self.num_inputs, -1)
        """Squared distances along each input, for all pairs of points."""
        lengths = (LENGTH_PRIOR[0] + np.log(self.num_inputs) / 2, LENGTH_PRIOR[1])
        self.prior_mean, self.prior_std = np.array([lengths] * self.num_inputs + [AMPLITUDE_PRIOR, NOISE_PRIOR]).T

    def __call__(self, parameters: Parameters) -> tuple[float, Parameters]:
        size, own = len(self.z), np.diag_indices(len(self.z))
        weights = np.exp(-2 * parameters[: self.num_inputs])
        amplitude, noise = np.exp(2 * parameters[-2:])
        scaled = np.sqrt(5 * (weights @ self.squares)).reshape(size, size)
        decay = amplitude * np.exp(-scaled)
        matern = decay * (1 + scaled + scaled**2 / 3)
        covariance = matern + OFFSET
        covariance[own] += noise + JITTER * (amplitude + OFFSET)
        factor, failed = dpotrf(covariance, lower=1)
        if failed:
            return 1e10, np.zeros_like(parameters)
        inverse, _ = dpotri(factor, lower=1)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        solved = inverse @ self.z
        surprise = (parameters - self.prior_mean) / self.prior_std
        value = self.z @ solved / 2 + np.log(np.diagonal(factor)).sum() + size * np.log(2 * np.pi) / 2 + surprise @ surprise / 2
        slope = (inverse - np.outer(solved, solved)) / 2
        by_lengths = self.squares @ (slope * decay * (1 + scaled)).ravel() * weights * 5 / 3
        gradient = np.array([*by_lengths, 2 * (slope * matern).sum(), 2 * noise * slope[own].sum()])
        return float(value), gradient + surprise / self.prior_std
