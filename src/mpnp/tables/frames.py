"""Curves from tables: pandas data frames with a task column, CSV and Parquet files."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from mpnp.errors import InputError, first_line, shorten, unknown_name
from mpnp.io.paths import usable_path
from mpnp.tables.cells import import_pandas
from mpnp.tables.columns import Column, Schema
from mpnp.tables.curves import Curves
from mpnp.tables.dialect import find_dialect
from mpnp.tables.encoders.registry import COLUMN_KINDS
from mpnp.tables.reliability import RELIABILITY

__all__ = [
    "Frame",
    "curves_from_frame",
    "is_frame",
    "plain_number",
    "read_columns",
    "read_curves",
    "read_noise",
    "read_table",
    "require_columns",
]

Frame = Any
"""A pandas data frame."""

PARQUET = (".parquet", ".pq")


def is_frame(values: Any) -> bool:
    """Whether this is a pandas data frame. Does not import pandas."""
    return hasattr(values, "columns") and hasattr(values, "loc")


def read_table(path: str | Path, text: Sequence[str | None] = ()) -> Frame:
    """Read a CSV file (also compressed, such as .csv.gz) or a Parquet file, with column names as in the file.

    Separator (comma, semicolon, tab or bar), decimal sign and encoding of a CSV file are detected. Columns named in `text`
    stay as they are written: 007 and 7 are two tasks.
    """
    pd = import_pandas()
    path = usable_path(path)
    if not os.path.isfile(path):
        raise InputError(f"{path} does not exist or is not a file")
    try:
        if path.suffix.lower() in PARQUET:
            return pd.read_parquet(path)
        with warnings.catch_warnings():
            # If rows are longer than the header, pandas would shift or drop columns.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(
                path,
                low_memory=False,
                index_col=False,
                dtype={name: str for name in text if name},
                **find_dialect(path)._asdict(),
            )
    except InputError:
        raise
    except pd.errors.ParserWarning:
        raise InputError(f"{path} has rows with more cells than its header has names; name every column") from None
    except ImportError as error:
        advice = "; install pyarrow with: pip install 'mpnp[parquet]'" if path.suffix.lower() in PARQUET else ""
        raise InputError(f"cannot read {path}: {first_line(error)}{advice}") from None
    except Exception as error:  # a damaged file can raise anything, from zlib.error to RuntimeError
        raise InputError(
            f"cannot read {path} as a table ({first_line(error)}); expected CSV with a header line, or Parquet"
        ) from None


def curves_from_frame(frame: Frame, columns: Schema) -> Curves:
    """One curve per value of the task column, in order of first appearance."""
    weight = () if columns.weight is None else (columns.weight,)
    require_columns(frame, (columns.task, *columns.inputs, *columns.outputs, *weight, *columns.noise))
    task = frame[columns.task]
    if task.isna().any():
        row = int(np.argmax(task.isna().to_numpy()))
        raise InputError(f"the task column '{columns.task}' is empty in row {row}; every row needs a task")
    columns = columns.adapt(frame)
    x = read_columns(frame, columns.input_columns, allow_missing=False)
    y = read_columns(frame, columns.output_columns, allow_missing=True)
    if not len(frame):
        raise InputError("the table has no rows")
    reliability = {
        what: _read_reliability(frame, what, names, y)
        for what, names in (("weights", weight), ("noise", columns.noise))
        if names
    }
    codes, names = task.factorize()
    rows = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    groups = None if columns.group is None else [_group(frame, columns.group, part) for part in rows]
    return Curves.from_pairs(
        [(x[part], y[part]) for part in rows],
        names=[plain_number(name) for name in names],
        groups=groups,
        columns=columns,
        **{what: [values[part] for part in rows] for what, values in reliability.items()},
    )


def _read_reliability(frame: Frame, what: str, names: Sequence[str], y: Float[np.ndarray, "row output"]) -> np.ndarray:
    """Weights or known noise from the columns with these names."""
    values = read_columns(frame, [Column(name) for name in names], allow_missing=True)
    return RELIABILITY[what](f"column {', '.join(map(repr, names))}", values, y)


def read_noise(columns: Schema, X: Any) -> Float[np.ndarray, "row output"] | None:
    """The known noise of measurements at the rows of X; None unless X is a frame that holds it."""
    if not columns.noise or not is_frame(X) or not set(columns.noise) <= {str(name) for name in X.columns}:
        return None
    values = read_columns(X, [Column(name) for name in columns.noise], allow_missing=True)
    return RELIABILITY["noise"](f"column {', '.join(map(repr, columns.noise))}", values, np.zeros_like(values))


def read_curves(columns: Schema, curves: Any) -> Curves:
    """Curves with the model's columns, from curves, a data frame with the task column, or a list of pairs (X, y)."""
    if isinstance(curves, Curves):
        return Curves.from_pairs(
            [curves.pair(number) for number in range(len(curves))],
            names=curves.names,
            groups=curves.groups,
            columns=columns,
            **curves.reliability(),
        )
    if is_frame(curves):
        return curves_from_frame(curves, columns.without_absent({str(name) for name in curves.columns}))
    return Curves.from_pairs(curves, columns=columns)


def _group(frame: Frame, column: str, rows: Int[np.ndarray, " row"]) -> Any:
    """The group of a curve, which must be the same in all of its rows."""
    require_columns(frame, (column,))
    values = frame[column].iloc[rows].unique()
    if len(values) != 1:
        raise InputError(
            f"the rows of one task have {len(values)} values of '{column}', such as {plain_number(values[0])!r} and "
            f"{plain_number(values[1])!r}; "
            "a task must lie in one part of the split"
        )
    if frame[column].iloc[rows].isna().any():
        raise InputError(f"the group column '{column}' is empty in row {int(rows[0])}; every task needs a group")
    return plain_number(values[0])


def plain_number(value: Any) -> Any:
    """Convert a NumPy scalar to a Python number; return anything else unchanged."""
    return value.item() if isinstance(value, np.generic) else value


def require_columns(frame: Frame, wanted: Sequence[str]) -> None:
    """Raise an error for columns that are missing, duplicated in the frame, or requested twice."""
    names = [str(name) for name in frame.columns]
    for name in wanted:
        if names.count(name) == 0:
            raise unknown_name(
                "column", name, names, f"The table has: {shorten(', '.join(names), 300)}.{_about_kinds(name, names)}"
            )
        if names.count(name) > 1:
            raise InputError(f"the table has {names.count(name)} columns named '{name}'; column names must be unique")
        if list(wanted).count(name) > 1:
            raise InputError(f"the column '{name}' is used twice; task, inputs and outputs must be different columns")


def _about_kinds(name: str, names: Sequence[str]) -> str:
    """A hint, if the name is that of a column with a kind that does not exist."""
    column, _, kind = name.rpartition(":")
    return f" There is no kind '{shorten(kind)}'; choose one of: {', '.join(COLUMN_KINDS)}." if column in names else ""


def read_columns(frame: Frame, columns: Sequence[Column], *, allow_missing: bool) -> Float[np.ndarray, "row column"]:
    """Columns as float64, each read by its encoder. `allow_missing` permits empty cells, which become NaN."""
    require_columns(frame, [column.name for column in columns])
    remedy = "leave it empty if unknown" if allow_missing else "drop such rows: an input must be a finite number"
    matrix = np.zeros((len(frame), len(columns)))
    for number, column in enumerate(columns):
        values = column.encoder.read(frame[column.name], column.name, remedy)
        bad = np.isinf(values) if allow_missing else ~np.isfinite(values)
        if bad.any():
            row, count = int(np.argmax(bad)), int(bad.sum())
            what = "is infinite" if allow_missing or np.isinf(values[row]) else "is missing"
            more = f" (and {count - 1} more)" if count > 1 else ""
            raise InputError(f"column '{column.name}' {what} in row {row}{more}; repair it, or {remedy}")
        matrix[:, number] = values
    return matrix
