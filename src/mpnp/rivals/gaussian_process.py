"""A Gaussian process around the mean curve, whose kernel is learnt by maximum likelihood of all training curves."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from mpnp.nn.likelihoods.distribution import Values, namespace
from mpnp.rivals.base import AbstractGaussianRival, Arrays, Joint, Places, Points, Unsuitable
from mpnp.rivals.mean_curve import MeanCurve

__all__ = ["LearntGaussianProcess"]

MOST_CURVES, MOST_POINTS = 96, 48
"""Curves that the kernel is learnt from, and points of each: drawn at random if there are more."""

MOST_CONTEXT = 1_024
"""Points of a context that are used, drawn evenly if there are more."""

MOST_OUTPUTS = 12

NUM_ITERATIONS = 120
"""Iterations of L-BFGS at most."""

LEAST_NOISE = 1e-3

PENALTY = 1e-4
"""On squared parameters, for curves that say nothing about some of them."""

Kernel = dict[str, Any]
"""Lengths by feature, noise by output, and lower triangular factors of the covariances of outputs in three terms."""


@dataclasses.dataclass(frozen=True)
class LearntGaussianProcess(AbstractGaussianRival):
    """Deviations from the mean curve, relative to its spread, as a Gaussian process.

    Its kernel adds an offset of the whole curve, a slope in each feature and a Matérn-3/2 process, each with its own covariance
    of the outputs, so that it contains the linear mixed model.
    """

    climate: MeanCurve
    kernel: Kernel

    kind = "gp"
    title = "Gaussian process with learnt kernel"

    @classmethod
    def learn(cls, curves: Sequence[Points], *, context: str, seed: int) -> "LearntGaussianProcess":
        num_outputs = 1 + max(int(curve.output.max()) for curve in curves)
        if num_outputs > MOST_OUTPUTS:
            raise Unsuitable(f"it takes at most {MOST_OUTPUTS} outputs, got {num_outputs}")
        climate = MeanCurve.learn(curves, context=context, seed=seed)
        chosen = _choose(curves, np.random.default_rng(seed))
        scaled = [curve._replace(y=_standardise(climate, curve)) for curve in chosen]
        return cls(climate, _learn_kernel(scaled, chosen[0].x.shape[1], num_outputs))

    def joint(self, context: Points, places: Places) -> Joint:
        mean, std = self.climate.moments(places)
        if len(context.y) > MOST_CONTEXT:
            context = context.select(np.linspace(0, len(context.y) - 1, MOST_CONTEXT).astype(int))
        z, prior = np.zeros(len(mean)), _covariance(self.kernel, places, places)
        if len(context.y):
            cross = _covariance(self.kernel, context.places, places)
            inner = _covariance(self.kernel, context.places, context.places)
            inner += np.diag(self.kernel["noise"][context.output] ** 2)
            solved = np.linalg.solve(inner, np.column_stack([cross, _standardise(self.climate, context)]))
            z, prior = cross.T @ solved[:, -1], prior - cross.T @ solved[:, :-1]
        noise = self.kernel["noise"][places.output] * std
        return Joint(mean + std * z, (prior + prior.T) / 2 * std * std[:, None], noise)

    def to_arrays(self) -> Arrays:
        return {**self.kernel, **{f"climate_{name}": values for name, values in self.climate.to_arrays().items()}}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "LearntGaussianProcess":
        climate = MeanCurve.from_arrays({name: arrays[f"climate_{name}"] for name in ("knots", "means", "stds")})
        return cls(climate, {name: arrays[name] for name in ("lengths", "noise", "offset", "slope", "process")})


def _standardise(climate: MeanCurve, points: Points) -> Float[np.ndarray, " point"]:
    mean, std = climate.moments(points.places)
    return (points.y - mean) / std


def _choose(curves: Sequence[Points], rng: np.random.Generator) -> list[Points]:
    """Some points of some curves, at random."""
    numbers = rng.permutation(len(curves))[:MOST_CURVES]
    return [curves[n].select(np.sort(rng.permutation(len(curves[n].y))[:MOST_POINTS])) for n in numbers]


def _covariance(kernel: Kernel, first: Places, second: Places) -> Float[Values, "one other"]:
    """The covariance of function values, in NumPy or JAX as the kernel is."""
    xp = namespace(kernel["lengths"])
    difference = (first.x[:, None] - second.x[None]) / kernel["lengths"]
    scaled = xp.sqrt(3 * (difference**2).sum(axis=-1) + 1e-12)
    terms = {"offset": 1.0, "slope": first.x @ second.x.T, "process": (1 + scaled) * xp.exp(-scaled)}
    return sum((kernel[name][first.output] @ kernel[name][second.output].T) * value for name, value in terms.items())


def _learn_kernel(curves: Sequence[Points], num_features: int, num_outputs: int) -> Kernel:
    """The kernel of maximum likelihood, in double precision."""
    from scipy.optimize import minimize  # here, because it takes long to import

    slots = max(len(curve.y) for curve in curves)
    mask = np.stack([np.arange(slots) < len(curve.y) for curve in curves])
    padded = [Points(*(np.resize(part, (slots, *part.shape[1:])) for part in curve)) for curve in curves]
    points = jax.tree.map(lambda *parts: np.stack(parts), *padded)
    below = np.tril_indices(num_outputs)
    start = np.concatenate([np.zeros(num_features), np.full(num_outputs, -1.0), *[_start(0.5, below)] * 2, _start(0.7, below)])
    # The first factor is that of offsets, the second of slopes, the third of the process.

    def loss(parameters: Float[jax.Array, " parameter"]) -> Float[jax.Array, ""]:
        kernel = _unpack(parameters, num_features, num_outputs)
        values = jax.vmap(functools.partial(_log_density, kernel))(points, mask)
        return -values.sum() / mask.sum() + PENALTY * (parameters**2).sum()

    with jax.enable_x64(True):
        slope = jax.jit(jax.value_and_grad(loss))

        def evaluate(parameters: Float[np.ndarray, " parameter"]) -> tuple[float, np.ndarray]:
            value, gradient = slope(jnp.asarray(parameters))
            return float(value), np.asarray(gradient, np.float64)

        found = minimize(
            evaluate, start, jac=True, method="L-BFGS-B", options={"maxiter": NUM_ITERATIONS}, bounds=[(-6, 6)] * len(start)
        )
        return {name: np.asarray(part) for name, part in _unpack(jnp.asarray(found.x), num_features, num_outputs).items()}


def _start(size: float, below: tuple[np.ndarray, np.ndarray]) -> Float[np.ndarray, " entry"]:
    return np.where(below[0] == below[1], size, 0.0)


def _unpack(parameters: Float[jax.Array, " parameter"], num_features: int, num_outputs: int) -> Kernel:
    """Parameters by name: logarithms of lengths and noise, then the entries of the factors."""
    lengths, noise, rest = jnp.split(parameters, [num_features, num_features + num_outputs])
    factors = [
        jnp.zeros((num_outputs, num_outputs)).at[np.tril_indices(num_outputs)].set(entries) for entries in jnp.split(rest, 3)
    ]
    named = dict(zip(("offset", "slope", "process"), factors, strict=True))
    return {"lengths": jnp.exp(lengths), "noise": LEAST_NOISE + jnp.exp(noise), **named}


def _log_density(kernel: Kernel, points: Points, mask: Any) -> Float[jax.Array, ""]:
    """Log density of the points in the mask; the others are independent and drop out."""
    both = mask[:, None] & mask[None]
    covariance = jnp.where(both, _covariance(kernel, points.places, points.places), 0)
    covariance += jnp.diag(jnp.where(mask, kernel["noise"][points.output] ** 2, 1.0))
    factor = jnp.linalg.cholesky(covariance)
    white = jax.scipy.linalg.solve_triangular(factor, jnp.where(mask, points.y, 0), lower=True)
    density = -(white**2) / 2 - jnp.log(jnp.diagonal(factor)) - jnp.log(2 * jnp.pi) / 2
    return jnp.sum(density, where=mask)
