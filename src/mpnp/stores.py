"""Data sets on disk: named arrays in a folder, written whole or not at all, read through memory maps."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mpnp.errors import RunError
from mpnp.folders import cache_folder
from mpnp.records import read_json, write_json

__all__ = ["data_directory", "load_arrays", "save_arrays"]

VARIABLE, ABOUT = "MPNP_DATA", "about.json"


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
    try:
        for name, array in arrays.items():
            np.save(temporary / f"{name}.npy", array, allow_pickle=False)
        write_json(temporary / ABOUT, dict(about))
        shutil.rmtree(directory, ignore_errors=True)
        os.replace(temporary, directory)
    except BaseException as error:
        with contextlib.suppress(OSError):
            shutil.rmtree(temporary)
        if isinstance(error, OSError):
            raise RunError(f"cannot write {directory}: {error.strerror}") from None
        raise


def load_arrays(directory: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
    """What `save_arrays` wrote, or nothing if nothing is there."""
    if not (directory / ABOUT).is_file():
        return None
    try:
        return {
            path.stem: np.load(path, mmap_mode="r", allow_pickle=False) for path in sorted(directory.glob("*.npy"))
        }, read_json(directory / ABOUT)
    except (OSError, ValueError) as error:
        raise RunError(f"{directory} is damaged ({error}); delete it and prepare the data again") from None
