"""IDX files: the format of MNIST and of sets made in its likeness."""

import gzip
import zlib
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from mpnp.errors import InputError

__all__ = ["read_idx_images"]

MAGIC = b"\x00\x00\x08\x03"
"""Unsigned bytes in three dimensions."""


def read_idx_images(folder: Path, name: str) -> UInt8[np.ndarray, "image height width 1"]:
    """The images of one file, gzipped or not."""
    path = next((path for path in (folder / f"{name}.gz", folder / name) if path.is_file()), None)
    if path is None:
        raise InputError(f"{folder / name} is missing, and so is {name}.gz; put one of them there, or pass --download")
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read ({error}); fetch it again") from None
    if content[:4] != MAGIC:
        raise InputError(
            f"{path} is not an IDX file of images: it begins with {content[:4].hex() or 'nothing'}; fetch it again"
        )
    count, height, width = np.frombuffer(content[4:16], ">u4") if len(content) >= 16 else (0, 0, 0)
    expected = 16 + int(count) * int(height) * int(width)
    if len(content) != expected or not count:
        raise InputError(f"{path} is cut short or damaged: {len(content):,} bytes instead of {expected:,}; fetch it again")
    return np.frombuffer(content, np.uint8, offset=16).reshape(count, height, width, 1)
