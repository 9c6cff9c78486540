"""The registry of column encoders, by their names in files, and the kinds of columns that a user can name."""

from typing import Any

from mpnp.tables.cells import is_date, is_duration, looks_like_duration, looks_like_iso
from mpnp.tables.encoders.base import AbstractColumnEncoder
from mpnp.tables.encoders.categories import CategoryEncoder
from mpnp.tables.encoders.logarithm import LogEncoder
from mpnp.tables.encoders.numeric import NumericEncoder
from mpnp.tables.encoders.times import DateEncoder, DayOfWeekEncoder, DurationEncoder, TimeOfDayEncoder

__all__ = ["COLUMN_ENCODERS", "COLUMN_KINDS", "adapt_encoder", "split_kind"]

COLUMN_ENCODERS: dict[str, type[AbstractColumnEncoder]] = {
    encoder.kind: encoder
    for encoder in (
        NumericEncoder,
        DateEncoder,
        TimeOfDayEncoder,
        DayOfWeekEncoder,
        DurationEncoder,
        CategoryEncoder,
        LogEncoder,
    )
}

COLUMN_KINDS: dict[str, AbstractColumnEncoder] = {
    "number": NumericEncoder(),
    "date": DateEncoder(),
    "date-dmy": DateEncoder("dmy"),
    "date-mdy": DateEncoder("mdy"),
    "time-of-day": TimeOfDayEncoder(),
    "day-of-week": DayOfWeekEncoder(),
    "duration": DurationEncoder(),
    "category": CategoryEncoder(),
    "positive": LogEncoder(),
    "count": LogEncoder(offset=1.0),
}
"""What a user can write after the name of a column, as in `sex:category`."""


def split_kind(name: str) -> tuple[str, AbstractColumnEncoder]:
    """The name of a column and its encoder, from a name that may end in a kind. Without one, the cells decide.

    >>> split_kind("sex:category")
    ('sex', CategoryEncoder(levels=()))
    >>> split_kind("ratio 1:2")
    ('ratio 1:2', NumericEncoder(shift=0.0, scale=1.0))
    """
    column, _, kind = name.rpartition(":")
    return (column, COLUMN_KINDS[kind]) if column and kind in COLUMN_KINDS else (name, NumericEncoder())


def adapt_encoder(encoder: AbstractColumnEncoder, cells: Any, name: str) -> AbstractColumnEncoder:
    """The encoder for a column with these cells, which decide unless the user named a kind or the encoder is fitted."""
    return (_kind_of(cells) if encoder == NumericEncoder() else encoder).adapt(cells, name)


def _kind_of(cells: Any) -> AbstractColumnEncoder:
    """Dates, durations and pandas' categories have encoders of their own, also if a file holds them as text."""
    if is_date(cells) or looks_like_iso(cells):
        return DateEncoder()
    if is_duration(cells) or looks_like_duration(cells):
        return DurationEncoder()
    return CategoryEncoder() if str(cells.dtype) == "category" else NumericEncoder()
