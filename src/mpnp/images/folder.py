"""A user's own images: a folder of pictures, or one array."""

from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from tqdm import tqdm

from mpnp.errors import InputError
from mpnp.images.shape import read_picture

__all__ = ["read_own_images"]

PICTURES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp"}


def read_own_images(path: Path, size: int, channels: int) -> UInt8[np.ndarray, "image height width channels"]:
    """Every picture of a folder and its subfolders, in the order of their names; or the images of a .npy file as they are."""
    if path.suffix == ".npy":
        return _read_array(path)
    if not path.is_dir():
        raise InputError(f"{path} is neither a folder of pictures nor a .npy file; name one of them with --from")
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in PICTURES)
    if not files:
        raise InputError(f"{path} holds no picture ({', '.join(sorted(PICTURES))}); name a folder that does")
    files = tqdm(files, desc="decoding", unit="picture", disable=None)
    return np.stack([read_picture(file, (size, size, channels)) for file in files])


def _read_array(path: Path) -> UInt8[np.ndarray, "image height width channels"]:
    try:
        images = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; name a .npy file or a folder of pictures with --from") from None
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path} cannot be read as an array ({error}); save it with numpy.save") from None
    shape = images.shape if images.ndim != 3 else (*images.shape, 1)
    if len(shape) != 4 or shape[-1] not in (1, 3) or images.dtype != np.uint8 or 0 in shape:
        raise InputError(
            f"{path} must hold bytes (uint8) of shape (images, height, width) or (images, height, width, 1 or 3), "
            f"but it holds {images.dtype} of {images.shape}"
        )
    return images.reshape(shape)
