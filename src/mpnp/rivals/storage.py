"""Rivals on disk: named arrays in one file. Reading it executes no code."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from mpnp.errors import RunError, first_line
from mpnp.io.tensors import load_named, save_named
from mpnp.rivals.base import AbstractRival, Places, Points
from mpnp.rivals.registry import RIVALS

__all__ = ["load_rivals", "save_rivals"]

SEPARATOR = "."


def save_rivals(path: Path, rivals: Mapping[str, AbstractRival]) -> None:
    """Write the parameters of all rivals, atomically."""
    arrays = {f"{kind}{SEPARATOR}{name}": part for kind, rival in rivals.items() for name, part in rival.to_arrays().items()}
    save_named(path, {name: np.array(part, order="C") for name, part in arrays.items()}, {"rivals": list(rivals)})


def load_rivals(path: Path, places: Places) -> dict[str, AbstractRival]:
    """Read what `save_rivals` wrote. All rivals must forecast these places, one of each output."""
    card, arrays = load_named(path)
    try:
        rivals = {kind: RIVALS[kind].from_arrays(_arrays_of(kind, arrays)) for kind in card["rivals"]}
        for rival in rivals.values():
            _require_forecasts(rival, places)
        return rivals
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, MemoryError, np.linalg.LinAlgError) as error:
        raise RunError(
            f"{path} is damaged or was written by another mpnp ({first_line(error)}); restore it from a copy"
        ) from None


def _require_forecasts(rival: AbstractRival, places: Places) -> None:
    """Raise an error unless a rival forecasts each place, with and without a context: arrays may fit no rival."""
    observed = Points(*places, np.zeros(len(places.x)))
    for context in (observed.select([]), observed):
        with np.errstate(all="ignore"):  # the answer is checked
            answer = rival.predict(context, places)
        if answer.loc.shape[1:] != (len(places.x), 1) or not np.isfinite(answer.loc).all() or not (answer.scale > 0).all():
            raise ValueError(f"'{rival.kind}' forecasts no distributions")


def _arrays_of(kind: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    prefix = f"{kind}{SEPARATOR}"
    return {name.removeprefix(prefix): part for name, part in arrays.items() if name.startswith(prefix)}
