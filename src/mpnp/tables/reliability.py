"""How much each row counts, and how noisy each measurement is known to be.

A weight of 2 counts a row twice, in training and in scores. The known noise of a measurement is its standard deviation, in the
units of its output: the network learns to predict the quantity without it.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from mpnp.errors import InputError

__all__ = ["RELIABILITY", "require_noise", "require_weights"]

Matrix = Float[np.ndarray, "_ _"]


def require_weights(what: str, weights: Matrix, y: Matrix) -> Float[np.ndarray, " row"]:
    """The weights of rows with outputs y, one each. Raises an error for any that is no number of at least zero."""
    if weights.shape != (len(y), 1):
        raise InputError(f"{what} must hold one number for each of {len(y)} rows, got shape {weights.shape}")
    _require(what, weights, np.ones_like(weights, bool), "a weight", "use 0 for a row that is not to count")
    return weights[:, 0]


def require_noise(what: str, noise: Matrix, y: Matrix) -> Matrix:
    """The noise of measurements y. Raises an error for any that is no number of at least zero; missing outputs need none."""
    if noise.shape != y.shape:
        raise InputError(f"{what} must have the shape of the outputs, {y.shape}, got {noise.shape}")
    _require(what, noise, ~np.isnan(y), "the known noise of a measurement", "use 0 for a measurement without noise")
    return noise


RELIABILITY: dict[str, Callable[[str, Matrix, Matrix], np.ndarray]] = {"weights": require_weights, "noise": require_noise}
"""Fields of curves that say how reliable their rows are, and how they are checked."""


def _require(what: str, values: Matrix, needed: np.ndarray, one: str, remedy: str) -> None:
    bad = needed & ~(np.isfinite(values) & (values >= 0))
    if not bad.any():
        return
    row = int(np.argmax(bad.any(axis=1)))
    value = values[row][bad[row]][0]
    got = "missing" if np.isnan(value) else f"{value:g}"
    raise InputError(f"{what}: {one} must be a finite number of at least 0, but that of row {row} is {got}; {remedy}")
