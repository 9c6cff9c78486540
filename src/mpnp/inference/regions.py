"""Where future observations may lie: anywhere in a box, or at places of a list, each at most once."""

import abc
import dataclasses
import math

import numpy as np
from jaxtyping import Float

from mpnp.inference.placement import Placement, Values

__all__ = ["AbstractRegion", "Box", "Places", "find_region", "spread_inputs"]

MOST_PLACES = 4_096
"""Largest number of places of a list. Where there are more, two draws at one place are rare enough."""

SAME_PLACE = 1e-6
"""Places closer than this share of their range are one place."""

Bounds = Float[np.ndarray, " input"]

Rows = Float[np.ndarray, "row input"]
"""Inputs in the user's units."""


def spread_inputs(
    num_draws: int,
    num_rows: int,
    low: Bounds,
    high: Bounds,
    rng: np.random.Generator,
) -> Float[np.ndarray, "draw row input"]:
    """Inputs spread evenly over a box, with a random shift per draw: a lattice in the first input, a Halton sequence in others.

    >>> rows = spread_inputs(2, 4, np.zeros(1), np.ones(1), np.random.default_rng(0))
    >>> np.sort((rows[0, :, 0] * 4).astype(int)).tolist()
    [0, 1, 2, 3]
    """
    from scipy.stats import qmc  # here, because scipy.stats takes long to import

    others = qmc.Halton(max(len(low) - 1, 1), scramble=False).random(num_rows)[:, : len(low) - 1]
    lattice = np.column_stack([np.arange(num_rows) / num_rows, others])
    return low + (high - low) * ((lattice + rng.random((num_draws, 1, len(low)))) % 1)


class AbstractRegion(abc.ABC):
    """Where future observations may lie."""

    @abc.abstractmethod
    def spread(self, num_draws: int, num_rows: int, rng: np.random.Generator) -> Float[np.ndarray, "draw row input"]:
        """Inputs spread over the region, others for each draw; fewer than `num_rows` if there are no more."""

    @abc.abstractmethod
    def after(self, first: float) -> "AbstractRegion | None":
        """The part in which the first input is larger than this; None if there is none."""


@dataclasses.dataclass(frozen=True)
class Box(AbstractRegion):
    """All points between two bounds; of an input with a grid, only the values on it."""

    low: Bounds
    high: Bounds
    grids: tuple[Values | None, ...]

    def spread(self, num_draws: int, num_rows: int, rng: np.random.Generator) -> Float[np.ndarray, "draw row input"]:
        rows = spread_inputs(num_draws, num_rows, self.low, self.high, rng)
        for number, grid in enumerate(self.grids):
            if grid is not None:
                rows[..., number] = grid[np.abs(rows[..., number, None] - grid).argmin(axis=-1)]
        return rows

    def after(self, first: float) -> "Box | None":
        if first >= self.high[0]:
            return None
        grid = self.grids[0]
        later = grid[grid > first] if grid is not None and grid[-1] > first else None
        return Box(np.array([first, *self.low[1:]]), self.high, (later, *self.grids[1:]))


@dataclasses.dataclass(frozen=True)
class Places(AbstractRegion):
    """A list of places. Fewer of them than there are come from even sections of the list, one from each."""

    rows: Rows

    def spread(self, num_draws: int, num_rows: int, rng: np.random.Generator) -> Float[np.ndarray, "draw row input"]:
        num_rows = min(num_rows, len(self.rows))
        edges = np.arange(num_rows + 1) * len(self.rows) // num_rows
        within = (rng.random((num_draws, num_rows)) * np.diff(edges)).astype(int)
        return self.rows[edges[:-1] + within]

    def after(self, first: float) -> "Places | None":
        return _places(self.rows[self.rows[:, 0] > first])

    def without(self, rows: Rows) -> "Places | None":
        """The places at which none of these rows lie; None if there are none."""
        cell = SAME_PLACE * np.maximum(np.ptp(self.rows, axis=0), 1e-300)
        taken = set(map(tuple, np.round((rows - self.rows[0]) / cell)))
        return _places(self.rows[[tuple(place) not in taken for place in np.round((self.rows - self.rows[0]) / cell)]])


def find_region(placement: Placement, low: Bounds, high: Bounds, x_context: Rows) -> AbstractRegion:
    """Where a curve of this placement has observations beyond those of the context.

    Grid points that are not in the context, if all inputs have a grid; between the bounds if there are none left, or no grid.
    """
    num_places = math.prod(1 if grid is None else len(grid) for grid in placement.grids)
    if num_places <= MOST_PLACES and (grids := [grid for grid in placement.grids if grid is not None]) == list(placement.grids):
        places = Places(np.stack(np.meshgrid(*grids, indexing="ij"), axis=-1).reshape(-1, len(grids)))
        return places.without(x_context) or Box(low, high, Placement.anywhere(len(low)).grids)
    return Box(low, high, placement.grids)


def _places(rows: Rows) -> Places | None:
    return Places(rows) if len(rows) else None
