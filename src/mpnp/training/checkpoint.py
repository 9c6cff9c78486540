"""Checkpoints: the arrays of a pytree and a JSON header in one safetensors file. Reading one never executes code."""

from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mpnp.errors import RunError
from mpnp.io.tensors import load_named, read_card, save_named

__all__ = ["load", "load_named", "read_card", "save", "save_named", "load_matching"]

Tree = TypeVar("Tree")


def save(path: Path, tree: Any, card: dict[str, Any]) -> None:
    """Write the arrays of a pytree and a JSON-serialisable card, atomically."""
    save_named(path, _named_arrays(tree), card)


def load(path: Path, like: Tree) -> tuple[Tree, dict[str, Any]]:
    """Fill a pytree with the arrays of a checkpoint; also return its card.

    `like` has the same structure as the saved pytree; its leaves may be arrays or mere shapes. Arrays stored in half precision
    are restored to single precision.
    """
    card, stored = load_named(path)
    stored = {name: array.astype(np.float32) if array.dtype == np.float16 else array for name, array in stored.items()}
    expected = _named_arrays(like)
    if expected.keys() != stored.keys():
        odd = sorted(expected.keys() ^ stored.keys())
        raise RunError(f"{path} was saved from another model or optimiser: {len(odd)} arrays differ, for example '{odd[0]}'")
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


def load_matching(donor: Any, receiver: Tree) -> Tree:
    """The receiver with its arrays replaced by all arrays of the donor, matched by name. The receiver may have more arrays."""
    given, own = _named_arrays(donor), _named_arrays(receiver)
    for name, leaf in given.items():
        if name not in own or own[name].shape != leaf.shape:
            raise RunError(f"it has no array '{name}' of shape {list(leaf.shape)}")
    arrays, static = eqx.partition(receiver, _is_array)
    paths, structure = jax.tree_util.tree_flatten_with_path(arrays)
    names = [jax.tree_util.keystr(path) for path, _ in paths]
    return eqx.combine(jax.tree.unflatten(structure, [given.get(name, own[name]) for name in names]), static)


def _is_array(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)


def _named_arrays(tree: Any) -> dict[str, jax.Array | jax.ShapeDtypeStruct]:
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(tree, _is_array))
    return {jax.tree_util.keystr(name): leaf for name, leaf in leaves}
