"""Cells of a pandas column: what they hold, and dates as numbers."""

from typing import Any

import numpy as np
from jaxtyping import Float

__all__ = ["days_since_1970", "import_pandas", "is_date", "is_duration", "looks_like_duration", "looks_like_iso"]

DURATION = r"\s*[+-]?\d+ days?(?: [+-]?\d{2}:\d{2}:\d{2}(?:\.\d+)?)?\s*"
"""How pandas writes durations. Others, such as 5m, could be something else."""


def import_pandas() -> Any:
    """Import pandas on first use, because it takes half a second."""
    import pandas

    return pandas


def is_date(cells: Any) -> bool:
    """Whether a pandas column holds dates and times."""
    return isinstance(cells.dtype, import_pandas().DatetimeTZDtype) or cells.dtype.kind == "M"


def is_duration(cells: Any) -> bool:
    """Whether a pandas column holds durations."""
    return cells.dtype.kind == "m"


def looks_like_iso(cells: Any) -> bool:
    """Whether a column of text holds dates such as 2024-05-31 and nothing else but empty cells."""
    pd, given = import_pandas(), _text(cells)
    if given is None or not pd.to_numeric(given, errors="coerce").isna().all():
        return False
    return bool(pd.to_datetime(given, utc=True, format="ISO8601", errors="coerce").notna().all())


def looks_like_duration(cells: Any) -> bool:
    """Whether a column of text holds durations as pandas writes them, such as 0 days 02:00:00, and nothing else."""
    given = _text(cells)
    return given is not None and bool(given.str.fullmatch(DURATION).all())


def _text(cells: Any) -> Any:
    """The cells of a column of text that are not empty; None if there are none, or if some are no text."""
    if cells.dtype.kind not in "OTU" and str(cells.dtype) not in ("string", "str"):
        return None
    given = cells.dropna()
    return given if len(given) and all(isinstance(cell, str) for cell in given) else None


def days_since_1970(stamps: Any) -> Float[np.ndarray, " row"]:
    """Dates and times as days since 1970, in UTC."""
    stamps = import_pandas().to_datetime(stamps, utc=True)
    # In NumPy, because pandas would convert dates that are centuries away to nanoseconds, in which they overflow.
    return (stamps.dt.tz_localize(None).to_numpy() - np.datetime64(0, "D")) / np.timedelta64(1, "D")
