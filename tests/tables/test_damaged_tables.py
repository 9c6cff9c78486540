"""Tables that are damaged, encrypted or absurd are refused with our own error, whatever the decoder says."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile

import numpy as np
import pandas as pd
import pytest

from mpnp.errors import InputError
from mpnp.tables.columns import Schema
from mpnp.tables.frames import curves_from_frame, read_table

COLUMNS = Schema.named(["hour"], ["temp"], task="day")
CSV = b"day,hour,temp\n" + b"".join(b"%d,%d,%d\n" % (n % 5, n, n * n) for n in range(60))


def zipped() -> bytearray:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("table.csv", CSV)
    return bytearray(file.getvalue())


def tarred() -> bytes:
    file, member = io.BytesIO(), tarfile.TarInfo("table.csv")
    member.size = len(CSV)
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(member, io.BytesIO(CSV))
    return file.getvalue()


def with_flag(content: bytearray, local: int, central: int, value: int) -> bytes:
    """A zip file with a byte of both its headers changed."""
    content[local] = content[content.find(b"PK\1\2") + central] = value
    return bytes(content)


COMPRESSED = {
    "gz": gzip.compress(CSV, mtime=0),
    "bz2": bz2.compress(CSV),
    "xz": lzma.compress(CSV),
    "zip": bytes(zipped()),
    "tar": tarred(),
}


@pytest.mark.parametrize("ending", COMPRESSED)
def test_a_damaged_compressed_table_is_read_or_refused(tmp_path, ending):
    content, path = COMPRESSED[ending], tmp_path / f"table.csv.{ending}"
    for place in range(0, len(content), max(1, len(content) // 25)):
        flipped = bytearray(content)
        flipped[place] ^= 0xFF
        for damaged in (flipped, content[:place]):
            path.write_bytes(damaged)
            try:
                curves_from_frame(read_table(path), COLUMNS)
            except InputError as error:
                assert "\n" not in str(error)


@pytest.mark.parametrize(
    "content, reason",
    [(with_flag(zipped(), 6, 8, 1), "encrypted"), (with_flag(zipped(), 8, 10, 99), "compression method is not supported")],
    ids=["encrypted", "unknown method"],
)
def test_zips_that_cannot_be_unpacked_are_refused(tmp_path, content, reason):
    (tmp_path / "table.zip").write_bytes(content)
    with pytest.raises(InputError, match=f"cannot read .*{reason}"):
        read_table(tmp_path / "table.zip")


@pytest.mark.parametrize("column, row", [("hour", f"1,{'9' * 400},2"), ("temp", f"1,2,-{'9' * 400}")], ids=["input", "output"])
def test_integers_of_400_digits_are_refused(tmp_path, column, row):
    (tmp_path / "table.csv").write_text(f"day,hour,temp\n1,2,3\n{row}\n")
    with pytest.raises(InputError, match=f"'{column}' in row 1 is about .*, too large"):
        curves_from_frame(read_table(tmp_path / "table.csv"), COLUMNS)


def test_long_cells_are_shortened_in_messages(tmp_path):
    (tmp_path / "table.csv").write_text(f"day,hour,temp\n1,2,{'x' * 5000}\n")
    with pytest.raises(InputError) as refusal:
        curves_from_frame(read_table(tmp_path / "table.csv"), COLUMNS)
    assert len(str(refusal.value)) < 300


def test_dates_that_are_centuries_away_are_days_too():
    frame = pd.DataFrame({"day": [0, 0], "hour": ["0001-01-01", "9999-12-31"], "temp": [1.0, 2.0]})
    days = np.diff(curves_from_frame(frame, COLUMNS).x[:, 0])
    assert days.tolist() == [(np.datetime64("9999-12-31") - np.datetime64("0001-01-01")).astype(int)]


@pytest.mark.parametrize("name", ["n" * 300, "nul\0"], ids=["long", "nul"])
def test_names_that_no_file_can_have_are_refused(name):
    with pytest.raises(InputError, match="no file can be named"):
        read_table(name)
