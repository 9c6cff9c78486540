"""Registry of optimisers. Each entry takes a learning rate and returns an Optax optimiser."""

import collections
from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree
from optax import contrib

__all__ = ["OPTIMIZERS"]


def _by_shape(optimizer: optax.GradientTransformation) -> optax.GradientTransformation:
    """Run the optimiser on stacks of equally shaped arrays; it must treat the arrays of a stack independently.

    A model has about a hundred arrays of only a few shapes, so stacking needs far fewer operations and compiles faster.
    """

    def init(params: PyTree) -> optax.OptState:
        return optimizer.init(_stack(params))

    def update(updates: PyTree, state: optax.OptState, params: PyTree | None = None) -> tuple[PyTree, optax.OptState]:
        stacks, state = optimizer.update(_stack(updates), state, None if params is None else _stack(params))
        return _unstack(stacks, updates), state

    return optax.GradientTransformation(init, update)


def _stack(tree: PyTree[Float[Array, "..."]]) -> dict[str, Float[Array, "..."]]:
    """Stack all arrays of a tree by shape."""
    stacks: dict[str, list[Array]] = collections.defaultdict(list)
    for leaf in jax.tree.leaves(tree):
        stacks[_name(leaf)].append(leaf)
    return {name: jnp.stack(leaves) for name, leaves in stacks.items()}


def _unstack(stacks: PyTree[Float[Array, "..."]], like: PyTree) -> PyTree[Float[Array, "..."]]:
    """Invert `_stack`."""
    arrays = {name: iter(stack) for name, stack in stacks.items()}
    return jax.tree.map(lambda leaf: next(arrays[_name(leaf)]), like)


def _name(array: Array) -> str:
    return "x".join(map(str, array.shape))


def _muon(learning_rate: float) -> optax.GradientTransformation:
    """Muon (Jordan et al., 2024), which orthogonalises the momentum of matrices; Adam for vectors.

    Vectors use a tenth of the learning rate, because Muon tolerates far higher rates than Adam.
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
"""The authors use Adam, without weight decay or clipping."""
