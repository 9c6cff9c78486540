"""Classic test functions of global optimisation, with their domains and minima.

Sources: Surjanovic and Bingham, Virtual Library of Simulation Experiments; Forrester, Sóbester and Keane (2008); Gramacy and
Lee (2012). The box of Ackley's function is not centred, because its minimum in the middle would be a gift to any design.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

__all__ = ["BENCHMARK", "VALIDATION", "Classic"]

Function = Callable[[np.ndarray], np.ndarray]
"""Maps points on the last axis to values."""


@dataclasses.dataclass(frozen=True)
class Classic:
    """A function to minimise in a box; `noise` is the standard deviation added to each evaluation."""

    function: Function
    bounds: tuple[tuple[float, float], ...]
    minimum: float
    noise: float = 0.0

    @property
    def num_evaluations(self) -> int:
        """Evaluations of each search, initial points included."""
        return 30 if len(self.bounds) <= 2 else 40

    def __call__(self, x: np.ndarray) -> float:
        return float(self.function(np.asarray(x, np.float64)))


def _forrester(x: np.ndarray) -> np.ndarray:
    return ((6 * x - 2) ** 2 * np.sin(12 * x - 4))[..., 0]


def _gramacy_lee(x: np.ndarray) -> np.ndarray:
    return (np.sin(10 * np.pi * x) / (2 * x) + (x - 1) ** 4)[..., 0]


def _branin(x: np.ndarray) -> np.ndarray:
    a, b = x[..., 0], x[..., 1]
    return (b - 5.1 / (4 * np.pi**2) * a**2 + 5 / np.pi * a - 6) ** 2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(a) + 10


def _six_hump_camel(x: np.ndarray) -> np.ndarray:
    a, b = x[..., 0], x[..., 1]
    return (4 - 2.1 * a**2 + a**4 / 3) * a**2 + a * b + (4 * b**2 - 4) * b**2


def _ackley(x: np.ndarray) -> np.ndarray:
    bowl = -20 * np.exp(-0.2 * np.sqrt((x**2).mean(axis=-1)))
    return bowl - np.exp(np.cos(2 * np.pi * x).mean(axis=-1)) + 20 + np.e


def _rosenbrock(x: np.ndarray) -> np.ndarray:
    return (100 * (x[..., 1:] - x[..., :-1] ** 2) ** 2 + (1 - x[..., :-1]) ** 2).sum(axis=-1)


def _levy(x: np.ndarray) -> np.ndarray:
    w = 1 + (x - 1) / 4
    first, last = np.sin(np.pi * w[..., 0]) ** 2, (w[..., -1] - 1) ** 2 * (1 + np.sin(2 * np.pi * w[..., -1]) ** 2)
    return first + ((w[..., :-1] - 1) ** 2 * (1 + 10 * np.sin(np.pi * w[..., :-1] + 1) ** 2)).sum(axis=-1) + last


ALPHA = np.array([1.0, 1.2, 3.0, 3.2])
HARTMANN_3 = (
    np.array([[3.0, 10, 30], [0.1, 10, 35], [3.0, 10, 30], [0.1, 10, 35]]),
    1e-4 * np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]]),
)
HARTMANN_6 = (
    np.array([[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]),
    1e-4
    * np.array(
        [
            [1312, 1696, 5569, 124, 8283, 5886],
            [2329, 4135, 8307, 3736, 1004, 9991],
            [2348, 1451, 3522, 2883, 3047, 6650],
            [4047, 8828, 8732, 5743, 1091, 381],
        ]
    ),
)


def _hartmann(steepness: np.ndarray, centres: np.ndarray) -> Function:
    def function(x: np.ndarray) -> np.ndarray:
        return -(ALPHA * np.exp(-(steepness * (x[..., None, :] - centres) ** 2).sum(axis=-1))).sum(axis=-1)

    return function


def _goldstein_price(x: np.ndarray) -> np.ndarray:
    a, b = x[..., 0], x[..., 1]
    first = 1 + (a + b + 1) ** 2 * (19 - 14 * a + 3 * a**2 - 14 * b + 6 * a * b + 3 * b**2)
    return first * (30 + (2 * a - 3 * b) ** 2 * (18 - 32 * a + 12 * a**2 + 48 * b - 36 * a * b + 27 * b**2))


def _styblinski_tang(x: np.ndarray) -> np.ndarray:
    return (x**4 - 16 * x**2 + 5 * x).mean(axis=-1) / 2


def _dixon_price(x: np.ndarray) -> np.ndarray:
    weights = np.arange(2, x.shape[-1] + 1)
    return (x[..., 0] - 1) ** 2 + (weights * (2 * x[..., 1:] ** 2 - x[..., :-1]) ** 2).sum(axis=-1)


def _cosine_bowl(x: np.ndarray) -> np.ndarray:
    return ((x - 0.3) ** 2 - 0.1 * np.cos(3 * np.pi * (x - 0.3))).sum(axis=-1) + 0.1 * x.shape[-1]


def _himmelblau(x: np.ndarray) -> np.ndarray:
    a, b = x[..., 0], x[..., 1]
    return (a**2 + b - 11) ** 2 + (a + b**2 - 7) ** 2


def _mccormick(x: np.ndarray) -> np.ndarray:
    a, b = x[..., 0], x[..., 1]
    return np.sin(a + b) + (a - b) ** 2 - 1.5 * a + 2.5 * b + 1


def _three_hump_camel(x: np.ndarray) -> np.ndarray:
    a, b = x[..., 0], x[..., 1]
    return 2 * a**2 - 1.05 * a**4 + a**6 / 6 + a * b + b**2


def _two_sines(x: np.ndarray) -> np.ndarray:
    return (np.sin(x) + np.sin(10 * x / 3))[..., 0]


def _rising_sine(x: np.ndarray) -> np.ndarray:
    return (-(1.4 - 3 * x) * np.sin(18 * x))[..., 0]


def _damped_wave(x: np.ndarray) -> np.ndarray:
    return (-np.exp(-x) * np.sin(2 * np.pi * x))[..., 0]


BRANIN_BOX = ((-5.0, 10.0), (0.0, 15.0))

BENCHMARK = {
    "forrester": Classic(_forrester, ((0.0, 1.0),), -6.020740055767083),
    "gramacy-lee": Classic(_gramacy_lee, ((0.5, 2.5),), -0.8690111349894997),
    "branin": Classic(_branin, BRANIN_BOX, 0.39788735772973816),
    "six-hump-camel": Classic(_six_hump_camel, ((-3.0, 3.0), (-2.0, 2.0)), -1.0316284534898774),
    "ackley-2": Classic(_ackley, ((-15.0, 30.0),) * 2, 0.0),
    "ackley-3": Classic(_ackley, ((-15.0, 30.0),) * 3, 0.0),
    "rosenbrock-2": Classic(_rosenbrock, ((-5.0, 10.0),) * 2, 0.0),
    "rosenbrock-4": Classic(_rosenbrock, ((-5.0, 10.0),) * 4, 0.0),
    "levy-3": Classic(_levy, ((-10.0, 10.0),) * 3, 0.0),
    "levy-4": Classic(_levy, ((-10.0, 10.0),) * 4, 0.0),
    "hartmann-3": Classic(_hartmann(*HARTMANN_3), ((0.0, 1.0),) * 3, -3.862779787332660),
    "hartmann-6": Classic(_hartmann(*HARTMANN_6), ((0.0, 1.0),) * 6, -3.322368011415515),
    "forrester-noisy": Classic(_forrester, ((0.0, 1.0),), -6.020740055767083, noise=0.5),
    "branin-noisy": Classic(_branin, BRANIN_BOX, 0.39788735772973816, noise=2.0),
    "hartmann-3-noisy": Classic(_hartmann(*HARTMANN_3), ((0.0, 1.0),) * 3, -3.862779787332660, noise=0.1),
    "hartmann-6-noisy": Classic(_hartmann(*HARTMANN_6), ((0.0, 1.0),) * 6, -3.322368011415515, noise=0.1),
}
"""Functions of the benchmark. Nothing is tuned on them."""

VALIDATION = {
    "two-sines": Classic(_two_sines, ((2.7, 7.5),), -1.8995993491521117),
    "rising-sine": Classic(_rising_sine, ((0.0, 1.2),), -1.489072538660768),
    "damped-wave": Classic(_damped_wave, ((0.0, 4.0),), -0.7886853874086888),
    "goldstein-price": Classic(_goldstein_price, ((-2.0, 2.0),) * 2, 3.0),
    "styblinski-tang-2": Classic(_styblinski_tang, ((-5.0, 5.0),) * 2, -39.16616570377142),
    "styblinski-tang-4": Classic(_styblinski_tang, ((-5.0, 5.0),) * 4, -39.16616570377142),
    "dixon-price-3": Classic(_dixon_price, ((-10.0, 10.0),) * 3, 0.0),
    "cosine-bowl-5": Classic(_cosine_bowl, ((-1.0, 1.0),) * 5, 0.0),
    "styblinski-tang-2-noisy": Classic(_styblinski_tang, ((-5.0, 5.0),) * 2, -39.16616570377142, noise=2.0),
    "himmelblau-noisy": Classic(_himmelblau, ((-5.0, 5.0),) * 2, 0.0, noise=4.0),
    "mccormick-noisy": Classic(_mccormick, ((-1.5, 4.0), (-3.0, 4.0)), -1.9132229549810367, noise=0.5),
    "three-hump-camel-noisy": Classic(_three_hump_camel, ((-2.0, 2.0),) * 2, 0.0, noise=0.2),
}
"""Functions on which choices were made. None of them is in the benchmark."""
