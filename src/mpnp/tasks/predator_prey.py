"""The predator–prey problems: models learn from simulated populations and are asked about real ones."""

import csv
from importlib.resources import files

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from mpnp.stores import data_directory, load_arrays, save_arrays
from mpnp.tasks.lotka_volterra import sample_events
from mpnp.tasks.sources import Problem
from mpnp.tasks.trajectories import MIN_POINTS, SeriesFamily, TrajectoryFamily

__all__ = ["hare_lynx", "hare_lynx_series", "lotka_volterra"]

NUM_POINTS = 100
"""Events kept of each trajectory."""

SIZES = {"train": 100_000, "validation": 4_000, "test": 10_000}
SEED = 0


def lotka_volterra() -> Problem:
    """Simulated trajectories; the first time, they are simulated and kept on disk, which takes minutes."""
    directory = data_directory() / "lotka-volterra"
    stored = load_arrays(directory)
    if stored is None or stored[1] != _about():
        prepare_trajectories(quiet=False)
        stored = load_arrays(directory)
    assert stored is not None
    arrays = stored[0]
    parts = [
        TrajectoryFamily(events=jnp.asarray(arrays[f"{part}-events"]), counts=jnp.asarray(arrays[f"{part}-counts"]))
        for part in SIZES
    ]
    return Problem(*parts, data=", ".join(f"{size:,} {part}" for part, size in SIZES.items()) + " trajectories")


def prepare_trajectories(*, quiet: bool) -> None:
    """Simulate all parts and keep them."""
    arrays = {}
    for number, (part, size) in enumerate(SIZES.items()):
        events, counts = sample_events(size, NUM_POINTS, seed=SEED + number, quiet=quiet)
        long_enough = counts >= 2 * MIN_POINTS + 1
        arrays |= {f"{part}-events": events[long_enough], f"{part}-counts": counts[long_enough]}
    save_arrays(data_directory() / "lotka-volterra", arrays, _about())


def _about() -> dict[str, object]:
    return {"sizes": SIZES, "points": NUM_POINTS, "seed": SEED, "simulator": 1}


def hare_lynx_series() -> tuple[Float[np.ndarray, "year 1"], Float[np.ndarray, "year 2"]]:
    """Years, and thousands of pelts of lynx and of hares that the Hudson's Bay Company took in, 1845 to 1935.

    Published by D. A. MacLulich, Fluctuations in the numbers of the varying hare, University of Toronto Press, 1937, and
    C. Elton and M. Nicholson, The ten-year cycle in numbers of the lynx in Canada, Journal of Animal Ecology 11, 1942.
    """
    with files("mpnp.tasks").joinpath("hare_lynx.csv").open() as file:
        rows = list(csv.DictReader(file))
    years = np.array([[float(row["year"])] for row in rows])
    return years, np.array([[float(row["lynx"]), float(row["hare"])] for row in rows])


def hare_lynx() -> Problem:
    """The real series, for models that were trained on something else."""
    years, pelts = hare_lynx_series()
    family = SeriesFamily(x=jnp.asarray(years - years.mean(), jnp.float32), y=jnp.asarray(pelts, jnp.float32))
    return Problem(family, family, family, data="91 years, 1845 to 1935")
