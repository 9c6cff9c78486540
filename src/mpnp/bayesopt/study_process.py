"""A Gaussian process that learns from past searches what functions of a family have in common."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from mpnp.bayesopt.surrogates import (
    AbstractSurrogate,
    Candidates,
    Inputs,
    Outputs,
    Point,
    Points,
    Scores,
    Seeds,
    Values,
    normal_log_density,
)
from mpnp.errors import InputError
from mpnp.nn.likelihoods.distribution import namespace

__all__ = ["ProcessOfSearches"]

MOST_SEARCHES, MOST_POINTS = 200, 48
"""Past searches to learn from, and points of each: drawn at random if there are more."""

MOST_QUADRATIC = 8
"""With more inputs than these, the surface is linear."""

NUM_ITERATIONS = 150
"""Iterations of L-BFGS at most."""

JITTER = 1e-9
"""Jitter relative to the process's variance; keeps covariances positive definite despite rounding."""

SMALLEST, LARGEST = np.log(1e-5), np.log(30.0)
"""Bounds on logarithms of lengths and standard deviations."""

LENGTH, AMPLITUDE, NOISE, SPREAD, SCALES = 0.5, 0.5, 0.1, 0.5, 0.3
"""Where the search for the parameters starts."""

NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
"""Quadrature over the logarithm of a function's scale, in standard deviations."""

PENALTY = 1e-3
"""On squared parameters, relative to the log-likelihood of one search."""

Parameters = dict[str, Any]
"""Logarithms of lengths, amplitude, noise, spread of scales and spread of the surface's coefficients, and the mean of these."""


class ProcessOfSearches(AbstractSurrogate):
    """A quadratic surface whose coefficients differ from function to function, plus a Matérn-5/2 process, plus noise.

    Everything is multiplied by the function's scale, which is lognormal and integrated over. All parameters maximise the joint
    likelihood of the past searches: mean and spread of the coefficients, a length for each input, amplitude, noise, and the
    spread of scales. Moments and draws are of the noise-free function.
    """

    def __init__(self, searches: Sequence[tuple[Points, Values]], *, seed: int = 0) -> None:
        """Learn from points in the unit box and their outputs, which are about standardised over all searches together."""
        searches = [(np.asarray(x, np.float64), np.asarray(z, np.float64)) for x, z in searches if len(z)]
        if not searches:
            raise InputError("there are no past searches to learn from")
        self.num_inputs = searches[0][0].shape[1]
        self.searches = _choose(searches, np.random.default_rng(seed))
        self.parameters = _learn(self.searches, self.num_inputs)

    def moments(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> tuple[Scores, Scores]:
        prior = _prior_variance(self.parameters, candidates)
        loops = [self._condition(*pair, candidates) for pair in zip(x, z, strict=True)]
        moments = [one.moments(prior) for one in loops]
        return np.stack([mean for mean, _ in moments]), np.stack([std for _, std in moments])

    def draw(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> Scores:
        rows, prior = [], _covariance(self.parameters, candidates, candidates)
        jitter = 10 * _jitter(self.parameters) * np.eye(len(candidates))
        for points, outputs, seed in zip(x, z, seeds, strict=True):
            rng, given = np.random.default_rng(seed), self._condition(points, outputs, candidates)
            number = rng.choice(len(given.scales), p=given.weights)
            factor = np.linalg.cholesky(prior - given.white.T @ given.white + jitter)
            rows.append(given.means[number] + given.scales[number] * factor @ rng.standard_normal(len(candidates)))
        return np.stack(rows)

    def log_density(self, x: Points, z: Values, point: Point, output: float) -> float:
        given = self._condition(x, z, point[None])
        variance = _prior_variance(self.parameters, point[None])[0] - (given.white**2).sum() + _noise_variance(self.parameters)
        parts = [
            normal_log_density(output, float(mean), float(scale * np.sqrt(variance)))
            for mean, scale in zip(given.means[:, 0], given.scales, strict=True)
        ]
        return float(np.logaddexp.reduce(np.log(given.weights) + parts))

    def expected_in_each(self, points: Candidates) -> Float[np.ndarray, "search candidate"]:
        """What each of the past functions is expected to be at these points, given its search."""
        seed = np.zeros(1, np.uint32)
        return np.stack([self.moments(x[None], z[None], points, seed)[0][0] for x, z in self.searches])

    def require_inputs(self, num_inputs: int) -> None:
        if num_inputs != self.num_inputs:
            raise InputError(f"the bounds have {num_inputs} inputs, but past searches had {self.num_inputs}")

    def describe(self) -> dict[str, Any]:
        rounded = {name: np.round(np.asarray(part, float), 4).tolist() for name, part in self.parameters.items()}
        return {"model": "process of past searches", **rounded}

    def _condition(self, x: Points, z: Values, candidates: Candidates) -> "_Conditioned":
        """Posterior means and weights for each scale."""
        noise = _noise_variance(self.parameters) * np.eye(len(x))
        factor = np.linalg.cholesky(_covariance(self.parameters, x, x) + noise)
        white = np.linalg.solve(factor, _covariance(self.parameters, x, candidates))
        surface = np.linalg.solve(factor, _surface(x) @ self.parameters["mean"])
        outputs, scales = np.linalg.solve(factor, z), np.exp(NODES * np.exp(self.parameters["scales"]))
        rest = outputs - scales[:, None] * surface
        weights = np.log(NODE_WEIGHTS) - (rest**2).sum(axis=1) / (2 * scales**2) - len(z) * np.log(scales)
        weights = np.exp(np.maximum(weights - weights.max(), -600))
        means = scales[:, None] * (_surface(candidates) @ self.parameters["mean"]) + rest @ white
        return _Conditioned(means, white, scales, weights / weights.sum())


@dataclasses.dataclass(frozen=True)
class _Conditioned:
    """A mixture over scales, and a factor W such that the points reduce the prior covariance at scale 1 by $W^T W$."""

    means: Float[np.ndarray, "scale candidate"]
    white: Float[np.ndarray, "point candidate"]
    scales: Float[np.ndarray, " scale"]
    weights: Float[np.ndarray, " scale"]

    def moments(
        self, prior: Float[np.ndarray, " candidate"]
    ) -> tuple[Float[np.ndarray, " candidate"], Float[np.ndarray, " candidate"]]:
        """Mean and standard deviation, given the prior variance at scale 1."""
        mean = self.weights @ self.means
        variance = np.maximum(prior - (self.white**2).sum(axis=0), JITTER * prior)
        return mean, np.sqrt(self.weights @ self.scales**2 * variance + self.weights @ (self.means - mean) ** 2)


def _surface(x: Any) -> Any:
    """A constant, the inputs, and unless there are many of them their products, about orthogonal on the unit box."""
    xp, u = namespace(x), 2 * x - 1
    num_inputs = x.shape[-1]
    terms = [xp.ones_like(u[..., :1]), u]
    if num_inputs <= MOST_QUADRATIC:
        pairs = [(i, j) for i in range(num_inputs) for j in range(i + 1)]
        terms += [(u[..., i] * u[..., j] - (i == j) / 3)[..., None] for i, j in pairs]
    return xp.concatenate(terms, axis=-1)


def _covariance(parameters: Parameters, a: Any, b: Any) -> Any:
    xp = namespace(parameters["lengths"])
    difference = (a[:, None] - b[None]) / xp.exp(parameters["lengths"])
    scaled = xp.sqrt(5 * (difference**2).sum(axis=-1) + 1e-12)
    matern = xp.exp(2 * parameters["amplitude"]) * (1 + scaled + scaled**2 / 3) * xp.exp(-scaled)
    return matern + (_surface(a) * xp.exp(2 * parameters["spread"])) @ _surface(b).T


def _jitter(parameters: Parameters) -> Any:
    return JITTER * (1 + namespace(parameters["lengths"]).exp(2 * parameters["amplitude"]))


def _noise_variance(parameters: Parameters) -> Any:
    return namespace(parameters["lengths"]).exp(2 * parameters["noise"]) + _jitter(parameters)


def _prior_variance(parameters: Parameters, x: Points) -> Float[np.ndarray, " point"]:
    return np.exp(2 * parameters["amplitude"]) + _surface(x) ** 2 @ np.exp(2 * parameters["spread"])


def _choose(searches: list[tuple[Points, Values]], rng: np.random.Generator) -> list[tuple[Points, Values]]:
    """Some points of some searches, at random."""
    chosen = [searches[number] for number in rng.permutation(len(searches))[:MOST_SEARCHES]]
    rows = [rng.permutation(len(z))[:MOST_POINTS] for _, z in chosen]
    return [(x[some], z[some]) for (x, z), some in zip(chosen, rows, strict=True)]


def _learn(searches: list[tuple[Points, Values]], num_inputs: int) -> Parameters:
    """The parameters of maximum likelihood, in double precision."""
    from scipy.optimize import minimize  # here, because it takes long to import

    slots, width = max(len(z) for _, z in searches), _surface(np.zeros((1, num_inputs))).shape[1]
    mask = np.stack([np.arange(slots) < len(z) for _, z in searches])
    x, z = (np.stack([np.resize(pair[i], (slots, *pair[i].shape[1:])) for pair in searches]) for i in range(2))
    start = np.concatenate([np.log([LENGTH] * num_inputs + [AMPLITUDE, NOISE, SCALES] + [SPREAD] * width), np.zeros(width)])
    upper = [LARGEST] * (num_inputs + 2) + [0.0] + [LARGEST] * width
    bounds = [(SMALLEST, high) for high in upper] + [(-30.0, 30.0)] * width

    def loss(flat: Float[Array, " parameter"]) -> Float[Array, ""]:
        densities = jax.vmap(lambda *search: _log_density(_unpack(flat, num_inputs, width), *search))(x, z, mask)
        return (PENALTY * (flat**2).sum() - densities.sum()) / mask.sum()

    with jax.enable_x64(True):
        slope = jax.jit(jax.value_and_grad(loss))

        def evaluate(flat: Float[np.ndarray, " parameter"]) -> tuple[float, Float[np.ndarray, " parameter"]]:
            value, gradient = slope(jnp.asarray(flat))
            return float(value), np.asarray(gradient, np.float64)

        found = minimize(evaluate, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": NUM_ITERATIONS})
    return {name: np.asarray(part) for name, part in _unpack(found.x, num_inputs, width).items()}


def _unpack(flat: Any, num_inputs: int, width: int) -> Parameters:
    """Parameters by name."""
    amplitude, spread = num_inputs, num_inputs + 3
    return {
        "lengths": flat[:amplitude],
        "amplitude": flat[amplitude],
        "noise": flat[amplitude + 1],
        "scales": flat[amplitude + 2],
        "spread": flat[spread : spread + width],
        "mean": flat[spread + width :],
    }


def _log_density(
    parameters: Parameters, x: Float[Array, "slot input"], z: Float[Array, " slot"], mask: Bool[Array, " slot"]
) -> Float[Array, ""]:
    """Log density of the points in the mask, integrated over scales; the others are independent and drop out."""
    covariance = jnp.where(mask[:, None] & mask[None], _covariance(parameters, x, x), 0)
    covariance += jnp.diag(jnp.where(mask, _noise_variance(parameters), 1.0))
    factor = jnp.linalg.cholesky(covariance)
    both = jnp.where(mask[:, None], jnp.stack([z, _surface(x) @ parameters["mean"]], axis=1), 0)
    outputs, surface = jax.scipy.linalg.solve_triangular(factor, both, lower=True).T
    log_scales, count = NODES * jnp.exp(parameters["scales"]), mask.sum()
    squares = ((outputs / jnp.exp(log_scales)[:, None] - surface) ** 2).sum(axis=1)
    densities = -squares / 2 - count * (log_scales + jnp.log(2 * jnp.pi) / 2)
    return jax.nn.logsumexp(densities, b=NODE_WEIGHTS / NODE_WEIGHTS.sum()) - jnp.log(jnp.diagonal(factor)).sum()
