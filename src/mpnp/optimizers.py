"""Optimisers that a recipe can name; each takes a learning rate."""

import collections
from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree
from optax import contrib

__all__ = ["OPTIMIZERS"]


def _by_shape(optimizer: optax.GradientTransformation) -> optax.GradientTransformation:
    """The same optimiser on arrays of one shape stacked to one, which it must treat each by itself.

    A model has a hundred arrays of a few shapes: so a step has far fewer operations, and a program that starts sooner.
    """

    def init(params: PyTree) -> optax.OptState:
        return optimizer.init(_stack(params))

    def update(updates: PyTree, state: optax.OptState, params: PyTree | None = None) -> tuple[PyTree, optax.OptState]:
        stacks, state = optimizer.update(_stack(updates), state, None if params is None else _stack(params))
        return _unstack(stacks, updates), state

    return optax.GradientTransformation(init, update)


def _stack(tree: PyTree[Float[Array, "..."]]) -> dict[str, Float[Array, "..."]]:
    """All arrays of a tree, those of one shape together."""
    stacks: dict[str, list[Array]] = collections.defaultdict(list)
    for leaf in jax.tree.leaves(tree):
        stacks[_name(leaf)].append(leaf)
    return {name: jnp.stack(leaves) for name, leaves in stacks.items()}


def _unstack(stacks: PyTree[Float[Array, "..."]], like: PyTree) -> PyTree[Float[Array, "..."]]:
    """The tree whose arrays were stacked."""
    arrays = {name: iter(stack) for name, stack in stacks.items()}
    return jax.tree.map(lambda leaf: next(arrays[_name(leaf)]), like)


def _name(array: Array) -> str:
    return "x".join(map(str, array.shape))


def _muon(learning_rate: float) -> optax.GradientTransformation:
    """Momentum whose matrices are made orthogonal before they are added (Jordan et al., 2024); Adam for all vectors.

    Vectors take steps of a tenth the rate: the rates that suit Muon are far above those that suit Adam.
    """
    matrix = contrib.MuonDimensionNumbers(reduction_axis=1, output_axis=2)
    return contrib.muon(
        learning_rate,
        adam_learning_rate=learning_rate / 10,
        muon_weight_dimension_numbers=lambda stacks: jax.tree.map(lambda stack: matrix if stack.ndim == 3 else None, stacks),
    )


OPTIMIZERS: dict[str, Callable[[float], optax.GradientTransformation]] = {
    "adam": optax.adam,
    "muon": lambda learning_rate: _by_shape(_muon(learning_rate)),
}
"""Adam without weight decay or clipping is the authors'."""
