"""SVHN: cropped house numbers in MATLAB files."""

import os
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from mpnp.errors import InputError, first_line

__all__ = ["read_house_numbers"]


MOST_IMAGES = 2_000_000
"""Largest file that is read, four times the size of SVHN's largest. A small compressed file can claim far more."""


def read_house_numbers(folder: Path, name: str) -> UInt8[np.ndarray, "image 32 32 3"]:
    """The images of one file. Its header is checked before anything is unpacked."""
    from scipy.io import loadmat, whosmat  # slow to import

    path = folder / name
    if not os.path.isfile(path):
        raise InputError(f"{path} is missing; put it there, or pass --download")
    try:
        declared = {variable: shape for variable, shape, _ in whosmat(path)}["X"]
        small = len(declared) == 4 and declared[:3] == (32, 32, 3) and 0 < declared[3] <= MOST_IMAGES
        images = loadmat(path, variable_names=["X"])["X"] if small else np.empty(0)
    except Exception as error:  # a damaged file can raise anything
        raise InputError(f"{path} cannot be read ({first_line(error)}); download it again") from None
    if images.shape != declared or images.dtype != np.uint8:
        raise InputError(
            f"{path} must hold X, at most {MOST_IMAGES:,} images of 32 by 32 by 3 bytes; its X has shape {declared}"
        )
    return np.ascontiguousarray(np.moveaxis(images, -1, 0))
