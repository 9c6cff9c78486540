"""A surrogate, an objective and a loop that tests of Bayesian optimisation share."""

import numpy as np

from mpnp.bayesopt import GaussianProcess, Kernel

PROCESS = GaussianProcess(Kernel(amplitude=1.0, length=0.15, noise=0.02))
GRID = np.linspace(0, 1, 1_000)


def wave(x):
    return float(np.sin(11 * x[0]) + x[0])


def search(optimizer, f=wave, count=6):
    """Ask and tell; return every point evaluated so far."""
    for _ in range(count):
        x = optimizer.ask()
        optimizer.tell(x, f(x))
    return np.stack([evaluation.x for evaluation in optimizer.evaluations])
