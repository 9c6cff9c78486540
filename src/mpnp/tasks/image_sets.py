"""Image sets that were prepared on this machine, as problems to learn."""

import re
from pathlib import Path
from typing import Any, TypeVar

import jax.numpy as jnp
import numpy as np

from mpnp.errors import InputError
from mpnp.stores import data_directory, load_arrays
from mpnp.tasks.images import CompletionFamily, PixelFamily
from mpnp.tasks.sources import Problem

__all__ = ["OWN", "SHAPES", "image_problem", "image_shape", "store_of"]

SHAPES = {"mnist": (28, 28, 1), "fashion-mnist": (28, 28, 1), "svhn": (32, 32, 3), "celeba": (32, 32, 3)}
"""Height, width and channels of the well-known sets."""

OWN = "images/"
"""How the names of a user's own image sets begin."""


Family = TypeVar("Family", PixelFamily, CompletionFamily)


def store_of(name: str) -> Path:
    """Where the arrays of a set are kept: a user's own apart from the well-known ones, and never outside."""
    if not name.startswith(OWN):
        return data_directory() / "images" / name
    own = name.removeprefix(OWN)
    if not re.fullmatch(r"\w[\w.-]*", own):
        raise InputError(f"'{name}' must be {OWN} and a plain name of letters, digits, '.', '-' and '_'")
    return data_directory() / "own-images" / own


def image_problem(name: str) -> Problem:
    """The tasks of an image set."""
    arrays, about = _stored(name)
    height, width, channels = about["shape"]

    def family(kind: type[Family], part: str) -> Family:
        return kind(pixels=jnp.asarray(arrays[part]), height=height, width=width, y_dim=channels)

    counts = ", ".join(f"{count:,} {part}" for part, count in about["images"].items())
    return Problem(
        family(PixelFamily, "train"),
        family(CompletionFamily, "validation"),
        family(CompletionFamily, "test"),
        f"{'subset: ' if about['subset'] else ''}{counts}",
    )


def image_shape(name: str) -> tuple[int, int, int]:
    """Height, width and channels of the images of a set."""
    return SHAPES[name] if name in SHAPES else tuple(_stored(name)[1]["shape"])


def _stored(name: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    stored = load_arrays(store_of(name))
    if stored is None:
        raise InputError(
            f"the images of '{name}' are not on this machine yet; prepare them with 'mpnp data {name} --from FOLDER'"
        )
    return stored
