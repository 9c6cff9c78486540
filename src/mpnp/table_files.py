"""Files of the curves that a run learns from, so that it can resume wherever its directory is."""

import dataclasses
from pathlib import Path
from typing import Any

from mpnp import checkpoint
from mpnp.data.curves import Columns, Curves
from mpnp.data.learnable import LearningTable
from mpnp.errors import RunError

__all__ = ["load_table", "save_table"]

ARRAYS = ("x", "y", "counts")
CHOICES = ("context", "validation", "test", "seed", "mixing")


def save_table(path: Path, table: LearningTable) -> None:
    """Write the curves and what was chosen about them, atomically."""
    curves = table.curves
    card = {
        "names": [_plain(name) for name in curves.names],
        "groups": [_plain(group) for group in curves.groups],
        "columns": dataclasses.asdict(curves.columns),
        **{name: getattr(table, name) for name in CHOICES},
    }
    checkpoint.save_named(path, {name: getattr(curves, name) for name in ARRAYS}, card)


def load_table(path: Path) -> LearningTable:
    """Read what `save_table` wrote."""
    card, arrays = checkpoint.load_named(path)
    try:
        curves = Curves(
            names=tuple(card["names"]),
            groups=tuple(card["groups"]),
            columns=Columns.from_json(card["columns"]),
            **{name: arrays[name] for name in ARRAYS},
        )
        return LearningTable(curves, **{name: card[name] for name in CHOICES})
    except (KeyError, TypeError) as error:
        raise RunError(f"{path} does not hold the curves of a run ({error}); start the fit anew") from None


def _plain(value: Any) -> Any:
    return value if isinstance(value, (str, int, float)) else str(value)
