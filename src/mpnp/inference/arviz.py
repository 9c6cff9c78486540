"""Drawn functions for ArviZ, which is imported only here."""

import importlib
import inspect
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.tables.columns import Schema

__all__ = ["to_inference_data"]

CONTEXT, ROW = "context", "row"
"""Dimensions: rows of the context, and rows at which functions are drawn."""


def to_inference_data(
    columns: Schema,
    context: tuple[Float[np.ndarray, "context input"], Float[np.ndarray, "context output"]],
    x: Float[np.ndarray, "row input"],
    functions: Float[np.ndarray, "draw row output"],
) -> Any:
    """Functions as the group `posterior`, the context as `observed_data`, and inputs as `constant_data`."""
    groups = {
        "posterior": {name: functions[None, ..., place] for place, name in enumerate(columns.outputs)},
        "observed_data": {_in_context(name): values for name, values in zip(columns.outputs, context[1].T, strict=True)},
        "constant_data": {
            **dict(zip(columns.inputs, x.T, strict=True)),
            **{_in_context(name): values for name, values in zip(columns.inputs, context[0].T, strict=True)},
        },
    }
    names = (*columns.inputs, *columns.outputs)
    dims = {name: [ROW] for name in names} | {_in_context(name): [CONTEXT] for name in names}
    return _from_groups(groups, {CONTEXT: np.arange(len(context[0])), ROW: np.arange(len(x))}, dims)


def _in_context(name: str) -> str:
    return f"{name}_{CONTEXT}"


def _from_groups(groups: Mapping[str, Any], coords: Mapping[str, Any], dims: Mapping[str, Any]) -> Any:
    """An `InferenceData` of ArviZ 0, or a `DataTree` of ArviZ 1, whose `from_dict` takes all groups as one argument."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # the last versions before 1 announce it at every import
            arviz = importlib.import_module("arviz")
    except ModuleNotFoundError as error:
        raise ImportError(
            f"to_arviz needs {error.name}, which is not installed; install it with: pip install 'mpnp[arviz]'", name=error.name
        ) from None
    if "posterior" in inspect.signature(arviz.from_dict).parameters:
        return arviz.from_dict(**groups, coords=coords, dims=dims)
    return arviz.from_dict(groups, coords=coords, dims=dims)
