"""Linear layers and multi-layer perceptrons that act on the last axis and broadcast over all others."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn.initializers import Initializer, glorot_normal, lecun_normal
from jaxtyping import Array, Float, PRNGKeyArray

from mpnp.networks.product import product

__all__ = ["Linear", "MLP", "linear"]


class Linear(eqx.Module):
    """$\\mathrm{Lin}(d_{in}, d_{out})$, applied to the concatenation of its arguments' features.

    The concatenation is never formed: each part meets its own rows of the weight, and the products broadcast when added.
    A representation shared by all targets, or an input shared by all samples, is therefore multiplied once.
    """

    weight: Float[Array, "in_dim out_dim"]
    bias: Float[Array, " out_dim"]

    def __call__(self, *parts: Float[Array, "..."]) -> Float[Array, "..."]:
        widths = [part.shape[-1] for part in parts]
        if sum(widths) != self.weight.shape[0]:
            raise ValueError(f"expected features of {self.weight.shape[0]} numbers in all, got parts of {widths}")
        result, start = self.bias, 0
        for part, width in zip(parts, widths, strict=True):
            result = result + product(part, self.weight[start : start + width])
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
    """A new linear layer; LeCun-normal weights and zero bias unless told otherwise, as in the authors' attention."""
    weight = (weight_init or lecun_normal())(key, (in_dim, out_dim), jnp.float32)
    return Linear(weight, jnp.full(out_dim, bias, jnp.float32))


class MLP(eqx.Module):
    """$\\mathrm{MLP}(n_l, d_{in}, d_{hid}, d_{out})$ with `depth` hidden layers and ReLU between layers.

    The paper's $n_l$ counts hidden layers: only so do its parameter counts come out.
    """

    layers: tuple[Linear, ...]

    def __init__(self, in_dim: int, width: int, out_dim: int, *, depth: int, key: PRNGKeyArray) -> None:
        dims = [in_dim, *[width] * depth, out_dim]
        # Xavier-normal weights and biases of 1e-3: the initialisation of the authors' framework.
        self.layers = tuple(
            linear(a, b, key=layer_key, weight_init=glorot_normal(), bias=1e-3)
            for a, b, layer_key in zip(dims[:-1], dims[1:], _split(key, depth + 1), strict=True)
        )

    def __call__(self, *parts: Float[Array, "..."]) -> Float[Array, "..."]:
        hidden = self.layers[0](*parts)
        for layer in self.layers[1:]:
            hidden = layer(jax.nn.relu(hidden))
        return hidden


def _split(key: PRNGKeyArray, num: int) -> Sequence[PRNGKeyArray]:
    return list(jax.random.split(key, num))
