"""IDX files, the format of MNIST and Fashion-MNIST."""

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from mpnp.errors import InputError, first_line

__all__ = ["read_idx_images"]

MAGIC = b"\x00\x00\x08\x03"
"""Marks unsigned bytes in three dimensions."""

MOST_BYTES = 2**31
"""Largest file that is unpacked, forty times the size of MNIST's. A gzip file of 2 MB can claim a thousand times as much."""


def read_idx_images(folder: Path, name: str) -> UInt8[np.ndarray, "image height width 1"]:
    """The images of one file, gzipped or not."""
    path = next((path for path in (folder / f"{name}.gz", folder / name) if os.path.isfile(path)), None)
    if path is None:
        raise InputError(f"{folder / name} and {name}.gz are missing; put one of them there, or pass --download")
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return _read_images(file, path)
    except InputError:
        raise
    except Exception as error:  # damaged files raise anything, down to zlib.error
        raise InputError(f"{path} cannot be read ({first_line(error)}); download it again") from None


def _read_images(file: Any, path: Path) -> UInt8[np.ndarray, "image height width 1"]:
    """Read the header, then no more bytes than it declares."""
    header = file.read(16)
    if header[:4] != MAGIC:
        raise InputError(
            f"{path} is not an IDX file of images: it begins with {header[:4].hex() or 'nothing'}; download it again"
        )
    count, height, width = (int(size) for size in np.frombuffer(header[4:], ">u4")) if len(header) == 16 else (0, 0, 0)
    expected = count * height * width
    if expected > MOST_BYTES:
        raise InputError(
            f"{path} declares {count:,} images of {height} x {width}, more than {MOST_BYTES:,} bytes; download it again"
        )
    content = file.read(expected + 1)  # one more, to see whether the file ends where it should
    if len(content) != expected or not count:
        more = " or more" if len(content) > expected else ""
        raise InputError(
            f"{path} is cut short or damaged: {len(content):,} bytes{more} of images instead of {expected:,}; download it again"
        )
    return np.frombuffer(content, np.uint8).reshape(count, height, width, 1)
