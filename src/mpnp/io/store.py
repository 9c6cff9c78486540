"""Data sets on disk: named arrays in a folder, written atomically and read through memory maps."""

import contextlib
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mpnp.errors import RunError, first_line
from mpnp.io.files import read_json, write_atomically, write_json
from mpnp.io.locks import exclusive

__all__ = ["cache_folder", "data_directory", "load_arrays", "save_arrays"]

VARIABLE, ABOUT, ARRAYS, FOLDER = "MPNP_DATA", "about.json", "arrays", "folder"


def data_directory() -> Path:
    """Folder of prepared data sets: MPNP_DATA, or a folder in the user's cache."""
    return cache_folder(VARIABLE, "mpnp-data")


def save_arrays(directory: Path, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> None:
    """Write arrays and their description as one change: whoever reads gets the old data set until the new one is complete."""
    folder = directory / secrets.token_hex(4)
    try:
        with exclusive(folder):  # shows other processes that it is not abandoned
            for name, array in arrays.items():
                write_atomically(folder / f"{name}.npy", lambda file, array=array: np.save(file, array, allow_pickle=False))
            write_json(directory / ABOUT, {**about, ARRAYS: sorted(arrays), FOLDER: folder.name})
    finally:
        _remove_outdated(directory)


def _remove_outdated(directory: Path) -> None:
    """Remove all arrays but those that the description names and those that a living process is writing."""
    for folder in filter(Path.is_dir, directory.glob("*")):
        with contextlib.suppress(RunError), exclusive(folder):
            if _description(directory).get(FOLDER) != folder.name:
                shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        directory.rmdir()  # fails unless it is empty


def load_arrays(directory: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
    """Read what `save_arrays` wrote; None if the folder does not exist."""
    if not (about := _description(directory)):
        return None
    try:
        folder = directory / about.pop(FOLDER, "")  # older versions kept the arrays beside their description
        names = about.pop(ARRAYS)
        return {name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in names}, about
    except (OSError, ValueError, EOFError, KeyError, TypeError) as error:
        raise RunError(f"{directory} is damaged ({first_line(error)}); delete it and prepare the data again") from None


def _description(directory: Path) -> dict[str, Any]:
    """The stored description and the files of the arrays; empty if there is none."""
    if not (directory / ABOUT).is_file():
        return {}
    about = read_json(directory / ABOUT)
    if not isinstance(about, dict):
        raise RunError(f"{directory / ABOUT} is damaged; delete {directory} and prepare the data again")
    return about


def cache_folder(variable: str, name: str) -> Path:
    """The folder given by an environment variable, or `name` in the user's cache."""
    named = os.environ.get(variable)
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / name
