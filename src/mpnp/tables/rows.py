"""Read the user's context and target rows as matrices with the columns of the model."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.errors import InputError
from mpnp.tables.cells import import_pandas
from mpnp.tables.columns import Schema
from mpnp.tables.curves import as_matrix
from mpnp.tables.frames import is_frame, read_columns

__all__ = ["read_context", "read_inputs", "read_outputs"]


def read_inputs(columns: Schema, X: Any) -> Float[np.ndarray, "row input"]:
    """Inputs from a data frame with the model's input columns, or from rows of numbers."""
    if (frame := _as_frame(X, columns.inputs)) is not None:
        return read_columns(frame, columns.input_columns, allow_missing=False)
    x = as_matrix("X", X, allow_missing=False)
    if x.size == 0:
        return np.zeros((0, len(columns.inputs)))
    if x.shape[1] != len(columns.inputs):
        raise InputError(
            f"X must have {len(columns.inputs)} columns ({', '.join(columns.inputs)}), got {x.shape[1]}; one row per point"
        )
    return x


def read_outputs(columns: Schema, y: Any, num_rows: int) -> Float[np.ndarray, "row output"]:
    """Outputs, NaN where not observed, from a data frame with the model's output columns or from rows of numbers."""
    if (frame := _as_frame(y, columns.outputs)) is not None:
        outputs = read_columns(frame, columns.output_columns, allow_missing=True)
    else:
        outputs = as_matrix("y", y, allow_missing=True)
        if outputs.size == 0:
            outputs = np.zeros((0, len(columns.outputs)))
    if outputs.shape[1] != len(columns.outputs):
        raise InputError(
            f"y must have {len(columns.outputs)} columns ({', '.join(columns.outputs)}), got {outputs.shape[1]}; "
            "one row per point"
        )
    if len(outputs) != num_rows:
        raise InputError(f"X has {num_rows} rows and y has {len(outputs)}; every point needs both")
    return outputs


def _as_frame(values: Any, names: Sequence[str]) -> Any:
    """A frame as it is, and a column of dates, durations or text under its name; None for rows of numbers."""
    if is_frame(values):
        return values
    kind = getattr(getattr(values, "dtype", None), "kind", "")
    is_timed = kind in "mM" or str(getattr(values, "dtype", "")).startswith("datetime64")
    if (
        len(names) != 1
        or _num_axes(values) != 1
        or not (is_timed or str(getattr(values, "dtype", "")) in ("str", "string", "category"))
    ):
        return None
    return import_pandas().DataFrame({names[0]: values})


def _num_axes(values: Any) -> int | None:
    """Number of axes; None for rows of different lengths."""
    try:
        return np.ndim(values)
    except ValueError:
        return None


def read_context(columns: Schema, X: Any, y: Any) -> tuple[Float[np.ndarray, "row input"], Float[np.ndarray, "row output"]]:
    """Observed inputs and outputs. If y is None, X is a data frame with the columns of both. Drops rows without an output."""
    if y is None and not is_frame(X):
        raise InputError("y is missing: pass X and y, or a data frame with the columns of both")
    x = read_inputs(columns, X)
    outputs = read_outputs(columns, X if y is None else y, len(x))
    seen = ~np.isnan(outputs).all(axis=1)
    return x[seen], outputs[seen]
