"""Where the inputs of training curves lie: on a grid that the curves share or anywhere, and whether one is fixed in a curve."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from mpnp.tables.curves import Curves

__all__ = ["Placement"]

MOST_VALUES = 256
"""Largest number of values of a grid. More are as good as a continuum."""

SHARED_ROWS = 0.95
"""Share of the training rows that must lie on a grid."""

PRECISION = 1e-9
"""Values closer than this share of the training range are one value."""

Values = Float[np.ndarray, " _"]
"""Values of one input in the user's units, in ascending order."""


@dataclasses.dataclass(frozen=True)
class Placement:
    """How training curves place each of their inputs. A network knows observations at such places only.

    >>> hours, site = np.tile([0.0, 12.0, 24.0], 4), np.repeat([1.0, 2.0, 2.0, 5.0], 3)
    >>> pairs = [(np.column_stack(part), np.zeros(3)) for part in zip(np.split(hours, 4), np.split(site, 4))]
    >>> Placement.learn(Curves.from_pairs(pairs))
    Placement(grids=(array([ 0., 12., 24.]), None), fixed=(False, True))
    """

    grids: tuple[Values | None, ...]
    """Per input, the values that curves share; None if each curve has values of its own, or only one."""
    fixed: tuple[bool, ...]
    """Per input, whether it stays the same along each curve, such as the site of a series of measurements."""

    @staticmethod
    def anywhere(num_inputs: int) -> "Placement":
        """The placement of curves of which nothing is known."""
        return Placement((None,) * num_inputs, (False,) * num_inputs)

    @staticmethod
    def learn(curves: Curves) -> "Placement":
        """The placement of these curves."""
        curve = np.repeat(np.arange(len(curves)), curves.counts)
        fixed = tuple(_is_fixed(values, curves.starts, curve) for values in curves.x.T)
        grids = (None if same else _find_grid(values, curve) for values, same in zip(curves.x.T, fixed, strict=True))
        return Placement(tuple(grids), fixed)

    def of_curve(self, row: Float[np.ndarray, " input"], beyond: Bool[np.ndarray, " input"]) -> "Placement":
        """The placement of the curve of this row: its values of fixed inputs, and no grid of an input where it goes beyond."""
        columns = zip(self.grids, self.fixed, row, beyond, strict=True)
        grids = (np.array([value]) if same else None if outside else grid for grid, same, value, outside in columns)
        return Placement(tuple(grids), self.fixed)

    def union(self, other: "Placement") -> "Placement":
        """The placement of both sets of curves together."""
        grids = (_join_grids(one, another) for one, another in zip(self.grids, other.grids, strict=True))
        fixed = (one and another for one, another in zip(self.fixed, other.fixed, strict=True))
        return Placement(tuple(grids), tuple(fixed))

    def describe(self) -> list[str]:
        """What a card says about each input after its range.

        >>> Placement((np.arange(24.0), None, None), (False, True, False)).describe()
        [' on a grid of 24', ' fixed in each curve', '']
        """
        return [
            " fixed in each curve" if same else "" if grid is None else f" on a grid of {len(grid)}"
            for grid, same in zip(self.grids, self.fixed, strict=True)
        ]

    def to_json(self) -> dict[str, Any]:
        """As lists; an input without a grid has null."""
        return {"grids": [None if grid is None else grid.tolist() for grid in self.grids], "fixed": list(self.fixed)}

    @staticmethod
    def from_json(content: Any, num_inputs: int) -> "Placement":
        """From what `to_json` made; cards of older versions have none."""
        if content is None:
            return Placement.anywhere(num_inputs)
        grids = tuple(None if grid is None else np.unique(np.asarray(grid, float)) for grid in content["grids"])
        placement = Placement(grids, tuple(bool(same) for same in content["fixed"]))
        if {len(placement.grids), len(placement.fixed)} != {num_inputs}:
            raise ValueError("the placement does not have one entry per input")
        if not all(1 <= len(grid) <= MOST_VALUES and np.isfinite(grid).all() for grid in grids if grid is not None):
            raise ValueError(f"a grid is not a list of up to {MOST_VALUES} finite numbers")
        return placement


def _join_grids(one: Values | None, other: Values | None) -> Values | None:
    """The values of both grids, if there are two and they do not have too many."""
    if one is None or other is None or len(joint := np.union1d(one, other)) > MOST_VALUES:
        return None
    return joint


def _is_fixed(values: Float[np.ndarray, " row"], starts: Int[np.ndarray, " curve"], curve: Int[np.ndarray, " row"]) -> bool:
    """Whether all rows of each curve have the value of its first row, and curves of several rows exist."""
    return len(values) > len(starts) and bool(np.all(values == values[starts][curve]))


def _find_grid(values: Float[np.ndarray, " row"], curve: Int[np.ndarray, " row"]) -> Values | None:
    """The values that at least two curves have, if nearly all rows have one of them and there are not too many."""
    span = float(np.ptp(values)) or 1.0
    cells = np.round((values - values.min()) / (PRECISION * span))
    _, first, number = np.unique(cells, return_index=True, return_inverse=True)
    pairs = np.unique(np.column_stack([number, curve]), axis=0)
    shared = np.bincount(pairs[:, 0], minlength=len(first)) > 1
    if not 1 <= shared.sum() <= MOST_VALUES or shared[number].mean() < SHARED_ROWS:
        return None
    return values[first[shared]]
