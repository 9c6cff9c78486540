"""Data sets on disk: named arrays in a folder, written atomically and read through memory maps."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mpnp.errors import RunError
from mpnp.io.files import read_json, whole_or_not_at_all, write_json

__all__ = ["cache_folder", "data_directory", "load_arrays", "save_arrays"]

VARIABLE, ABOUT, ARRAYS = "MPNP_DATA", "about.json", "arrays"


def data_directory() -> Path:
    """Folder of prepared data sets: MPNP_DATA, or a folder in the user's cache."""
    return cache_folder(VARIABLE, "mpnp-data")


def save_arrays(directory: Path, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> None:
    """Write arrays and their description as one folder, atomically. Replaces what was there."""
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=directory.parent, prefix=f".{directory.name}."))
    except OSError as error:
        raise RunError(f"cannot write {directory}: {error.strerror}; choose a folder with {VARIABLE}") from None
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
    """Read what `save_arrays` wrote; None if the folder does not exist."""
    if not (directory / ABOUT).is_file():
        return None
    try:
        about = read_json(directory / ABOUT)
        names = about.pop(ARRAYS)
        return {name: np.load(directory / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in names}, about
    except (OSError, ValueError, EOFError, KeyError) as error:
        raise RunError(f"{directory} is damaged ({error}); delete it and prepare the data again") from None


def cache_folder(variable: str, name: str) -> Path:
    """The folder given by an environment variable, or `name` in the user's cache."""
    named = os.environ.get(variable)
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / name
