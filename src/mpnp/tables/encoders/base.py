"""Column encoders map the values of one column to the features that a network reads.

Columns hold float64 numbers, and encoders compute in float64, whatever precision the network uses.
"""

import abc
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

__all__ = ["AbstractColumnEncoder", "AbstractOutputEncoder", "Values"]

Values = Float[np.ndarray, "*rows"]
"""Values of one column in the user's units, or of one of its features in the network's."""


class AbstractColumnEncoder(abc.ABC):
    """A map from one column to `width` features. Encoders are immutable and compare by value."""

    kind: ClassVar[str]
    """The encoder's name in `COLUMN_ENCODERS` and in files."""

    @property
    @abc.abstractmethod
    def width(self) -> int:
        """Number of features."""

    @abc.abstractmethod
    def adapt(self, cells: Any, name: str) -> "AbstractColumnEncoder":
        """The encoder for a column with these cells, which are those of the whole table. Fitted encoders do not change."""

    @abc.abstractmethod
    def show(self, value: float) -> str:
        """A value in the user's units, as text."""

    @abc.abstractmethod
    def read(self, cells: Any, name: str, remedy: str) -> Float[np.ndarray, " row"]:
        """Convert a pandas column to numbers, NaN for empty cells. `name` and `remedy` are for errors about other cells."""

    @abc.abstractmethod
    def learn_input(self, values: Float[np.ndarray, " row"]) -> "AbstractColumnEncoder":
        """The encoder fitted to the training values of an input."""

    @abc.abstractmethod
    def encode(self, values: Values) -> Float[np.ndarray, "*rows width"]:
        """From the user's units to the network's. NaN stays NaN."""

    @abc.abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The parameters as plain numbers and strings."""

    @classmethod
    @abc.abstractmethod
    def from_json(cls, content: Any) -> "AbstractColumnEncoder":
        """From what `to_json` made. Raises ValueError, TypeError or KeyError for anything else."""


class AbstractOutputEncoder(AbstractColumnEncoder):
    """An encoder for output columns: increasing, invertible and of width one."""

    is_affine: ClassVar[bool]
    """Whether `decode` shifts and scales only, so that moments and scores keep their closed forms."""

    @abc.abstractmethod
    def learn_output(self, values: Float[np.ndarray, " row"]) -> "AbstractOutputEncoder":
        """The encoder fitted to the training values of an output, NaN where not observed."""

    @abc.abstractmethod
    def decode(self, encoded: Values) -> Values:
        """From the network's units back to the user's."""

    @abc.abstractmethod
    def slope(self, encoded: Values) -> Values | float:
        """The derivative of `decode`: it multiplies standard deviations and divides densities."""
