"""Acquisition functions: they score candidates for the next evaluation. To add one, add a row to `ACQUISITIONS`."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import erfcx, log_ndtr, ndtr

from mpnp.bayesopt.surrogates import AbstractSurrogate, Candidates, Inputs, Outputs, Scores, Seeds
from mpnp.errors import unknown_name

__all__ = [
    "ACQUISITIONS",
    "EXPECTED_IMPROVEMENT",
    "LOG_EXPECTED_IMPROVEMENT",
    "Acquisition",
    "expected_improvement",
    "find_acquisition",
    "log_expected_improvement",
    "log_improvement_slopes",
    "stable",
]

EXPECTED_IMPROVEMENT, LOG_EXPECTED_IMPROVEMENT = "expected-improvement", "log-expected-improvement"

FAR = 100.0
"""Beyond this many standard deviations a series in 1/z is more accurate than a difference of nearly equal numbers."""

Values = Float[np.ndarray, "*#any"]


def expected_improvement(mean: Values, std: Values, best: Values) -> Float[np.ndarray, "*any"]:
    """Expected improvement $E[\\max(b - Y, 0)]$ of a Gaussian Y over the best value b so far.

    >>> expected_improvement(mean=np.array([0.0, 2.0]), std=np.array([0.0, 0.0]), best=np.array([1.0])).tolist()
    [1.0, 0.0]
    """
    return np.exp(log_expected_improvement(mean, std, best))


def log_expected_improvement(mean: Values, std: Values, best: Values) -> Float[np.ndarray, "*any"]:
    """Logarithm of the expected improvement; still ranks candidates where the improvement itself underflows.

    $E[\\max(b - Y, 0)] = \\sigma h(z)$ with $z = (b - \\mu)/\\sigma$ and $h(z) = \\phi(z) + z\\Phi(z)$. If $\\sigma = 0$, the
    improvement is $\\max(b - \\mu, 0)$.
    """
    gap, std = np.broadcast_arrays(best - mean, std)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.log(std) + _log_h(gap / std)
        certain = np.log(np.maximum(gap, 0))
    return np.where(std > 0, spread, certain)


def log_improvement_slopes(mean: float, std: float, best: float) -> tuple[float, float, float]:
    """Logarithm of the expected improvement, and its derivatives with respect to the mean and the standard deviation.

    With $h' = \\Phi$, they are $-\\Phi(z) / \\sigma h(z)$ and $\\phi(z) / \\sigma h(z)$.
    """
    z = (best - mean) / std
    log_h = float(_log_h(np.asarray([z]))[0])
    by_mean = -np.exp(log_ndtr(z) - log_h) / std
    by_std = np.exp(-(z**2) / 2 - np.log(2 * np.pi) / 2 - log_h) / std
    return float(np.log(std) + log_h), float(by_mean), float(by_std)


def _log_h(z: Values) -> Float[np.ndarray, "*any"]:
    """$\\log(\\phi(z) + z\\Phi(z))$, stable for any z.

    Below -1 the two terms nearly cancel. There $h(-a) = \\phi(a)(1 - a M(a))$ with Mills' ratio
    $M(a) = \\sqrt{\\pi/2}\\,\\mathrm{erfcx}(a/\\sqrt2)$. For large $a$, $1 - a M(a) = a^{-2}(1 - 3a^{-2} + 15a^{-4} - \\dots)$.
    """
    near = np.maximum(z, -1.0)
    direct = np.log(_density(near) + near * ndtr(near))
    a = np.clip(-z, 1.0, FAR)
    ratio = np.log1p(-a * np.sqrt(np.pi / 2) * erfcx(a / np.sqrt(2)))
    inverse = 1 / np.maximum(-z, FAR) ** 2
    series = np.log(inverse) + np.log1p(inverse * (-3 + inverse * (15 - inverse * 105)))
    tail = -(z**2) / 2 - np.log(2 * np.pi) / 2 + np.where(-z < FAR, ratio, series)
    return np.where(z > -1, direct, tail)


def _density(z: Values) -> Float[np.ndarray, "*any"]:
    return np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)


def _by_expected_improvement(
    surrogate: AbstractSurrogate, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds
) -> Scores:
    return expected_improvement(*surrogate.moments(x, z, candidates, seeds), z.min(axis=1, keepdims=True))


def _by_log_expected_improvement(
    surrogate: AbstractSurrogate, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds
) -> Scores:
    return log_expected_improvement(*surrogate.moments(x, z, candidates, seeds), z.min(axis=1, keepdims=True))


def _by_thompson(surrogate: AbstractSurrogate, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> Scores:
    """Thompson sampling: choose the minimum of one sampled function."""
    return -surrogate.draw(x, z, candidates, seeds)


@dataclasses.dataclass(frozen=True)
class Acquisition:
    """A row of `ACQUISITIONS`."""

    scores: Callable[[AbstractSurrogate, Inputs, Outputs, Candidates, Seeds], Scores]
    """Scores of all candidates. Higher is better."""
    label: str
    climbs: bool = True
    """Whether the score of a point does not depend on the other candidates, so that a search can go uphill from the best."""
    line: Mapping[str, Any] = dataclasses.field(default_factory=lambda: {"lw": 1.5})
    """Line style in figures, as matplotlib keywords. The colour defaults to the row's position in the registry."""


ACQUISITIONS: dict[str, Acquisition] = {
    # The first two often choose the same points, so one is drawn wide and pale beneath the other.
    EXPECTED_IMPROVEMENT: Acquisition(_by_expected_improvement, "expected improvement", line={"lw": 3.5, "alpha": 0.5}),
    LOG_EXPECTED_IMPROVEMENT: Acquisition(
        _by_log_expected_improvement, "log expected improvement", line={"lw": 1.5, "ls": "--"}
    ),
    "thompson": Acquisition(_by_thompson, "thompson", climbs=False),
}


def stable(name: str) -> str:
    """The acquisition that chooses the same points, but still ranks them where the values of this one underflow."""
    find_acquisition(name)
    return LOG_EXPECTED_IMPROVEMENT if name == EXPECTED_IMPROVEMENT else name


def find_acquisition(name: str) -> Acquisition:
    """The acquisition of that name."""
    if str(name) not in ACQUISITIONS:
        raise unknown_name("acquisition", str(name), ACQUISITIONS, f"Choose one of: {', '.join(ACQUISITIONS)}.")
    return ACQUISITIONS[str(name)]
