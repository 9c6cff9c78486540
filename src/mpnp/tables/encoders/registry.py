"""The registry of column encoders, by their names in files."""

from mpnp.tables.encoders.base import AbstractColumnEncoder
from mpnp.tables.encoders.numeric import NumericEncoder

__all__ = ["COLUMN_ENCODERS"]

COLUMN_ENCODERS: dict[str, type[AbstractColumnEncoder]] = {"numeric": NumericEncoder}
