"""A user's own images, from a folder of pictures or an array."""

import os
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from tqdm import tqdm

from mpnp.datasets.crop import read_picture
from mpnp.errors import InputError, first_line

__all__ = ["read_own_images"]

PICTURES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp"}


def read_own_images(path: Path, size: int, channels: int) -> UInt8[np.ndarray, "image height width channels"]:
    """All pictures of a folder and its subfolders, sorted by name; or the images of a .npy file, unchanged."""
    if path.suffix == ".npy":
        return _read_array(path)
    if not os.path.isdir(path):
        raise InputError(f"{path} is neither a folder of pictures nor a .npy file; pass one of them with --from")
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in PICTURES)
    if not files:
        raise InputError(f"{path} holds no pictures ({', '.join(sorted(PICTURES))}); pass a folder that does")
    files = tqdm(files, desc="decoding", unit="picture", disable=None)
    return np.stack([read_picture(file, (size, size, channels)) for file in files])


def _read_array(path: Path) -> UInt8[np.ndarray, "image height width channels"]:
    try:
        images = np.lib.format.open_memmap(path, mode="r")  # allocates nothing, whatever size the header claims
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; pass a .npy file or a folder of pictures with --from") from None
    except Exception as error:  # damaged headers raise anything
        raise InputError(f"{path} cannot be read as an array ({first_line(error)}); save it with numpy.save") from None
    shape = images.shape if images.ndim != 3 else (*images.shape, 1)
    if len(shape) != 4 or shape[-1] not in (1, 3) or images.dtype != np.uint8 or 0 in shape:
        raise InputError(
            f"{path} must hold bytes (uint8) of shape (images, height, width) or (images, height, width, 1 or 3), "
            f"but it holds {images.dtype} of {images.shape}"
        )
    return np.asarray(images).reshape(shape)
