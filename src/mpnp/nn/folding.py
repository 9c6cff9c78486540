"""Folding: what a context says at a target if its inputs repeat with some period, and which period explains the context best.

At each of many candidate periods, attention with a fixed periodic kernel averages the outputs observed in the same phase.
A period is believed as far as such averages predict each observation from the others. Periods are not learnt from examples, so
a network need not discover by training that functions may repeat; only differences of inputs matter.
"""

import functools
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

__all__ = ["Folded", "cycles", "evidence", "fold", "kernel_sums", "num_features", "summarise"]

FEWEST, MOST = 0.5, 10.5
"""Range of the candidate frequencies in cycles per unit, for inputs of about -2 to 2: from 2 to 42 cycles over them."""

SHARPNESS, SHARPER = 4.0, 5
"""The kernel $\\exp(s (\\cos(2 \\pi d / p) - 1))$ with this $s$ for outputs that change slowly within a period; its power for
others."""

PRIOR_MASS = 1e-2
"""Weight of an observation of zero in each average, which makes averages of nothing zero."""

SMALLEST_VARIANCE = 1e-6


class Folded(eqx.Module):
    """What one set of points says at targets, by kernel, candidate frequency and target. Those of a union are sums of these."""

    total: Float[Array, "*#batch kernel frequency target y_dim"]
    """Outputs, weighted by the kernel."""
    mass: Float[Array, "*#batch kernel frequency target"]
    """Sums of these weights."""
    evidence: Float[Array, "*#batch kernel frequency"]
    """Log-likelihood that the set's points gain by being predicted from each other."""
    count: Float[Array, "*#batch"]


def cycles(num_periods: int, x_dim: int) -> Float[np.ndarray, "frequency x_dim"]:
    """Candidate frequencies, evenly spaced along each input in turn, in radians.

    >>> cycles(2, 2).round().tolist()
    [[3.0, 0.0], [66.0, 0.0], [0.0, 3.0], [0.0, 66.0]]
    """
    along = 2 * np.pi * np.linspace(FEWEST, MOST, num_periods)
    return np.concatenate([along[:, None] * axis for axis in np.eye(x_dim)]).astype(np.float32)


def kernel_sums(
    frequencies: Float[np.ndarray, "frequency x_dim"],
    x: Float[Array, "*#batch point x_dim"],
    rows: Float[Array, "*#batch point column"],
    x_new: Float[Array, "*#batch target x_dim"],
) -> Float[Array, "*#batch kernel frequency target column"]:
    """The rows at inputs x, summed with the weights that each kernel and frequency gives them at each new input."""
    cosine = jnp.matmul(_wave(frequencies, x_new), jnp.swapaxes(_wave(frequencies, x), -1, -2))
    weights = jnp.exp(SHARPNESS * (cosine - 1))
    sums = (jnp.matmul(kernel, rows[..., None, :, :]) for kernel in (weights, weights**SHARPER))
    return jnp.concatenate([part[..., None, :, :, :] for part in sums], axis=-4)


def _wave(
    frequencies: Float[np.ndarray, "frequency x_dim"], x: Float[Array, "*#batch point x_dim"]
) -> Float[Array, "*#batch frequency point 2"]:
    angles = jnp.swapaxes(jnp.matmul(x, jnp.asarray(frequencies.T, x.dtype)), -1, -2)
    return jnp.concatenate([jnp.cos(angles)[..., None], jnp.sin(angles)[..., None]], axis=-1)


def fold(
    frequencies: Float[np.ndarray, "frequency x_dim"],
    x: Float[Array, "*#batch point x_dim"],
    y: Float[Array, "*#batch point y_dim"],
    weights: Float[Array, "*#batch point"],
    x_target: Float[Array, "*#batch target x_dim"],
) -> Folded:
    """What a set of points says at targets. A point of weight w counts as w points."""
    rows = _rows(y, weights)
    total, mass = jnp.split(kernel_sums(frequencies, x, rows, x_target), [y.shape[-1]], axis=-1)
    return Folded(total, mass.squeeze(-1), evidence(frequencies, x, y, weights), weights.sum(axis=-1))


def _rows(y: Float[Array, "*#batch point y_dim"], weights: Float[Array, "*#batch point"]) -> Float[Array, "..."]:
    """Outputs and a one per point, times its weight."""
    return jnp.concatenate([y, jnp.ones_like(y[..., :1])], axis=-1) * weights[..., None]


def evidence(
    frequencies: Float[np.ndarray, "frequency x_dim"],
    x: Float[Array, "*#batch point x_dim"],
    y: Float[Array, "*#batch point y_dim"],
    weights: Float[Array, "*#batch point"],
) -> Float[Array, "*#batch kernel frequency"]:
    """$-\\frac n2 \\log(E / v)$ with the mean squared error E of predicting each point from the others, and their variance v.

    A point without neighbours in its phase counts little in E. One more error, of size v, keeps E honest where few count.
    """
    rows, count = _rows(y, weights), weights.sum(axis=-1)
    # A point of weight 2 is predicted from its other copy, too.
    others = kernel_sums(frequencies, x, rows, x) - _rows(y, jnp.minimum(weights, 1))[..., None, None, :, :]
    total, mass = jnp.split(others, [y.shape[-1]], axis=-1)
    mass = jnp.maximum(mass.squeeze(-1), 0)
    error = jnp.mean((y[..., None, None, :, :] - _mean(total, mass)) ** 2, axis=-1)
    trust = jnp.minimum(mass, 1) * weights[..., None, None, :]
    centre = jnp.sum(y * weights[..., None], axis=-2, keepdims=True) / jnp.maximum(count, 1)[..., None, None]
    spread = jnp.sum((y - centre) ** 2 * weights[..., None], axis=(-1, -2)) / (y.shape[-1] * jnp.maximum(count, 1))
    variance = (spread + SMALLEST_VARIANCE)[..., None, None]
    explained = ((trust * error).sum(axis=-1) + variance) / (trust.sum(axis=-1) + 1)
    return -0.5 * count[..., None, None] * jnp.log(explained / variance)


def _mean(total: Float[Array, "*#batch y_dim"], mass: Float[Array, "*#batch"]) -> Float[Array, "*#batch y_dim"]:
    return total / (mass + PRIOR_MASS)[..., None]


def num_features(y_dim: int) -> int:
    """Number of features per target that `summarise` returns."""
    return 2 * (2 * y_dim + 3)


def summarise(parts: Sequence[Folded]) -> Float[Array, "*batch target feature"]:
    """What the union of sets says at each target, by kernel, with frequencies weighted by their evidence.

    Mean and standard deviation over frequencies of the averages, the logarithm of their mass, the largest weight of a
    frequency, and the largest evidence per point.
    """
    union: Folded = jax.tree.map(lambda *leaves: functools.reduce(jnp.add, leaves), *parts)
    mass, support, count = union.mass, union.evidence, union.count
    belief = jax.nn.softmax(support, axis=-1)
    share = belief[..., None, None]
    average = _mean(union.total, mass)
    mean = jnp.sum(share * average, axis=-3)
    deviation = jnp.sqrt(jnp.sum(share * (average - mean[..., None, :, :]) ** 2, axis=-3) + SMALLEST_VARIANCE)
    neighbours = jnp.log(jnp.sum(belief[..., None] * mass, axis=-2) + PRIOR_MASS)
    best = support.max(axis=-1, keepdims=True) / (count + 1)[..., None, None]
    certainty = jnp.concatenate([belief.max(axis=-1, keepdims=True), best], axis=-1)
    everywhere = jnp.broadcast_to(certainty[..., None, :], (*neighbours.shape, 2))
    by_kernel = jnp.concatenate([mean, deviation, neighbours[..., None], everywhere], axis=-1)
    return jnp.swapaxes(by_kernel, -3, -2).reshape(*by_kernel.shape[:-3], by_kernel.shape[-2], -1)
