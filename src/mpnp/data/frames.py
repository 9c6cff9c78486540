"""Curves from tables: pandas frames with a task column, CSV and Parquet files."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from mpnp.data.curves import Columns, Curves
from mpnp.errors import InputError, first_line, unknown_name

__all__ = ["Frame", "curves_from_frame", "is_frame", "numeric_columns", "plain_number", "read_table", "require_columns"]

Frame = Any
"""A pandas frame. pandas is imported where it is needed and not before: it takes half a second."""


def is_frame(values: Any) -> bool:
    """Whether this is a pandas frame; pandas is not imported to find out."""
    return hasattr(values, "columns") and hasattr(values, "loc")


def read_table(path: str | Path) -> Frame:
    """A CSV (also .csv.gz and the like) or Parquet file as a frame, column names as they are in the file."""
    pd = _pandas()
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path} does not exist or is not a file")
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            return pd.read_parquet(path)
        _check_header(path)
        with warnings.catch_warnings():
            # Of rows longer than the header, pandas would shift or drop columns.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(path, low_memory=False, index_col=False)
    except InputError:
        raise
    except pd.errors.ParserWarning:
        raise InputError(f"{path} has rows with more cells than its header has names; give every column a name") from None
    except ImportError:
        raise InputError(f"reading {path} needs pyarrow; install it with: pip install 'mpnp[parquet]'") from None
    except (OSError, ValueError, EOFError, OverflowError) as error:  # pandas' and pyarrow's own errors are ValueErrors
        raise InputError(
            f"cannot read {path} as a table ({first_line(error)}); expected CSV with a header line, or Parquet"
        ) from None


def _check_header(path: Path) -> None:
    """Refuse what pandas would pass over: it renames the second column of a name, and takes other separators for text."""
    pd = _pandas()
    header = pd.read_csv(path, header=None, nrows=1, dtype=str)
    names = [str(name) for name in header.iloc[0]] if len(header) else []
    for sign, word in ((";", "semicolons"), ("\t", "tabs")):
        if len(names) == 1 and sign in names[0] and names[0].replace(sign, "").isprintable():
            raise InputError(f"{path} separates its columns by {word}; write it with commas, and numbers with points")
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(f"{path} has more than one column named '{repeated[0]}'; give every column a name of its own")


def curves_from_frame(frame: Frame, columns: Columns) -> Curves:
    """One curve for each value of the task column, in order of first appearance."""
    require_columns(frame, (columns.task, *columns.inputs, *columns.outputs))
    task = frame[columns.task]
    if task.isna().any():
        row = int(np.argmax(task.isna().to_numpy()))
        raise InputError(f"the task column '{columns.task}' is empty in row {row}; every row must say which task it is of")
    x = numeric_columns(frame, columns.inputs, allow_missing=False)
    y = numeric_columns(frame, columns.outputs, allow_missing=True)
    if not len(frame):
        raise InputError("the table has no rows")
    codes, names = task.factorize()
    rows = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    groups = None if columns.group is None else [_group(frame, columns.group, part) for part in rows]
    return Curves.from_pairs(
        [(x[part], y[part]) for part in rows], names=[plain_number(name) for name in names], groups=groups, columns=columns
    )


def _group(frame: Frame, column: str, rows: Int[np.ndarray, " row"]) -> Any:
    """The group of a curve, which all its rows must agree on."""
    require_columns(frame, (column,))
    values = frame[column].iloc[rows].unique()
    if len(values) != 1:
        raise InputError(
            f"the rows of one task have {len(values)} values of '{column}', such as {plain_number(values[0])!r} and "
            f"{plain_number(values[1])!r}; "
            "a task must lie in one part of the split"
        )
    if frame[column].iloc[rows].isna().any():
        raise InputError(
            f"the group column '{column}' is empty in row {int(rows[0])}; every task must say which group it is of"
        )
    return plain_number(values[0])


def plain_number(value: Any) -> Any:
    """A number of numpy's as Python's own; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def require_columns(frame: Frame, wanted: Sequence[str]) -> None:
    """Refuse columns that are missing, repeated in the frame, or asked for twice."""
    names = [str(name) for name in frame.columns]
    for name in wanted:
        if names.count(name) == 0:
            raise unknown_name("column", name, names, f"The table has: {', '.join(names)}.")
        if names.count(name) > 1:
            raise InputError(f"the table has {names.count(name)} columns named '{name}'; give every column a name of its own")
        if list(wanted).count(name) > 1:
            raise InputError(f"the column '{name}' is asked for twice; task, inputs and outputs must be different columns")


def numeric_columns(frame: Frame, names: Sequence[str], *, allow_missing: bool) -> Float[np.ndarray, "row column"]:
    """Columns as float64. Dates, also as text like 2024-05-31, count in days since 1970; all else must be a number."""
    require_columns(frame, names)
    remedy = "leave it empty if unknown" if allow_missing else "drop such rows: an input must be a finite number"
    columns = [_numbers(frame[name], name, remedy) for name in names]
    matrix = np.stack(columns, axis=1) if columns else np.zeros((len(frame), 0))
    for name, values in zip(names, columns, strict=True):
        bad = np.isinf(values) if allow_missing else ~np.isfinite(values)
        if bad.any():
            row, count = int(np.argmax(bad)), int(bad.sum())
            what = "is infinite" if allow_missing or np.isinf(values[row]) else "is missing"
            more = f" (and {count - 1} more)" if count > 1 else ""
            raise InputError(f"column '{name}' {what} in row {row}{more}; repair it, or {remedy}")
    return matrix


def _pandas() -> Any:
    import pandas

    return pandas


def _days(stamps: Any) -> Float[np.ndarray, " row"]:
    pd = _pandas()
    return ((stamps - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)).to_numpy(np.float64)


def _numbers(column: Any, name: str, remedy: str) -> Float[np.ndarray, " row"]:
    pd = _pandas()
    if isinstance(column.dtype, pd.DatetimeTZDtype) or column.dtype.kind == "M":
        return _days(pd.to_datetime(column, utc=True))
    if column.dtype.kind == "c":
        raise InputError(f"column '{name}' holds complex numbers; expected real ones")
    numbers = pd.to_numeric(column, errors="coerce")
    text = numbers.isna() & ~column.isna()
    if text.any() and numbers.isna().all():
        stamps = pd.to_datetime(column, utc=True, format="ISO8601", errors="coerce")
        if not (stamps.isna() & text).any():
            return _days(stamps)
    if text.any():
        row = int(np.argmax(text.to_numpy()))
        raise InputError(f"column '{name}' must hold numbers, but row {row} is {column.iloc[row]!r}; repair it, or {remedy}")
    return numbers.to_numpy(np.float64, na_value=np.nan)
