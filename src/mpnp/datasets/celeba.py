"""CelebA: aligned faces in a folder or a zip file, with the official train/validation/test partition."""

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8
from tqdm import tqdm

from mpnp.datasets.crop import read_picture
from mpnp.errors import InputError, first_line, shorten

__all__ = ["read_faces"]

PARTITION, PICTURES = "list_eval_partition.txt", "img_align_celeba"
SIZE = 32


def read_faces(folder: Path) -> dict[str, UInt8[np.ndarray, "image 32 32 3"]]:
    """Training, validation and test faces, cropped to the largest centred square and resized to 32 by 32."""
    names = _partition(folder / PARTITION)
    open_picture, close = _pictures(folder)
    try:
        parts = {}
        for part, of_part in names.items():
            faces = np.empty((len(of_part), SIZE, SIZE, 3), np.uint8)
            for number, name in enumerate(tqdm(of_part, desc=f"decoding {part}", unit="face", disable=None)):
                with open_picture(name) as file:
                    faces[number] = read_picture(file, (SIZE, SIZE, 3), f"{name} of {folder / PICTURES}", "fetch CelebA again")
            parts[part] = faces
        return parts
    finally:
        close()


def _partition(path: Path) -> dict[str, list[str]]:
    if not path.is_file():
        raise InputError(f"{path} is missing; it comes with CelebA, put it next to the pictures")
    parts: dict[str, list[str]] = {"train": [], "validation": [], "test": []}
    labels = dict(zip("012", parts.values(), strict=True))
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        words = line.split()
        if len(words) != 2 or words[1] not in labels:
            raise InputError(f"line {number} of {path} must be a file name and 0, 1 or 2, but it is {line[:60]!r}")
        if words[0] != Path(words[0]).name or words[0] == "..":
            raise InputError(f"line {number} of {path} must name a file in {PICTURES}, but it names {words[0][:60]!r}")
        labels[words[1]].append(words[0])
    for part, of_part in parts.items():
        if not of_part:
            raise InputError(f"{path} lists no pictures of the {part} part; download it again")
    return parts


def _pictures(folder: Path) -> tuple[Callable[[str], Any], Callable[[], None]]:
    """Functions that open a picture by name, and that close the archive."""
    directory, archive = folder / PICTURES, folder / f"{PICTURES}.zip"

    def missing(name: str) -> InputError:
        return InputError(f"{shorten(name)} is listed in {PARTITION} but missing from {PICTURES}; download CelebA again")

    def damaged(name: str, error: Exception) -> InputError:
        reason = shorten(first_line(error))
        return InputError(f"{shorten(name)} of {folder / PICTURES} cannot be read ({reason}); download CelebA again")

    if directory.is_dir():

        def open_file(name: str) -> Any:
            try:
                return (directory / name).open("rb")
            except FileNotFoundError:
                raise missing(name) from None
            except (OSError, ValueError) as error:  # a directory, or a name that no file can have
                raise damaged(name, error) from None

        return open_file, lambda: None
    if not archive.is_file():
        raise InputError(f"{folder} holds neither {PICTURES} nor {PICTURES}.zip; download CelebA by hand from its site")
    try:
        zipped = zipfile.ZipFile(archive)
    except Exception as error:  # damaged archives raise anything
        raise InputError(f"{archive} cannot be read ({first_line(error)}); download it again") from None

    def open_member(name: str) -> Any:
        try:
            return zipped.open(f"{PICTURES}/{name}")
        except KeyError:
            raise missing(name) from None
        except Exception as error:  # damaged, encrypted, or packed in an unknown way
            raise damaged(name, error) from None

    return open_member, zipped.close
