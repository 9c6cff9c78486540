"""Linear layers and multi-layer perceptrons that act on the last axis and broadcast over all others."""

from collections.abc import Sequence
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn.initializers import Initializer, glorot_normal, lecun_normal
from jaxtyping import Array, Float, PRNGKeyArray

__all__ = ["Linear", "MLP", "linear", "mark_batch", "product"]

Tree = TypeVar("Tree")


class Linear(eqx.Module):
    """$\\mathrm{Lin}(d_{in}, d_{out})$, applied to the concatenation of its arguments' features.

    The concatenation is never formed: each part is multiplied by its own rows of the weight, and the products broadcast when
    added. So a representation shared by all targets, or an input shared by all samples, is multiplied only once.

    >>> layer = linear(3, 2, key=jax.random.key(0))
    >>> layer(jnp.ones((5, 1)), jnp.ones(2)).shape
    (5, 2)
    """

    weight: Float[Array, "in_dim out_dim"]
    bias: Float[Array, " out_dim"]
    marker: Float[Array, ""] | None = None
    """Set only by `mark_batch`."""

    def __call__(self, *parts: Float[Array, "..."]) -> Float[Array, "..."]:
        widths = [part.shape[-1] for part in parts]
        if sum(widths) != self.weight.shape[0]:
            raise ValueError(f"expected features of {self.weight.shape[0]} numbers in all, got parts of {widths}")
        result, start = self.bias, 0
        for part, width in zip(parts, widths, strict=True):
            if width:
                result = result + product(part, self.weight[start : start + width], self.marker)
            start += width
        return result


def linear(
    in_dim: int,
    out_dim: int,
    *,
    key: PRNGKeyArray,
    weight_init: Initializer | None = None,
    bias: float = 0.0,
) -> Linear:
    """A new linear layer, by default with LeCun-normal weights and zero bias as in the authors' attention."""
    weight = (weight_init or lecun_normal())(key, (in_dim, out_dim), jnp.float32)
    return Linear(weight, jnp.full(out_dim, bias, jnp.float32))


class MLP(eqx.Module):
    """$\\mathrm{MLP}(n_l, d_{in}, d_{hid}, d_{out})$ with `depth` hidden layers and ReLU between layers.

    The paper's $n_l$ counts hidden layers; no other reading gives its parameter counts. Its first inputs are
    those columns of raw points (x, y) that `columns` says, all others hidden features; an initialisation may treat the two
    differently.
    """

    layers: tuple[Linear, ...]
    columns: tuple[int, int] = eqx.field(static=True)

    def __init__(
        self,
        in_dim: int,
        width: int,
        out_dim: int,
        *,
        depth: int,
        key: PRNGKeyArray,
        columns: tuple[int, int] = (0, 0),
    ) -> None:
        dims = [in_dim, *[width] * depth, out_dim]
        # Xavier-normal weights and biases of 1e-3: the initialisation of the authors' framework.
        self.layers = tuple(
            linear(a, b, key=layer_key, weight_init=glorot_normal(), bias=1e-3)
            for a, b, layer_key in zip(dims[:-1], dims[1:], _split(key, depth + 1), strict=True)
        )
        self.columns = columns

    def __call__(self, *parts: Float[Array, "..."]) -> Float[Array, "..."]:
        hidden = self.layers[0](*parts)
        for layer in self.layers[1:]:
            hidden = layer(jax.nn.relu(hidden))
        return hidden


def _split(key: PRNGKeyArray, num: int) -> Sequence[PRNGKeyArray]:
    return list(jax.random.split(key, num))


NARROW = 4
"""A weight with at most this many columns has its gradient summed column by column. CPU compilers are slow at such narrow
products, as in a last layer with a mean and a standard deviation per output."""


def product(
    rows: Float[Array, "*batch in_dim"], weight: Float[Array, "in_dim out_dim"], marker: Float[Array, ""] | None = None
) -> Float[Array, "*batch out_dim"]:
    """`rows @ weight`. If `jax.vmap` batches the marker, the batch is flattened into the rows of one matrix."""
    return _product(rows, weight) if marker is None else _product_in_batch(rows, weight, marker)


def mark_batch(module: Tree, marker: Float[Array, ""]) -> Tree:
    """The same module for use inside a function that `jax.vmap` batches; the marker must be one of the batched arguments.

    A batched product has more axes, and the gradient of its weight sums over several of them. CPU compilers transpose a copy
    for that, which takes a tenth of a training step. A custom batching rule avoids it, but JAX cannot differentiate a function
    with such a rule outside of a batch, so only callers that batch may use it.
    """
    return jax.tree.map(
        lambda node: Linear(node.weight, node.bias, marker) if isinstance(node, Linear) else node,
        module,
        is_leaf=lambda node: isinstance(node, Linear),
    )


def _product(rows: Float[Array, "*batch in_dim"], weight: Float[Array, "in_dim out_dim"]) -> Float[Array, "*batch out_dim"]:
    return _narrow_product(rows, weight) if weight.shape[1] <= NARROW else jnp.matmul(rows, weight)


@jax.custom_batching.custom_vmap
def _product_in_batch(rows: Array, weight: Array, marker: Array) -> Array:
    return _product(rows, weight)


@_product_in_batch.def_vmap
def _flatten_batch(size: int, batched: list[bool], rows: Array, weight: Array, marker: Array) -> tuple[Array, bool]:
    rows_batched, weight_batched, marker_batched = batched
    if weight_batched:
        return jax.vmap(_product, (0 if rows_batched else None, 0))(rows, weight), True
    flat = rows.reshape(-1, rows.shape[-1])
    # If the marker is not batched, this is an inner `vmap`, and that of the marker is still to come.
    result = product(flat, weight, None if marker_batched else marker)
    return result.reshape(*rows.shape[:-1], weight.shape[1]), rows_batched


@jax.custom_jvp
def _narrow_product(
    rows: Float[Array, "*batch in_dim"], weight: Float[Array, "in_dim out_dim"]
) -> Float[Array, "*batch out_dim"]:
    return jnp.matmul(rows, weight)


@_narrow_product.defjvp
def _narrow_product_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (rows, weight), (rows_change, weight_change) = primals, tangents
    # When transposed for the gradient, each column's sum over features becomes a sum over rows.
    columns = [jnp.sum(rows * column, axis=-1) for column in weight_change.T]
    return jnp.matmul(rows, weight), jnp.matmul(rows_change, weight) + jnp.stack(columns, axis=-1)
