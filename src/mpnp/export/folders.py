"""A model as a folder of plain files that NumPy alone reads."""

import io
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from mpnp.errors import InputError
from mpnp.export import numpy_predictor
from mpnp.export.programs import ExportedModel, export_model
from mpnp.inference.model import FittedModel
from mpnp.io.files import write_atomically

__all__ = ["only", "write_numpy", "write_programs"]


def write_numpy(models: Mapping[str, FittedModel], folder: Path) -> list[Path]:
    """Write programs, weights and the module that runs them; returns the files."""
    model = only(models)
    source = Path(numpy_predictor.__file__).read_bytes()
    module = folder / "predictor.py"
    write_atomically(module, lambda file: file.write(source))
    return [*write_programs(export_model(model), folder), module]


def only(models: Mapping[str, FittedModel]) -> FittedModel:
    """The model of a format that holds one."""
    if len(models) != 1:
        raise InputError(f"this format holds one model, got {len(models)}; export them one by one")
    return next(iter(models.values()))


def write_programs(exported: ExportedModel, folder: Path) -> list[Path]:
    """Write what `Predictor` reads."""
    text = json.dumps(exported.to_json(), separators=(",", ":"), allow_nan=False)
    archive = io.BytesIO()
    np.savez(archive, **exported.weights)
    files = {folder / "model.json": text.encode(), folder / "weights.npz": archive.getvalue()}
    for path, content in files.items():
        write_atomically(path, lambda file, content=content: file.write(content))
    return list(files)
