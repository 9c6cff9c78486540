"""The dialect of a CSV file: its separator, decimal sign and encoding."""

from pathlib import Path
from typing import Any, NamedTuple

from mpnp.errors import InputError
from mpnp.tables.cells import import_pandas

__all__ = ["Dialect", "find_dialect"]

SEPARATORS = (",", ";", "\t", "|")
"""In order of preference."""

ENCODINGS = ("utf-8-sig", "cp1252")
"""The second reads any bytes of Western languages; files of UTF-16 start with a mark of their own."""

UTF_16 = (b"\xff\xfe", b"\xfe\xff")

ROWS_LOOKED_AT = 1_000

COMMA_NUMBER, POINT_NUMBER = r"\s*[+-]?\d*,\d+(?:[eE][+-]?\d+)?\s*", r"\s*[+-]?\d*\.\d+(?:[eE][+-]?\d+)?\s*"


class Dialect(NamedTuple):
    """Arguments of pandas' reader."""

    sep: str = ","
    decimal: str = "."
    encoding: str = "utf-8-sig"


def find_dialect(path: Path) -> Dialect:
    """The separator that makes most columns of the header, and the decimal sign of the cells. Rejects duplicate columns."""
    encoding = _find_encoding(path)
    heads = {sep: _head(path, sep, encoding, 1) for sep in SEPARATORS}
    sep = max(SEPARATORS, key=lambda sign: heads[sign].shape[1])  # the first of several
    head = heads[sep]
    names = [str(name) for name in head.iloc[0]] if len(head) else []
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(f"{path} has more than one column named '{repeated[0]}'; column names must be unique")
    return Dialect(sep, "." if sep == "," else _find_decimal(path, sep, encoding), encoding)


def _find_encoding(path: Path) -> str:
    """The first encoding that reads the file."""
    import_pandas()
    from pandas.io.common import get_handle

    with get_handle(path, "rb", compression="infer", is_text=False) as handles:
        content = handles.handle.read()
    if content[:2] in UTF_16:
        return "utf-16"
    if b"\0" in content:
        raise InputError(
            f"cannot read {path} as a table: it holds bytes that are not text; expected CSV with a header line, or Parquet"
        )
    for encoding in ENCODINGS:
        try:
            content.decode(encoding)
            return encoding
        except UnicodeDecodeError:
            continue
    return "latin-1"


def _head(path: Path, sep: str, encoding: str, num_rows: int) -> Any:
    """The first rows as text, the header included."""
    pd = import_pandas()
    try:
        return pd.read_csv(path, header=None, nrows=num_rows, dtype=str, sep=sep, encoding=encoding)
    except pd.errors.EmptyDataError:
        raise
    except pd.errors.ParserError:  # not with this separator
        return pd.DataFrame()


def _find_decimal(path: Path, sep: str, encoding: str) -> str:
    """A comma if some cells are numbers with a comma and none are numbers with a point."""
    pd = import_pandas()
    cells = pd.read_csv(
        path, nrows=ROWS_LOOKED_AT, dtype=str, sep=sep, encoding=encoding, index_col=False, on_bad_lines="skip"
    ).stack()
    with_comma, with_point = (cells.str.fullmatch(number).any() for number in (COMMA_NUMBER, POINT_NUMBER))
    return "," if with_comma and not with_point else "."
