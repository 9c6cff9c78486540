"""Numbers, shifted and scaled."""

import dataclasses
import math
import sys
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from mpnp.errors import InputError, shorten
from mpnp.tables.cells import days_since_1970, import_pandas, is_date, is_duration, looks_like_iso
from mpnp.tables.encoders.base import AbstractOutputEncoder, Values

__all__ = ["NumericEncoder"]


@dataclasses.dataclass(frozen=True)
class NumericEncoder(AbstractOutputEncoder):
    """$(v - shift) / scale$. Inputs are mapped to the paper's range from -2 to 2, outputs to mean 0 and standard deviation 1.

    >>> NumericEncoder().learn_input(np.array([10.0, 30.0, 20.0]))
    NumericEncoder(shift=20.0, scale=5.0)
    """

    shift: float = 0.0
    scale: float = 1.0
    kind: ClassVar[str] = "numeric"
    is_affine: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (math.isfinite(self.shift) and 0 < self.scale < math.inf):
            raise ValueError(f"a column needs a finite shift and a positive, finite scale, got {self.shift} and {self.scale}")

    @property
    def width(self) -> int:
        return 1

    def adapt(self, cells: Any, name: str) -> "NumericEncoder":
        return self

    def read(self, cells: Any, name: str, remedy: str) -> Float[np.ndarray, " row"]:
        """Numbers. For models of older versions, dates become days since 1970."""
        pd = import_pandas()
        if is_date(cells):
            return days_since_1970(cells)
        if is_duration(cells):
            raise InputError(f"column '{name}' holds durations, but plain numbers are expected: divide by a unit of time first")
        if cells.dtype.kind == "c":
            raise InputError(f"column '{name}' holds complex numbers; expected real ones")
        _require_size(cells, name, remedy)
        numbers = pd.to_numeric(cells, errors="coerce")
        text = numbers.isna() & ~cells.isna()
        if text.any() and numbers.isna().all() and looks_like_iso(cells):
            return days_since_1970(pd.to_datetime(cells, utc=True, format="ISO8601", errors="coerce"))
        if text.any():
            row = int(np.argmax(text.to_numpy()))
            cell = shorten(repr(cells.iloc[row]))
            kinds = f" (if it holds something else, say so, as in '{name}:category', '{name}:duration' or '{name}:date-dmy')"
            raise InputError(f"column '{name}' must hold numbers, but row {row} is {cell}; repair it, or {remedy}{kinds}")
        return numbers.to_numpy(np.float64, na_value=np.nan)

    def learn_input(self, values: Float[np.ndarray, " row"]) -> "NumericEncoder":
        low, high = float(values.min()), float(values.max())
        return _encoder(low / 2 + high / 2, (high - low) / 4, abs(low))

    def learn_output(self, values: Float[np.ndarray, " row"]) -> "NumericEncoder":
        mean = float(np.nanmean(values))
        return _encoder(mean, float(np.nanstd(values)), abs(mean))

    def encode(self, values: Values) -> Float[np.ndarray, "*rows 1"]:
        return ((values - self.shift) / self.scale)[..., None]

    def decode(self, encoded: Values) -> Values:
        return encoded * self.scale + self.shift

    def slope(self, encoded: Values) -> float:
        return self.scale

    def show(self, value: float) -> str:
        return f"{value:g}"

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, content: Any) -> "NumericEncoder":
        return cls(float(content["shift"]), float(content["scale"]))


def _require_size(cells: Any, name: str, remedy: str) -> None:
    """Reject integers beyond the range of floats, which pandas keeps as integers of Python."""
    if cells.dtype.kind != "O":
        return
    for row, value in enumerate(cells):
        if isinstance(value, int) and abs(value) > sys.float_info.max:
            size = f"about 2**{value.bit_length()}"
            raise InputError(f"column '{name}' in row {row} is {size}, too large for a float; repair it, or {remedy}")


def _encoder(shift: float, scale: float, size: float) -> NumericEncoder:
    """A column that is constant, apart from rounding, keeps its scale."""
    return NumericEncoder(shift, scale if scale > 1e-12 * size else 1.0)
