"""Named arrays and a JSON card in one safetensors file. Reading one never executes code, and needs no JAX."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import safe_open

from mpnp.errors import RunError, first_line
from mpnp.io.files import write_atomically

__all__ = ["load_named", "read_card", "save_named"]

FORMAT = "mpnp-checkpoint"
VERSION = 1


def save_named(path: Path, arrays: Mapping[str, Any], card: dict[str, Any]) -> None:
    """Write named arrays and a card, atomically. The same arrays and card give the same bytes."""
    metadata = {"format": FORMAT, "version": str(VERSION), "card": json.dumps(card, allow_nan=False)}
    content = safetensors.numpy.save({name: np.asarray(array) for name, array in arrays.items()}, metadata=metadata)
    parts = _in_order(content)
    write_atomically(path, lambda file: file.writelines(parts))


def _in_order(content: bytes) -> tuple[bytes, memoryview]:
    """The bytes of a safetensors file with sorted metadata, which the library writes in random order."""
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the format aligns data to eight bytes
    return len(text).to_bytes(8, "little") + text, memoryview(content)[start:]


def read_card(path: Path) -> dict[str, Any]:
    """The card of a checkpoint, without its arrays."""
    return load_named(path)[0]


def load_named(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The card and the named arrays of a checkpoint."""
    if not path.is_file():
        raise RunError(f"{path} does not exist")
    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except Exception as error:  # types of arrays that NumPy lacks raise anything
        raise RunError(f"{path} is damaged or not a checkpoint ({first_line(error)}); restore it from a copy") from None
    if header.get("format") != FORMAT:
        raise RunError(f"{path} was not written by mpnp; expected a checkpoint of a run")
    try:
        version, card = int(header["version"]), header["card"]
        if version <= VERSION:
            return dict(json.loads(card)), arrays
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise RunError(f"{path} is damaged: its header cannot be read ({first_line(error)}); restore it from a copy") from None
    raise RunError(f"{path} was written by a newer mpnp (format {version}); upgrade mpnp to read it")
