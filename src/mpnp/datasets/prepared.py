"""Image sets prepared on this machine: their names, shapes and storage."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from mpnp.errors import InputError, shorten
from mpnp.io.store import data_directory, load_arrays

__all__ = ["OWN", "OWN_CHANNELS", "OWN_SIZE", "SHAPES", "image_shape", "load_images", "store_of"]

SHAPES = {"mnist": (28, 28, 1), "fashion-mnist": (28, 28, 1), "svhn": (32, 32, 3), "celeba": (32, 32, 3)}
"""Height, width and channels of the standard image sets."""

OWN = "images/"
"""Prefix of the names of a user's own image sets."""

OWN_SIZE, OWN_CHANNELS = 32, 3
"""Height (and width) and channels of a user's own images by default."""


def store_of(name: str) -> Path:
    """Folder of an image set. A user's own sets are kept apart from the standard ones."""
    if not name.startswith(OWN):
        return data_directory() / "images" / name
    own = name.removeprefix(OWN)
    if not re.fullmatch(r"\w[\w.-]{,99}", own):
        raise InputError(f"'{shorten(name)}' must be {OWN} followed by letters, digits, '.', '-' and '_', at most 100")
    return data_directory() / "own-images" / own


def image_shape(name: str) -> tuple[int, int, int]:
    """Height, width and channels of the images in a set."""
    return SHAPES[name] if name in SHAPES else tuple(load_images(name)[1]["shape"])


def load_images(name: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays of a prepared set, by part, and their description."""
    stored = load_arrays(store_of(name))
    if stored is None:
        raise InputError(
            f"the images of '{name}' are not on this machine yet; prepare them with 'mpnp data {name} --from FOLDER'"
        )
    return stored
