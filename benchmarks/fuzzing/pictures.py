"""Pictures and official image files: whole ones are decoded right, damaged ones are decoded or refused."""

import gzip
import io
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

from fuzzing.junk import damage, junk_text, require
from mpnp.datasets.celeba import read_faces
from mpnp.datasets.crop import read_picture
from mpnp.datasets.folder import read_own_images
from mpnp.datasets.mnist import read_idx_images
from mpnp.datasets.svhn import read_house_numbers

__all__ = ["CASES"]

FORMATS = ("png", "jpeg", "gif", "bmp", "tiff", "webp", "ppm")
LOSSLESS = ("png", "bmp", "tiff", "ppm")


def _encode(pixels: np.ndarray, ending: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, ending)
    return file.getvalue()


def picture(rng: np.random.Generator, folder: Path) -> None:
    """A picture of the target's size comes back unchanged; a damaged one has the right shape or is refused."""
    ending = FORMATS[rng.integers(len(FORMATS))]
    height, width = rng.integers(4, 12, 2)
    pixels = rng.integers(0, 256, (height, width, 3), np.uint8)
    content = _encode(pixels, ending)
    shape = (int(height), int(width), 3)
    if rng.random() < 0.2:
        read = read_picture(io.BytesIO(content), shape)
        require(ending not in LOSSLESS or np.array_equal(read, pixels), "a picture was read wrongly")
    (folder / f"picture.{ending}").write_bytes(damage(rng, content))
    read = read_picture(folder / f"picture.{ending}", shape)
    require(read.shape == shape and read.dtype == np.uint8, "a picture has the wrong shape")


def digits(rng: np.random.Generator, folder: Path) -> None:
    """A damaged gzip file is refused, or read as if it were whole."""
    images = rng.integers(0, 256, (3, 5, 4), np.uint8)
    content = b"\0\0\x08\3" + np.array(images.shape, ">u4").tobytes() + images.tobytes()
    if rng.random() < 0.5:
        (folder / "digits.gz").write_bytes(damage(rng, gzip.compress(content)))
        require(np.array_equal(read_idx_images(folder, "digits")[..., 0], images), "digits were read wrongly")
    (folder / "other").write_bytes(damage(rng, content))
    read_idx_images(folder, "other")


def numbers(rng: np.random.Generator, folder: Path) -> None:
    """A damaged MATLAB file is read or refused."""
    from scipy.io import savemat

    file = io.BytesIO()
    savemat(file, {"X": rng.integers(0, 256, (32, 32, 3, 2), np.uint8)}, do_compression=bool(rng.random() < 0.5))
    (folder / "numbers.mat").write_bytes(damage(rng, file.getvalue()))
    require(read_house_numbers(folder, "numbers.mat").shape[1:] == (32, 32, 3), "house numbers have the wrong shape")


def array(rng: np.random.Generator, folder: Path) -> None:
    """A damaged array is read or refused."""
    file = io.BytesIO()
    np.save(file, rng.integers(0, 256, (2, 4, 5, 3), np.uint8))
    (folder / "own.npy").write_bytes(damage(rng, file.getvalue()))
    require(read_own_images(folder / "own.npy", 4, 3).ndim == 4, "an array has the wrong shape")


def faces(rng: np.random.Generator, folder: Path) -> None:
    """Strange names in the list, or a damaged archive, are read or refused; nothing outside the folder is opened."""
    content = _encode(rng.integers(0, 256, (40, 40, 3), np.uint8), "png")
    names = ["1.png", "2.png", "3.png"]
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(f"img_align_celeba/{name}", content)
    (folder / "outside.png").write_bytes(content)
    zipped = rng.random() < 0.5
    if zipped:
        (folder / "img_align_celeba.zip").write_bytes(damage(rng, file.getvalue()))
    else:
        (folder / "img_align_celeba" / "folder.png").mkdir(parents=True)
        for name in names:
            (folder / "img_align_celeba" / name).write_bytes(content)
    strange = [junk_text(rng), "../outside.png", "folder.png"][rng.integers(3)]
    if rng.random() < 0.7:
        names[rng.integers(3)] = strange
    lines = "".join(f"{name} {part}\n" for part, name in enumerate(names))
    (folder / "list_eval_partition.txt").write_bytes(lines.encode(errors="surrogateescape"))
    read_faces(folder)
    require("../outside.png" not in names, "a picture outside its folder was read")


CASES = (picture, picture, digits, numbers, array, faces)
