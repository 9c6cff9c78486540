"""Data sets of curves on disk."""

from pathlib import Path
from typing import Any

from mpnp.errors import RunError, first_line
from mpnp.io.tensors import load_named, save_named
from mpnp.tables.columns import Schema
from mpnp.tables.curves import Curves
from mpnp.tables.dataset import CurveDataset
from mpnp.tables.reliability import RELIABILITY

__all__ = ["load_dataset", "save_dataset"]

ARRAYS = ("x", "y", "counts")
CHOICES = ("context", "validation", "test", "seed", "mixing", "scaled")


def save_dataset(path: Path, table: CurveDataset) -> None:
    """Write the curves and the options of the data set, atomically."""
    curves = table.curves
    card = {
        "names": [_plain(name) for name in curves.names],
        "groups": [_plain(group) for group in curves.groups],
        **curves.columns.to_json(),
        **{name: getattr(table, name) for name in CHOICES},
    }
    known = [name for name in (*ARRAYS, *RELIABILITY) if getattr(curves, name) is not None]
    save_named(path, {name: getattr(curves, name) for name in known}, card)


def load_dataset(path: Path) -> CurveDataset:
    """Read what `save_dataset` wrote."""
    card, arrays = load_named(path)
    try:
        curves = Curves(
            names=tuple(card["names"]),
            groups=tuple(card["groups"]),
            columns=Schema.from_json(card),
            **{name: arrays[name] for name in ARRAYS},
            **{name: arrays[name] for name in RELIABILITY if name in arrays},
        )
        return CurveDataset(curves, **{name: card[name] for name in CHOICES if name in card})
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise RunError(f"{path} does not hold the curves of a run ({first_line(error)}); start the fit again") from None


def _plain(value: Any) -> Any:
    return value if isinstance(value, (str, int, float)) else str(value)
