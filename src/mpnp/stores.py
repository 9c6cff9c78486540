"""Data sets on disk: named arrays in a folder, written whole or not at all, read through memory maps."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mpnp.errors import RunError
from mpnp.folders import cache_folder
from mpnp.records import read_json, whole_or_not_at_all, write_json

__all__ = ["data_directory", "load_arrays", "save_arrays"]

VARIABLE, ABOUT, ARRAYS = "MPNP_DATA", "about.json", "arrays"


def data_directory() -> Path:
    """Where data sets are kept: the folder that MPNP_DATA names, or one in the user's cache."""
    return cache_folder(VARIABLE, "mpnp-data")


def save_arrays(directory: Path, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> None:
    """Write arrays and a description of them as one folder, in place of what was there."""
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=directory.parent, prefix=f".{directory.name}."))
    except OSError as error:
        raise RunError(f"cannot write {directory}: {error.strerror}; name a folder with {VARIABLE}") from None
    with whole_or_not_at_all(directory, lambda: shutil.rmtree(temporary)):
        for name, array in arrays.items():
            with (temporary / f"{name}.npy").open("wb") as file:
                np.save(file, array, allow_pickle=False)
                os.fsync(file.fileno())
        write_json(temporary / ABOUT, {**about, ARRAYS: sorted(arrays)})
        temporary.chmod(0o755)
        with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".old.") as old:
            if directory.exists():
                os.replace(directory, Path(old) / directory.name)
            os.replace(temporary, directory)


def load_arrays(directory: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
    """What `save_arrays` wrote, or nothing if nothing is there."""
    if not (directory / ABOUT).is_file():
        return None
    try:
        about = read_json(directory / ABOUT)
        names = about.pop(ARRAYS)
        return {name: np.load(directory / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in names}, about
    except (OSError, ValueError, EOFError, KeyError) as error:
        raise RunError(f"{directory} is damaged ({error}); delete it and prepare the data again") from None
