"""A model as a folder of plain files that NumPy alone reads."""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from mpnp.errors import InputError
from mpnp.export import numpy_interpreter, numpy_predictor
from mpnp.export.programs import export_model
from mpnp.inference.model import FittedModel
from mpnp.io.files import write_atomically

__all__ = ["only", "write_folder", "write_numpy"]


def write_numpy(models: Mapping[str, FittedModel], folder: Path) -> list[Path]:
    """Write programs, weights and the modules that run them; returns the files."""
    exported = export_model(only(models))
    return write_folder(exported.to_json(), exported.weights, folder)


def only(models: Mapping[str, FittedModel]) -> FittedModel:
    """The model of a format that holds one."""
    if len(models) != 1:
        raise InputError(f"this format holds one model, got {len(models)}; export them one by one")
    return next(iter(models.values()))


def write_folder(content: dict[str, Any], weights: Mapping[str, np.ndarray], folder: Path) -> list[Path]:
    """Write what `Predictor` reads, and its modules."""
    if any((folder / name).exists() for name in ("card.json", "config.json")):
        raise InputError(f"{folder} holds a model; choose another folder for its export")
    archive = io.BytesIO()
    np.savez(archive, **weights)  # pyright: ignore[reportArgumentType]
    files = {
        "model.json": json.dumps(content, separators=(",", ":"), allow_nan=False).encode(),
        "weights.npz": archive.getvalue(),
        "predictor.py": _standalone(numpy_predictor),
        "interpreter.py": _standalone(numpy_interpreter),
    }
    for name, data in files.items():
        write_atomically(folder / name, lambda file, data=data: file.write(data))
    return [folder / name for name in files]


def _standalone(module: ModuleType) -> bytes:
    """The source of a module, which finds the other one beside it instead of in this package."""
    return Path(str(module.__file__)).read_text().replace("from mpnp.export.numpy_interpreter", "from interpreter").encode()
