"""Curves: observed data sets of any sizes, concatenated in two matrices."""

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from mpnp.errors import InputError, show
from mpnp.tables.columns import Schema
from mpnp.tables.reliability import RELIABILITY

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
    weights: Float[np.ndarray, " row"] | None = None
    """How much each row counts, in training and in scores; None: all the same."""
    noise: Float[np.ndarray, "row output"] | None = None
    """The known standard deviation of each measurement, in the output's units; None: none is known."""

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
        for what, require in RELIABILITY.items():
            if (values := getattr(self, what)) is not None:
                require(what, values if values.ndim > 1 else values[:, None], self.y)

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
        pairs = [(self.counts, other.counts)]
        pairs += [(values, getattr(other, name)) for name, values in self._of_rows().items()]
        return self._of_rows().keys() == other._of_rows().keys() and all(
            np.array_equal(mine, theirs, equal_nan=True) for mine, theirs in pairs
        )

    def _of_rows(self) -> dict[str, np.ndarray]:
        """Everything known of each row, by the name of its field."""
        fields = {"x": self.x, "y": self.y, "weights": self.weights, "noise": self.noise}
        return {name: values for name, values in fields.items() if values is not None}

    def _take(self, rows: Int[np.ndarray, " row"], **others: Any) -> "Curves":
        """The same with these rows, in this order, and with other values of some fields."""
        return dataclasses.replace(self, **{name: values[rows] for name, values in self._of_rows().items()}, **others)

    def reliability(self) -> dict[str, list[np.ndarray]]:
        """Weights and known noise, as far as there are any, with an array per curve."""
        ends = np.cumsum(self.counts)[:-1]
        return {what: np.split(values, ends) for what, values in self._of_rows().items() if what in RELIABILITY}

    def select(self, numbers: Iterable[int]) -> "Curves":
        """The curves with these numbers, in this order."""
        chosen = list(numbers)
        if not chosen:
            return self._take(np.zeros(0, np.int64), names=(), groups=(), counts=np.zeros(0, np.int64))
        rows = np.concatenate([np.arange(self.starts[n], self.starts[n] + self.counts[n]) for n in chosen])
        names, groups = (tuple(labels[n] for n in chosen) for labels in (self.names, self.groups))
        return self._take(rows, names=names, groups=groups, counts=self.counts[chosen])

    def in_order(self) -> "Curves":
        """The curves by their names, and the rows of each by inputs and outputs: the same for tables in any order."""
        curves = self.select(sorted(range(len(self)), key=lambda number: _natural(self.names[number])))
        known = curves._of_rows()
        keys = [known[name].reshape(len(curves.x), -1).T[::-1] for name in ("noise", "weights", "y", "x") if name in known]
        return curves._take(np.lexsort((*np.concatenate(keys), np.repeat(np.arange(len(curves)), curves.counts))))

    @staticmethod
    def from_pairs(
        pairs: Iterable[Any],
        *,
        names: Sequence[Any] | None = None,
        groups: Sequence[Any] | None = None,
        columns: Schema | None = None,
        weights: Sequence[Any] | None = None,
        noise: Sequence[Any] | None = None,
    ) -> "Curves":
        """One curve per pair (X, y). X has one row per point, y one number or one row per point, NaN where not observed.

        `weights` and `noise` hold an array per pair: how much each point counts, and the known standard deviation of each
        measurement, of the shape of y. Points without an observed output are dropped, and so are curves without points.
        """
        x_parts, y_parts, kept = [], [], []
        given = list(require_pairs(pairs, "task"))
        known = {what: values for what, values in (("weights", weights), ("noise", noise)) if values is not None}
        known_parts: dict[str, list[np.ndarray]] = {what: [] for what in known}
        for what, values in known.items():
            if len(values) != len(given):
                raise InputError(f"{what} must hold one array for each of {len(given)} tasks, got {len(values)}")
        for number, (x_given, y_given) in enumerate(given):
            name = number if names is None else names[number]
            x = as_matrix(f"X of task {name}", x_given, allow_missing=False)
            y = as_matrix(f"y of task {name}", y_given, allow_missing=True)
            if len(x) != len(y):
                raise InputError(f"task {name}: X has {len(x)} rows and y has {len(y)}; every point needs both")
            seen = ~np.isnan(y).all(axis=1)
            if seen.any():
                for what, values in known.items():
                    matrix = as_matrix(f"{what} of task {name}", values[number], allow_missing=True)
                    known_parts[what].append(RELIABILITY[what](f"{what} of task {name}", matrix, y)[seen])
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
        if noise is not None and not columns.noise:
            columns = columns.with_noise([f"{name}_noise" for name in columns.outputs])
        got = (x_parts[0].shape[1], y_parts[0].shape[1])
        if got != (len(columns.inputs), len(columns.outputs)):
            raise InputError(
                f"expected {len(columns.inputs)} input and {len(columns.outputs)} output columns, got {got[0]} and {got[1]}"
            )
        counts = np.asarray([len(part) for part in x_parts])
        groups = names if groups is None else tuple(groups[number] for number in kept)
        reliability = {what: np.concatenate(parts) for what, parts in known_parts.items()}
        return Curves(names, groups, np.concatenate(x_parts), np.concatenate(y_parts), counts, columns, **reliability)


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
