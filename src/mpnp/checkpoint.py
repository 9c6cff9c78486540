"""Checkpoints: the arrays of a pytree and a JSON card in one safetensors file. Reading one never executes anything."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy
from safetensors import SafetensorError, safe_open

from mpnp.errors import RunError
from mpnp.records import write_atomically

__all__ = ["load", "load_named", "read_card", "save", "save_named", "transplant"]

FORMAT = "mpnp-checkpoint"
VERSION = 1

Tree = TypeVar("Tree")


def save(path: Path, tree: Any, card: dict[str, Any]) -> None:
    """Write the arrays of a pytree with a card of anything JSON can hold, atomically."""
    save_named(path, _named_arrays(tree), card)


def save_named(path: Path, arrays: Mapping[str, Any], card: dict[str, Any]) -> None:
    """Write arrays by name with a card, atomically."""
    header = {"format": FORMAT, "version": str(VERSION), "card": json.dumps(card, allow_nan=False)}
    content = safetensors.numpy.save({name: np.asarray(array) for name, array in arrays.items()}, metadata=header)
    write_atomically(path, lambda file: file.write(content))


def read_card(path: Path) -> dict[str, Any]:
    """The card of a checkpoint, without its arrays."""
    return load_named(path)[0]


def load(path: Path, like: Tree) -> tuple[Tree, dict[str, Any]]:
    """Fill a pytree of the same shape, or of shapes alone, with the arrays of a checkpoint; also return its card.

    What was stored in half precision to save space becomes single precision again.
    """
    card, stored = load_named(path)
    stored = {name: array.astype(np.float32) if array.dtype == np.float16 else array for name, array in stored.items()}
    expected = _named_arrays(like)
    if expected.keys() != stored.keys():
        odd = sorted(expected.keys() ^ stored.keys())
        raise RunError(f"{path} was saved from another model or optimiser: {len(odd)} arrays differ, such as '{odd[0]}'")
    for name, leaf in expected.items():
        if (stored[name].shape, stored[name].dtype) != (leaf.shape, leaf.dtype):
            raise RunError(
                f"{path} was saved with other settings: '{name}' is {stored[name].dtype}{list(stored[name].shape)}, "
                f"expected {leaf.dtype}{list(leaf.shape)}"
            )
    arrays, static = eqx.partition(like, _is_array)
    paths, structure = jax.tree_util.tree_flatten_with_path(arrays)
    filled = [jnp.asarray(stored[jax.tree_util.keystr(name)]) for name, _ in paths]
    return eqx.combine(jax.tree.unflatten(structure, filled), static), card


def transplant(donor: Any, receiver: Tree) -> Tree:
    """The receiver with every array of the donor in the place of its own of that name."""
    given, own = _named_arrays(donor), _named_arrays(receiver)
    for name, leaf in given.items():
        if name not in own or own[name].shape != leaf.shape:
            raise RunError(f"it has no place for '{name}' of shape {list(leaf.shape)}")
    arrays, static = eqx.partition(receiver, _is_array)
    paths, structure = jax.tree_util.tree_flatten_with_path(arrays)
    names = [jax.tree_util.keystr(path) for path, _ in paths]
    return eqx.combine(jax.tree.unflatten(structure, [given.get(name, own[name]) for name in names]), static)


def _is_array(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)


def _named_arrays(tree: Any) -> dict[str, jax.Array | jax.ShapeDtypeStruct]:
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(tree, _is_array))
    return {jax.tree_util.keystr(name): leaf for name, leaf in leaves}


def load_named(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The card and every array of a checkpoint, by name."""
    if not path.is_file():
        raise RunError(f"{path} does not exist")
    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise RunError(f"{path} is damaged or not a checkpoint ({error}); restore it from a copy") from None
    if header.get("format") != FORMAT:
        raise RunError(f"{path} was not written by mpnp; expected a checkpoint of a run")
    try:
        version, card = int(header["version"]), header["card"]
        if version <= VERSION:
            return json.loads(card), arrays
    except (KeyError, ValueError) as error:
        raise RunError(f"{path} is damaged: its header cannot be read ({error}); restore it from a copy") from None
    raise RunError(f"{path} was written by a newer mpnp (format {version}); upgrade mpnp to read it")
