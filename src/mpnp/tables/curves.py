"""Curves: observed data sets of any sizes, concatenated in two matrices."""

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from mpnp.errors import InputError, show
from mpnp.tables.columns import Schema

__all__ = ["Curves", "as_matrix", "require_pairs"]


@dataclasses.dataclass(frozen=True)
class Curves:
    """Curves in the user's units. Unobserved outputs are NaN; every row has at least one observed output.

    >>> curves = Curves.from_pairs([([0, 1, 2], [0.5, 0.7, 0.6]), ([0, 2], [0.1, 0.2])])
    >>> len(curves), curves.x.shape, curves.counts.tolist()
    (2, (5, 1), [3, 2])
    """

    names: tuple[Any, ...]
    groups: tuple[Any, ...]
    x: Float[np.ndarray, "row input"]
    y: Float[np.ndarray, "row output"]
    counts: Int[np.ndarray, " curve"]
    columns: Schema

    def __post_init__(self) -> None:
        """Check consistency, so that a damaged file cannot lead to wrong curves."""
        counts, num_rows = np.asarray(self.counts), len(self.x)
        whole = counts.ndim == 1 and counts.dtype.kind in "iu" and ((counts >= 1) & (counts <= num_rows)).all()
        if not whole or counts.sum() != num_rows:
            raise InputError(
                f"counts must be whole numbers of at least 1 that add up to {num_rows} rows, got {show(self.counts)}"
            )
        for what, labels in (("names", self.names), ("groups", self.groups)):
            if len(labels) != len(counts):
                raise InputError(f"every curve needs its place in {what}: got {len(labels)} for {len(counts)} curves")
        for what, values, columns in (("x", self.x, self.columns.inputs), ("y", self.y, self.columns.outputs)):
            if values.shape != (shape := (num_rows, len(columns))) or values.dtype.kind != "f":
                raise InputError(f"{what} must hold numbers of shape {shape}, got {values.dtype} of {values.shape}")

    def __len__(self) -> int:
        return len(self.counts)

    @functools.cached_property
    def starts(self) -> Int[np.ndarray, " curve"]:
        """The first row of each curve."""
        return np.cumsum(self.counts) - self.counts

    def pair(self, number: int) -> tuple[Float[np.ndarray, "row input"], Float[np.ndarray, "row output"]]:
        """Inputs and outputs of one curve."""
        rows = slice(self.starts[number], self.starts[number] + self.counts[number])
        return self.x[rows], self.y[rows]

    def same_rows(self, other: "Curves") -> bool:
        """Whether both hold the same numbers in the same curves. Names of curves do not matter."""
        pairs = ((self.counts, other.counts), (self.x, other.x), (self.y, other.y))
        return all(np.array_equal(mine, theirs, equal_nan=True) for mine, theirs in pairs)

    def select(self, numbers: Iterable[int]) -> "Curves":
        """The curves with these numbers, in this order."""
        chosen = list(numbers)
        if not chosen:
            empty = np.zeros(0, np.int64)
            return dataclasses.replace(self, names=(), groups=(), x=self.x[:0], y=self.y[:0], counts=empty)
        rows = np.concatenate([np.arange(self.starts[n], self.starts[n] + self.counts[n]) for n in chosen])
        names, groups = (tuple(labels[n] for n in chosen) for labels in (self.names, self.groups))
        return dataclasses.replace(self, names=names, groups=groups, x=self.x[rows], y=self.y[rows], counts=self.counts[chosen])

    def in_order(self) -> "Curves":
        """The curves by their names, and the rows of each by inputs and outputs: the same for tables in any order."""
        curves = self.select(sorted(range(len(self)), key=lambda number: _natural(self.names[number])))
        rows = np.lexsort((*curves.y.T[::-1], *curves.x.T[::-1], np.repeat(np.arange(len(curves)), curves.counts)))
        return dataclasses.replace(curves, x=curves.x[rows], y=curves.y[rows])

    @staticmethod
    def from_pairs(
        pairs: Iterable[Any],
        *,
        names: Sequence[Any] | None = None,
        groups: Sequence[Any] | None = None,
        columns: Schema | None = None,
    ) -> "Curves":
        """One curve per pair (X, y). X has one row per point, y one number or one row per point, NaN where not observed.

        Points without an observed output are dropped, and so are curves without points.
        """
        x_parts, y_parts, kept = [], [], []
        given = list(require_pairs(pairs, "task"))
        for number, (x_given, y_given) in enumerate(given):
            name = number if names is None else names[number]
            x = as_matrix(f"X of task {name}", x_given, allow_missing=False)
            y = as_matrix(f"y of task {name}", y_given, allow_missing=True)
            if len(x) != len(y):
                raise InputError(f"task {name}: X has {len(x)} rows and y has {len(y)}; every point needs both")
            seen = ~np.isnan(y).all(axis=1)
            if seen.any():
                x_parts.append(x[seen])
                y_parts.append(y[seen])
                kept.append(number)
        if not x_parts:
            raise InputError(f"no observed point in {len(given)} tasks; every task needs at least one output that is a number")
        names = tuple(number if names is None else names[number] for number in kept)
        for what, parts in (("X", x_parts), ("y", y_parts)):
            for name, part in zip(names, parts, strict=True):
                if part.shape[1] != parts[0].shape[1]:
                    raise InputError(
                        f"{what} of task {name} has {part.shape[1]} columns, but that of task {names[0]} has "
                        f"{parts[0].shape[1]}; all tasks must have the same columns"
                    )
        columns = columns or Schema.numbered(x_parts[0].shape[1], y_parts[0].shape[1])
        got = (x_parts[0].shape[1], y_parts[0].shape[1])
        if got != (len(columns.inputs), len(columns.outputs)):
            raise InputError(
                f"expected {len(columns.inputs)} input and {len(columns.outputs)} output columns, got {got[0]} and {got[1]}"
            )
        counts = np.asarray([len(part) for part in x_parts])
        groups = names if groups is None else tuple(groups[number] for number in kept)
        return Curves(names, groups, np.concatenate(x_parts), np.concatenate(y_parts), counts, columns)


def as_matrix(name: str, values: Any, *, allow_missing: bool) -> Float[np.ndarray, "row column"]:
    """A float64 matrix from lists, arrays or pandas objects; a flat sequence becomes one column.

    Missing values (NaN, None, pandas' NA) become NaN; unless `allow_missing`, they are an error.
    """
    try:
        if hasattr(values, "to_numpy"):
            values = values.to_numpy(dtype=np.float64, na_value=np.nan)
        matrix = _without_mask(values)
        if matrix.dtype.kind in "cmMSU":
            raise TypeError(f"got {matrix.dtype}")
        matrix = np.asarray(matrix, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} must hold numbers in rows of equal length: {error}") from None
    if matrix.ndim < 2:
        matrix = matrix.reshape(-1, 1)
    if matrix.ndim != 2:
        raise InputError(f"{name} must have shape (points,) or (points, columns), got {matrix.shape}")
    bad = np.isinf(matrix) if allow_missing else ~np.isfinite(matrix)
    if bad.any():
        row = int(np.argmax(bad.any(axis=1)))
        remedy = "use NaN for an output that was not observed" if allow_missing else "drop the points whose input is unknown"
        raise InputError(f"{name} must be finite, but row {row} is {matrix[row].tolist()}; {remedy}")
    return matrix


def _natural(name: Any) -> tuple[float, str]:
    """A sort key: numbers by their size, then other names."""
    try:
        number = float(name)
    except (TypeError, ValueError):
        number = np.inf
    return (np.inf if np.isnan(number) else number, str(name))


def _without_mask(values: Any) -> np.ndarray:
    """An array in which masked entries are NaN."""
    if isinstance(values, np.ma.MaskedArray) and values.dtype.kind in "biuf":
        return np.ma.filled(values.astype(np.float64), np.nan)
    return np.asarray(values)


def require_pairs(pairs: Iterable[Any], kind: str) -> Iterable[tuple[Any, Any]]:
    """Yield the pairs (X, y); an error names the first item that is not a pair."""
    if isinstance(pairs, (str, bytes)) or not isinstance(pairs, Iterable):
        raise InputError(f"{kind}s must be a list of pairs (X, y), got {type(pairs).__name__}")
    for number, pair in enumerate(pairs):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise InputError(f"{kind} {number} must be a pair (X, y), got {type(pair).__name__}")
        yield pair[0], pair[1]
