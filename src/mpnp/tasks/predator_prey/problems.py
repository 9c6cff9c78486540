"""The predator–prey problems: models train on simulated populations and are tested on real ones."""

import csv
from collections.abc import Mapping
from importlib.resources import files

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from mpnp.io.store import data_directory, load_arrays, save_arrays
from mpnp.tasks.base import Problem
from mpnp.tasks.predator_prey.gillespie import sample_events
from mpnp.tasks.predator_prey.trajectories import MIN_POINTS, SeriesFamily, TrajectoryFamily

__all__ = ["hare_lynx", "hare_lynx_series", "lotka_volterra"]

NUM_POINTS = 100
"""Events kept per trajectory."""

SIZES = {"train": 100_000, "validation": 4_000, "test": 10_000}
SEED = 0


def lotka_volterra(sizes: Mapping[str, int] = SIZES) -> Problem:
    """Simulated trajectories. The first call simulates and stores them, which takes minutes."""
    directory = data_directory() / "lotka-volterra"
    stored = load_arrays(directory)
    if stored is None or stored[1] != _about(sizes):
        prepare_trajectories(sizes, quiet=False)
        stored = load_arrays(directory)
    assert stored is not None
    arrays = stored[0]
    parts = [
        TrajectoryFamily(events=jnp.asarray(arrays[f"{part}-events"]), counts=jnp.asarray(arrays[f"{part}-counts"]))
        for part in sizes
    ]
    return Problem(*parts, data=", ".join(f"{size:,} {part}" for part, size in sizes.items()) + " trajectories")


def prepare_trajectories(sizes: Mapping[str, int] = SIZES, *, quiet: bool) -> None:
    """Simulate the training, validation and test sets and store them."""
    arrays = {}
    for number, (part, size) in enumerate(sizes.items()):
        events, counts = sample_events(size, NUM_POINTS, seed=SEED + number, quiet=quiet)
        long_enough = counts >= 2 * MIN_POINTS + 1
        arrays |= {f"{part}-events": events[long_enough], f"{part}-counts": counts[long_enough]}
    save_arrays(data_directory() / "lotka-volterra", arrays, _about(sizes))


def _about(sizes: Mapping[str, int]) -> dict[str, object]:
    return {"sizes": dict(sizes), "points": NUM_POINTS, "seed": SEED, "simulator": 1}


def hare_lynx_series() -> tuple[Float[np.ndarray, "year 1"], Float[np.ndarray, "year 2"]]:
    """Years, and thousands of lynx and hare pelts traded by the Hudson's Bay Company, 1845 to 1935.

    Published by D. A. MacLulich, Fluctuations in the numbers of the varying hare, University of Toronto Press, 1937, and
    C. Elton and M. Nicholson, The ten-year cycle in numbers of the lynx in Canada, Journal of Animal Ecology 11, 1942.
    """
    with files("mpnp.tasks.predator_prey").joinpath("hare_lynx.csv").open() as file:
        rows = list(csv.DictReader(file))
    years = np.array([[float(row["year"])] for row in rows])
    return years, np.array([[float(row["lynx"]), float(row["hare"])] for row in rows])


def hare_lynx() -> Problem:
    """The real series, to test models trained on simulations."""
    years, pelts = hare_lynx_series()
    family = SeriesFamily(x=jnp.asarray(years - years.mean(), jnp.float32), y=jnp.asarray(pelts, jnp.float32))
    return Problem(family, family, family, data="91 years, 1845 to 1935")
