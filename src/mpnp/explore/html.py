"""Models as one HTML file, in which they run without a server or a network."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mpnp.explore.document import render
from mpnp.explore.gallery import Gallery
from mpnp.export.programs import ExportedModel, export_model
from mpnp.inference.model import FittedModel
from mpnp.io.files import write_atomically

__all__ = ["pack_weights", "write_html"]


def write_html(models: Mapping[str, FittedModel], path: Path) -> list[Path]:
    """Write the page of `mpnp explore` with the models inside."""
    description = Gallery(models).describe()
    for model in description["models"]:
        model["exact"] = False  # the page has no Gaussian process of its own
    packed = [{"name": name, **pack(export_model(model))} for name, model in models.items()]
    text = render(description | {"engine": {"local": packed}}, alone=True)
    write_atomically(path, lambda file: file.write(text.encode()))
    return [path]


def pack(exported: ExportedModel) -> dict[str, Any]:
    """A model for the script that runs it."""
    index, data = pack_weights(exported.weights)
    return {"model": exported.to_json(), "index": index, "weights": base64.b64encode(data).decode()}


def pack_weights(weights: Mapping[str, np.ndarray]) -> tuple[list[dict[str, Any]], bytes]:
    """All arrays end to end and where each begins. Numbers that float16 holds exactly, as in packaged models, take half."""
    index, data = [], bytearray()
    for name, array in weights.items():
        narrow = array.astype(np.float16) if array.dtype == np.float32 else array
        array = narrow if np.array_equal(narrow, array) else array
        data += bytes(-len(data) % 4)
        index.append({"name": name, "type": str(array.dtype), "shape": list(array.shape), "start": len(data)})
        data += np.ascontiguousarray(array).tobytes()
    return index, bytes(data)
