"""Rows that a user conditions on or asks about, as matrices with the columns of the model."""

from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.data.curves import Columns, as_matrix
from mpnp.data.frames import is_frame, numeric_columns
from mpnp.errors import InputError

__all__ = ["read_context", "read_inputs", "read_outputs"]


def read_inputs(columns: Columns, X: Any) -> Float[np.ndarray, "row input"]:
    """Inputs from a frame with the model's input columns, or from rows of numbers."""
    if is_frame(X):
        return numeric_columns(X, columns.inputs, allow_missing=False)
    x = as_matrix("X", X, allow_missing=False)
    if x.size == 0:
        return np.zeros((0, len(columns.inputs)))
    if x.shape[1] != len(columns.inputs):
        raise InputError(
            f"X must have {len(columns.inputs)} columns ({', '.join(columns.inputs)}), got {x.shape[1]}; one row a point"
        )
    return x


def read_outputs(columns: Columns, y: Any, num_rows: int) -> Float[np.ndarray, "row output"]:
    """Outputs, NaN where not observed, from a frame with the model's output columns or from rows of numbers."""
    if is_frame(y):
        outputs = numeric_columns(y, columns.outputs, allow_missing=True)
    else:
        outputs = as_matrix("y", y, allow_missing=True)
        if outputs.size == 0:
            outputs = np.zeros((0, len(columns.outputs)))
    if outputs.shape[1] != len(columns.outputs):
        raise InputError(
            f"y must have {len(columns.outputs)} columns ({', '.join(columns.outputs)}), got {outputs.shape[1]}; "
            "one row a point"
        )
    if len(outputs) != num_rows:
        raise InputError(f"X has {num_rows} rows and y has {len(outputs)}; every point needs both")
    return outputs


def read_context(columns: Columns, X: Any, y: Any) -> tuple[Float[np.ndarray, "row input"], Float[np.ndarray, "row output"]]:
    """Observed rows; a frame may hold inputs and outputs together. Rows of which no output was observed are left out."""
    if y is None and not is_frame(X):
        raise InputError("y is missing: condition on X and y, or on a frame that holds the columns of both")
    x = read_inputs(columns, X)
    outputs = read_outputs(columns, X if y is None else y, len(x))
    seen = ~np.isnan(outputs).all(axis=1)
    return x[seen], outputs[seen]
