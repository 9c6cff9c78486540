"""The two one-dimensional test functions of the paper's Bayesian optimisation study."""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from mpnp.errors import unknown_name

__all__ = ["OBJECTIVES", "Objective", "find_objective"]

FINE = 1_000_001
"""Grid points for finding the minimum: the error is below 1e-8 of the function's range."""


@dataclasses.dataclass(frozen=True)
class Objective:
    """A one-dimensional function to minimise between two bounds."""

    title: str
    function: Callable[[Float[np.ndarray, "..."]], Float[np.ndarray, "..."]]
    low: float
    high: float

    def __call__(self, x: Float[np.ndarray, "*any"]) -> Float[np.ndarray, "*any"]:
        return self.function(x)

    def place(self, share: Float[np.ndarray, "*any"]) -> Float[np.ndarray, "*any"]:
        """Map the unit interval to the function's domain."""
        return self.low + share * (self.high - self.low)

    @functools.cached_property
    def minimum(self) -> tuple[float, float]:
        """The minimiser and the minimum."""
        x = np.linspace(self.low, self.high, FINE)
        y = self(x)
        best = int(np.argmin(y))
        return float(x[best]), float(y[best])


def _gramacy_lee(x: Float[np.ndarray, "*any"]) -> Float[np.ndarray, "*any"]:
    return np.sin(10 * np.pi * x) / (2 * x) + (x - 1) ** 4


def _forrester(x: Float[np.ndarray, "*any"]) -> Float[np.ndarray, "*any"]:
    return (6 * x - 2) ** 2 * np.sin(12 * x - 4)


OBJECTIVES = {
    "gramacy-lee": Objective("Gramacy and Lee", _gramacy_lee, 0.5, 2.5),
    "forrester": Objective("Forrester, Sóbester and Keane", _forrester, 0.0, 1.0),
}


def find_objective(name: str) -> Objective:
    """The function of that name."""
    if name not in OBJECTIVES:
        raise unknown_name("objective", name, OBJECTIVES, f"Choose among: {', '.join(OBJECTIVES)}.")
    return OBJECTIVES[name]
