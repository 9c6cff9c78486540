"""Registry of image sets: how to download, read, split and store them."""

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from mpnp.datasets.celeba import read_faces
from mpnp.datasets.folder import read_own_images
from mpnp.datasets.mnist import read_idx_images
from mpnp.datasets.prepared import OWN, OWN_CHANNELS, OWN_SIZE, SHAPES, store_of
from mpnp.datasets.svhn import read_house_numbers
from mpnp.errors import InputError
from mpnp.io.store import data_directory, save_arrays

__all__ = ["IMAGE_SETS", "ImageSet", "download", "prepare", "prepare_own"]

LARGEST = 256
"""Maximum height and width: all pixels of an image are predicted at once."""

Parts = dict[str, UInt8[np.ndarray, "image height width channels"]]


@dataclasses.dataclass(frozen=True)
class ImageSet:
    """A standard image set: how to read its official files, and the paper's split sizes."""

    read: Callable[[Path], Parts]
    official: Mapping[str, int]
    address: str | None = None
    checksums: Mapping[str, str] = dataclasses.field(default_factory=dict)


def _two_files(read: Callable[[Path, str], np.ndarray], training: str, test: str, num_training: int, folder: Path) -> Parts:
    """Read a training file, whose last images become the validation set, and a test file."""
    images = read(folder, training)
    size = num_training if len(images) == OFFICIAL_FILES[num_training] else len(images) * 4 // 5
    return {"train": images[:size], "validation": images[size:], "test": read(folder, test)}


OFFICIAL_FILES = {50_000: 60_000, 58_600: 73_257}
"""Images in an official training file, by the number the paper trains on."""

_digits = functools.partial(_two_files, read_idx_images, "train-images-idx3-ubyte", "t10k-images-idx3-ubyte", 50_000)
_numbers = functools.partial(_two_files, read_house_numbers, "train_32x32.mat", "test_32x32.mat", 58_600)

IMAGE_SETS: dict[str, ImageSet] = {
    "mnist": ImageSet(
        _digits,
        {"train": 50_000, "validation": 10_000, "test": 10_000},
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        {
            "train-images-idx3-ubyte.gz": "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "t10k-images-idx3-ubyte.gz": "md5:9fb629c4189551a2d022fa330f9573f3",
        },
    ),
    "fashion-mnist": ImageSet(
        _digits,
        {"train": 50_000, "validation": 10_000, "test": 10_000},
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        {
            "train-images-idx3-ubyte.gz": "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "t10k-images-idx3-ubyte.gz": "md5:bef4ecab320f06d8554ea6380940ec79",
        },
    ),
    "svhn": ImageSet(
        _numbers,
        {"train": 58_600, "validation": 14_657, "test": 26_032},
        "http://ufldl.stanford.edu/housenumbers/",
        {
            "train_32x32.mat": "md5:e26dedcc434d2e4c54c9b2d4a06d8373",
            "test_32x32.mat": "md5:eb5a983be6a315427106f1b164d9cef3",
        },
    ),
    "celeba": ImageSet(read_faces, {"train": 162_770, "validation": 19_867, "test": 19_962}),
}


def prepare(name: str, folder: Path) -> dict[str, Any]:
    """Decode a standard image set, store it as arrays, and return its description."""
    if not os.path.isdir(folder):
        raise InputError(f"{folder} is not a folder; pass the one that holds the files of {name} with --from")
    parts = IMAGE_SETS[name].read(folder)
    if parts["train"].shape[1:] != SHAPES[name]:
        found, expected = (" x ".join(map(str, shape)) for shape in (parts["train"].shape[1:], SHAPES[name]))
        raise InputError(f"{folder} holds images of {found}, but those of {name} are {expected}; prepare it as {OWN}NAME")
    counts = {part: len(images) for part, images in parts.items()}
    return _keep(name, parts, {"subset": counts != dict(IMAGE_SETS[name].official)})


def prepare_own(name: str, path: Path, *, size: int = OWN_SIZE, channels: int = OWN_CHANNELS) -> dict[str, Any]:
    """Store a user's own images, with a random tenth each for validation and test, drawn with a fixed seed."""
    store_of(name)  # rejects invalid names before any work
    if not 3 <= size <= LARGEST:
        raise InputError(f"--size must lie between 3 and {LARGEST}, got {size}")
    images = read_own_images(path, size, channels)
    if len(images) < 10:
        raise InputError(f"{path} holds {len(images)} images; at least 10 are needed to train, validate and test")
    images = images[np.random.default_rng(0).permutation(len(images))]
    tenth = len(images) // 10
    parts = {"train": images[2 * tenth :], "validation": images[:tenth], "test": images[tenth : 2 * tenth]}
    return _keep(name, parts, {"subset": False})


def download(name: str, *, address: str | None = None) -> Path:
    """Download the official files of a set, verify their checksums, and return their folder."""
    import pooch  # nothing else needs it

    chosen = IMAGE_SETS[name]
    address = address or chosen.address
    if address is None:
        raise InputError(f"{name} cannot be downloaded automatically; get it from its site, then pass --from FOLDER")
    fetcher = pooch.create(data_directory() / "downloads" / name, address, registry=dict(chosen.checksums))
    try:
        for file in chosen.checksums:
            fetcher.fetch(file, progressbar=True)
    except (OSError, ValueError) as error:  # no connection, no such file, or a wrong checksum
        raise InputError(
            f"cannot download {name} from {address}: {error}; download its files by hand and pass --from FOLDER"
        ) from None
    return Path(fetcher.path)


def _keep(name: str, parts: Parts, about: dict[str, Any]) -> dict[str, Any]:
    height, width, channels = shape = parts["train"].shape[1:]
    if height * width < 6:
        raise InputError(f"{name}: images of {height} x {width} pixels are too small; at least six pixels are needed")
    if max(height, width) > LARGEST:
        raise InputError(f"{name}: images of {height} x {width} pixels are too large; the maximum is {LARGEST} x {LARGEST}")
    for part, images in parts.items():
        if images.shape[1:] != shape:
            raise InputError(f"{name}: images of the {part} part have shape {images.shape[1:]}, not {shape}")
        if not len(images):
            raise InputError(f"{name} has no images for the {part} part; more are needed")
    about = {"images": {part: len(images) for part, images in parts.items()}, "shape": list(shape), **about}
    flat = {part: images.reshape(len(images), height * width, channels) for part, images in parts.items()}
    save_arrays(store_of(name), flat, about)
    return about
