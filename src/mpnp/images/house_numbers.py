"""SVHN's cropped digits, in MATLAB files."""

from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from mpnp.errors import InputError

__all__ = ["read_house_numbers"]


def read_house_numbers(folder: Path, name: str) -> UInt8[np.ndarray, "image 32 32 3"]:
    """The images of one file."""
    from scipy.io import loadmat  # here, because it takes a while to import

    path = folder / name
    if not path.is_file():
        raise InputError(f"{path} is missing; put it there, or pass --download")
    try:
        images = loadmat(path, variable_names=["X"])["X"]
    except Exception as error:  # whatever the reader meets in a damaged file
        raise InputError(f"{path} cannot be read ({error}); fetch it again") from None
    if images.ndim != 4 or images.shape[:3] != (32, 32, 3) or images.dtype != np.uint8 or not images.shape[3]:
        raise InputError(f"{path} must hold X, images of 32 by 32 by 3 bytes; its X is {images.dtype} {images.shape}")
    return np.ascontiguousarray(np.moveaxis(images, -1, 0))
