"""Rivals on disk: named arrays in one file. Reading it executes no code."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from mpnp.errors import RunError, first_line
from mpnp.io.tensors import load_named, save_named
from mpnp.rivals.base import AbstractRival
from mpnp.rivals.registry import RIVALS

__all__ = ["load_rivals", "save_rivals"]

SEPARATOR = "."


def save_rivals(path: Path, rivals: Mapping[str, AbstractRival]) -> None:
    """Write the parameters of all rivals, atomically."""
    arrays = {f"{kind}{SEPARATOR}{name}": part for kind, rival in rivals.items() for name, part in rival.to_arrays().items()}
    save_named(path, {name: np.array(part, order="C") for name, part in arrays.items()}, {"rivals": list(rivals)})


def load_rivals(path: Path) -> dict[str, AbstractRival]:
    """Read what `save_rivals` wrote."""
    card, arrays = load_named(path)
    try:
        return {kind: RIVALS[kind].from_arrays(_arrays_of(kind, arrays)) for kind in card["rivals"]}
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(
            f"{path} is damaged or was written by another mpnp ({first_line(error)}); restore it from a copy"
        ) from None


def _arrays_of(kind: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    prefix = f"{kind}{SEPARATOR}"
    return {name.removeprefix(prefix): part for name, part in arrays.items() if name.startswith(prefix)}
