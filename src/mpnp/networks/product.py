"""A matrix product of rows with a weight that stays two-dimensional in a batch.

`jax.vmap` of `rows @ weight` makes a product with more axes, and the gradient of its weight then sums over several axes at
once, which compilers for the CPU do by transposing copies first. Here a batch of rows is simply more rows.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Float

__all__ = ["product"]

NARROW = 4
"""Columns of a weight up to which its gradient is summed column by column: compilers for the CPU do not shine at products that
narrow, such as those of a last layer with a mean and a deviation for each output."""


def product(rows: Float[Array, "*batch in_dim"], weight: Float[Array, "in_dim out_dim"]) -> Float[Array, "*batch out_dim"]:
    """`rows @ weight`."""
    in_dim, out_dim = weight.shape
    return _product.bind(rows.reshape(-1, in_dim), weight).reshape(*rows.shape[:-1], out_dim)


def _matmul(rows: Array, weight: Array) -> Array:
    return jnp.matmul(rows, weight)


def _batched(arguments: tuple[Array, Array], axes: tuple[int | None, int | None]) -> tuple[Array, int]:
    (rows, weight), (rows_axis, weight_axis) = arguments, axes
    if rows_axis is not None and weight_axis is None:
        return product(jnp.moveaxis(rows, rows_axis, 0), weight), 0
    return jax.vmap(_matmul, in_axes=axes)(rows, weight), 0


def _rows_transpose(cotangent: Array, rows: Any, weight: Array) -> Array:
    return product(cotangent, weight.T)


def _weight_transpose(cotangent: Array, rows: Array, weight: Any) -> Array:
    if cotangent.shape[1] > NARROW:
        return rows.T @ cotangent
    return jnp.stack([jnp.sum(rows * column[:, None], axis=0) for column in cotangent.T], axis=1)


_product = Primitive("mpnp_product")
_product.def_impl(jax.jit(_matmul))
_product.def_abstract_eval(lambda rows, weight: ShapedArray((rows.shape[0], weight.shape[1]), rows.dtype))
mlir.register_lowering(_product, mlir.lower_fun(_matmul, multiple_results=False))
ad.defbilinear(_product, _rows_transpose, _weight_transpose)
batching.primitive_batchers[_product] = _batched
