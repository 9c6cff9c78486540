"""Dates, times of day, days of the week and durations. None of them takes plain numbers, whose unit could be mistaken."""

import dataclasses
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from mpnp.errors import InputError, shorten
from mpnp.tables.cells import days_since_1970, import_pandas, is_date, is_duration
from mpnp.tables.encoders.base import AbstractColumnEncoder, AbstractOutputEncoder, Values
from mpnp.tables.encoders.numeric import NumericEncoder

__all__ = ["DateEncoder", "DayOfWeekEncoder", "DurationEncoder", "TimeOfDayEncoder"]

ORDERS = {"iso": "ISO8601", "dmy": None, "mdy": None}
"""How dates are written as text: ISO 8601, or numbers with the day or the month first."""

UNSCALED = NumericEncoder()


@dataclasses.dataclass(frozen=True)
class DateEncoder(AbstractColumnEncoder):
    """Dates and times as days since 1970. Times with a zone are instants; those without one are read as UTC."""

    order: str = "iso"
    scale: NumericEncoder = UNSCALED
    kind: ClassVar[str] = "date"

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise ValueError(f"unknown order of dates {self.order!r}")

    @property
    def width(self) -> int:
        return 1

    def adapt(self, cells: Any, name: str) -> "DateEncoder":
        return self

    def read(self, cells: Any, name: str, remedy: str) -> Float[np.ndarray, " row"]:
        return days_since_1970(_stamps(cells, self.order, name, remedy))

    def learn_input(self, values: Float[np.ndarray, " row"]) -> "DateEncoder":
        return dataclasses.replace(self, scale=self.scale.learn_input(values))

    def encode(self, values: Values) -> Float[np.ndarray, "*rows 1"]:
        return self.scale.encode(values)

    def show(self, value: float) -> str:
        return str(np.datetime64(0, "s") + np.timedelta64(round(value * 86_400), "s")).removesuffix("T00:00:00")

    def to_json(self) -> dict[str, Any]:
        return {"order": self.order, **self.scale.to_json()}

    @classmethod
    def from_json(cls, content: Any) -> "DateEncoder":
        return cls(str(content["order"]), NumericEncoder.from_json(content))


@dataclasses.dataclass(frozen=True)
class DurationEncoder(AbstractOutputEncoder):
    """Durations in hours, whatever unit they are stored in. Text such as '2h' or '0 days 02:00:00' is read, too."""

    scale: NumericEncoder = UNSCALED
    kind: ClassVar[str] = "duration"
    is_affine: ClassVar[bool] = True

    @property
    def width(self) -> int:
        return 1

    def adapt(self, cells: Any, name: str) -> "DurationEncoder":
        return self

    def read(self, cells: Any, name: str, remedy: str) -> Float[np.ndarray, " row"]:
        pd = import_pandas()
        if not is_duration(cells):
            _refuse_numbers(
                cells, name, "durations, such as 2h or 0 days 02:00:00; in pandas, pd.to_timedelta(numbers, unit='h')"
            )
            parsed = pd.to_timedelta(cells, errors="coerce")
            _require_all(parsed, cells, name, "a duration, such as 2h", remedy)
            cells = parsed
        return cells.to_numpy() / np.timedelta64(1, "s") / 3_600  # in NumPy, which divides in any unit of storage

    def learn_input(self, values: Float[np.ndarray, " row"]) -> "DurationEncoder":
        return DurationEncoder(self.scale.learn_input(values))

    def learn_output(self, values: Float[np.ndarray, " row"]) -> "DurationEncoder":
        return DurationEncoder(self.scale.learn_output(values))

    def encode(self, values: Values) -> Float[np.ndarray, "*rows 1"]:
        return self.scale.encode(values)

    def decode(self, encoded: Values) -> Values:
        return self.scale.decode(encoded)

    def slope(self, encoded: Values) -> float:
        return self.scale.slope(encoded)

    def show(self, value: float) -> str:
        return f"{value:g} h"

    def to_json(self) -> dict[str, Any]:
        return self.scale.to_json()

    @classmethod
    def from_json(cls, content: Any) -> "DurationEncoder":
        return cls(NumericEncoder.from_json(content))


@dataclasses.dataclass(frozen=True)
class TimeOfDayEncoder(AbstractColumnEncoder):
    """The time on the clock, from dates with a time or text such as 14:30: two features, so that midnight is not an edge.

    Times with a zone keep the clock of their column.
    """

    kind: ClassVar[str] = "time-of-day"

    @property
    def width(self) -> int:
        return 2

    def adapt(self, cells: Any, name: str) -> "TimeOfDayEncoder":
        return self

    def read(self, cells: Any, name: str, remedy: str) -> Float[np.ndarray, " row"]:
        pd = import_pandas()
        if not is_date(cells):
            _refuse_numbers(cells, name, "times of day, such as 14:30, or dates with a time")
            clock = _as_text(cells)
            padded = clock.where(~clock.astype("string").str.fullmatch(r"\d{1,2}:\d{2}").fillna(False), clock + ":00")
            parsed = pd.to_timedelta(padded.where(padded.astype("string").str.match(r"^\d{1,2}:\d{2}:\d{2}")), errors="coerce")
            if not (parsed.isna() & ~cells.isna()).any():
                hours = parsed.to_numpy() / np.timedelta64(1, "s") / 3_600
                _require_day(hours, name)
                return hours
            cells = _clocks(cells, name, "a time of day such as 14:30, or a date with a time", remedy)
        midnight = cells.dt.normalize()
        return ((cells - midnight) / pd.Timedelta(hours=1)).to_numpy(np.float64, na_value=np.nan)

    def learn_input(self, values: Float[np.ndarray, " row"]) -> "TimeOfDayEncoder":
        return self

    def encode(self, values: Values) -> Float[np.ndarray, "*rows 2"]:
        angle = 2 * np.pi * values / 24
        return 2 * np.stack([np.sin(angle), np.cos(angle)], axis=-1)

    def show(self, value: float) -> str:
        return f"{int(value) % 24:02d}:{round(value * 60) % 60:02d}"

    def to_json(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_json(cls, content: Any) -> "TimeOfDayEncoder":
        return cls()


WEEK = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclasses.dataclass(frozen=True)
class DayOfWeekEncoder(AbstractColumnEncoder):
    """The day of the week of a date, or its English name: one feature for each."""

    kind: ClassVar[str] = "day-of-week"

    @property
    def width(self) -> int:
        return len(WEEK)

    def adapt(self, cells: Any, name: str) -> "DayOfWeekEncoder":
        return self

    def read(self, cells: Any, name: str, remedy: str) -> Float[np.ndarray, " row"]:
        if not is_date(cells):
            _refuse_numbers(cells, name, "dates or names of days, such as Monday")
            number = {day[:3].lower(): float(place) for place, day in enumerate(WEEK)}
            named = cells.map(lambda cell: number.get(str(cell)[:3].lower(), np.nan) if str(cell).isalpha() else np.nan)
            if not (named.isna() & ~cells.isna()).any():
                return named.to_numpy(np.float64)
            cells = _clocks(cells, name, "a date such as 2024-05-31, or the name of a day such as Monday", remedy)
        return cells.dt.day_of_week.to_numpy(np.float64, na_value=np.nan)

    def learn_input(self, values: Float[np.ndarray, " row"]) -> "DayOfWeekEncoder":
        return self

    def encode(self, values: Values) -> Float[np.ndarray, "*rows 7"]:
        return np.eye(len(WEEK))[np.round(values).astype(int) % len(WEEK)]

    def show(self, value: float) -> str:
        return WEEK[round(value) % len(WEEK)]

    def to_json(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_json(cls, content: Any) -> "DayOfWeekEncoder":
        return cls()


def _clocks(cells: Any, name: str, wanted: str, remedy: str) -> Any:
    """Text as a column of dates and times that the clock showed, whatever time zone is named. `wanted` is for errors."""
    local = _as_text(cells).str.replace(r"(?:Z|[+-]\d{2}:?\d{2})$", "", regex=True)
    stamps = import_pandas().to_datetime(local, format="ISO8601", errors="coerce")
    _require_all(stamps, cells, name, wanted, remedy)
    return stamps


def _as_text(cells: Any) -> Any:
    pd = import_pandas()
    return cells.map(lambda cell: str(cell) if pd.notna(cell) else None)


def _stamps(cells: Any, order: str, name: str, remedy: str) -> Any:
    """Cells as a column of dates and times."""
    pd = import_pandas()
    if is_date(cells):
        return cells
    _refuse_numbers(cells, name, "dates, such as 2024-05-31 or 2024-05-31T14:30")
    text = _as_text(cells)
    if order == "iso":
        stamps = pd.to_datetime(text, utc=True, format="ISO8601", errors="coerce")
        _require_all(
            stamps, cells, name, "a date such as 2024-05-31; for 31/05/2024 say "
            f"'{name}:date-dmy' (or '{name}:date-mdy' if the month comes first)", remedy,
        )  # fmt: skip
        return stamps
    stamps = pd.to_datetime(text, utc=True, dayfirst=order == "dmy", format="mixed", errors="coerce")
    first = text.str.extract(r"^\s*(\d+)\D+(\d+)").astype(float)
    month = first[1] if order == "dmy" else first[0]
    stamps = stamps.where(~(month > 12) & first[0].lt(32))  # pandas would swap the parts of an impossible date
    words = "the day first, such as 31/05/2024" if order == "dmy" else "the month first, such as 05/31/2024"
    _require_all(stamps, cells, name, f"a date with {words}", remedy)
    return stamps


def _refuse_numbers(cells: Any, name: str, wanted: str) -> None:
    if cells.dtype.kind in "iufbcm":
        raise InputError(f"column '{name}' must hold {wanted}; got numbers or durations, whose unit could be mistaken")


def _require_all(parsed: Any, cells: Any, name: str, wanted: str, remedy: str) -> None:
    """Raise an error for the first cell that is neither empty nor could be read."""
    bad = (parsed.isna() & ~cells.isna()).to_numpy()
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"column '{name}' must hold {wanted}; but row {row} is {shorten(repr(cells.iloc[row]))}; repair it, or {remedy}"
        )


def _require_day(hours: Float[np.ndarray, " row"], name: str) -> None:
    if (bad := ~np.isnan(hours) & ~((hours >= 0) & (hours < 24))).any():
        raise InputError(f"column '{name}' must hold times from 00:00 to 23:59, but row {int(np.argmax(bad))} is not one")
