"""Tables: plain, compressed and damaged. What is read from a format with checksums is what was written."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from pathlib import Path

import numpy as np

from fuzzing.junk import damage, junk_text, require
from mpnp.tables.columns import Schema
from mpnp.tables.curves import Curves
from mpnp.tables.frames import curves_from_frame, read_table

__all__ = ["CASES"]

COLUMNS = Schema.named(["hour"], ["temp"], task="day")


def _zipped(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("table.csv", content)
    return file.getvalue()


def _tarred(content: bytes) -> bytes:
    file, member = io.BytesIO(), tarfile.TarInfo("table.csv")
    member.size = len(content)
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


CHECKED = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zip": _zipped}
"""Formats with checksums."""


def _write(rng: np.random.Generator) -> tuple[str, np.ndarray]:
    """A table as text, and its numbers: day, hour and temp."""
    rows = np.stack([rng.integers(0, 4, 12), rng.normal(0, 10, 12), rng.normal(300, 1, 12)], axis=1)
    lines = ["day,hour,temp", *(f"{int(day)},{float(hour)!r},{float(temp)!r}" for day, hour, temp in rows)]
    return "\n".join(lines) + "\n", rows


def _read(path: Path) -> Curves:
    return curves_from_frame(read_table(path), COLUMNS)


def _require_same(curves: Curves, rows: np.ndarray) -> None:
    _, first = np.unique(rows[:, 0], return_index=True)
    order = np.concatenate([np.flatnonzero(rows[:, 0] == rows[start, 0]) for start in np.sort(first)])
    read = np.hstack([curves.x, curves.y])
    require(read.shape == (len(rows), 2) and np.allclose(read, rows[order, 1:], rtol=1e-14, atol=0), "a table was read wrongly")


def plain(rng: np.random.Generator, folder: Path) -> None:
    """A table of numbers is read as it is; with a strange cell, it is read or refused."""
    text, rows = _write(rng)
    path = folder / "table.csv"
    if rng.random() < 0.3:
        path.write_text(text)
        _require_same(_read(path), rows)
    lines = text.split("\n")
    number = int(rng.integers(len(lines)))
    cells = lines[number].split(",")
    cells[rng.integers(len(cells))] = junk_text(rng)
    path.write_bytes("\n".join([*lines[:number], ",".join(cells), *lines[number + 1 :]]).encode(errors="surrogateescape"))
    _read(path)


def damaged_text(rng: np.random.Generator, folder: Path) -> None:
    """Any bytes are read or refused."""
    path = folder / ("table.csv", "table.parquet", "table.csv.tar")[rng.integers(3)]
    content = _write(rng)[0].encode()
    path.write_bytes(damage(rng, _tarred(content) if path.suffix == ".tar" else content))
    _read(path)


def damaged_archive(rng: np.random.Generator, folder: Path) -> None:
    """A damaged archive is refused, or read as if it were whole."""
    ending = list(CHECKED)[rng.integers(len(CHECKED))]
    text, rows = _write(rng)
    path = folder / f"table.csv.{ending}"
    path.write_bytes(damage(rng, CHECKED[ending](text.encode())))
    _require_same(_read(path), rows)


def damaged_parquet(rng: np.random.Generator, folder: Path) -> None:
    """A damaged Parquet file is read or refused."""
    import pandas as pd

    text, _ = _write(rng)
    file = io.BytesIO()
    pd.read_csv(io.StringIO(text)).to_parquet(file)
    (folder / "table.parquet").write_bytes(damage(rng, file.getvalue()))
    _read(folder / "table.parquet")


CASES = (plain, damaged_text, damaged_archive, damaged_parquet)
