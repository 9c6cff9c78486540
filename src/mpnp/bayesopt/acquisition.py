"""Expected improvement: how far below the best value so far a new one is expected to fall, or 0 if it does not."""

import numpy as np
from jaxtyping import Float
from scipy.special import erfcx, ndtr

__all__ = ["expected_improvement", "log_expected_improvement"]

FAR = 100.0
"""Standard deviations from which on a series in 1/z is more exact than a difference of nearly equal numbers."""

Values = Float[np.ndarray, "*#any"]


def expected_improvement(mean: Values, std: Values, best: Values) -> Float[np.ndarray, "*any"]:
    """$E[\\max(b - Y, 0)]$ for a normal Y and the best value b so far."""
    return np.exp(log_expected_improvement(mean, std, best))


def log_expected_improvement(mean: Values, std: Values, best: Values) -> Float[np.ndarray, "*any"]:
    """Its logarithm, which still tells candidates apart where the improvement itself is too small for a float.

    $E[\\max(b - Y, 0)] = \\sigma h(z)$ with $z = (b - \\mu)/\\sigma$ and $h(z) = \\phi(z) + z\\Phi(z)$. Without spread, it is
    what the mean is below the best.
    """
    gap, std = np.broadcast_arrays(best - mean, std)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.log(std) + _log_h(gap / std)
        certain = np.log(np.maximum(gap, 0))
    return np.where(std > 0, spread, certain)


def _log_h(z: Values) -> Float[np.ndarray, "*any"]:
    """$\\log(\\phi(z) + z\\Phi(z))$ for any z.

    Below -1 the two terms nearly cancel. There $h(-a) = \\phi(a)(1 - a M(a))$ with Mills' ratio
    $M(a) = \\sqrt{\\pi/2}\\,\\mathrm{erfcx}(a/\\sqrt2)$, and far away $1 - a M(a) = a^{-2}(1 - 3a^{-2} + 15a^{-4} - \\dots)$.
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
