"""Attention of the paper's appendix A.1: multi-head attention, and the induced set attention block built from it.

It differs from the common kind: scores are divided by the square root of the full width, not of one head's; the
projected query is the residual; there is no output projection.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from mpnp.errors import InputError
from mpnp.networks.dense import Linear, linear
from mpnp.tasks.task import concatenate

__all__ = ["ISAB", "KeyValues", "LayerNorm", "MultiHeadAttention"]


class KeyValues(eqx.Module):
    """What a query looks at. A row of weight w counts as w rows, so weight 0 is a masked row and 1 a plain one."""

    keys: Float[Array, "*#batch point key_dim"]
    values: Float[Array, "*#batch point value_dim"]
    weights: Float[Array, "*#batch point"]


class LayerNorm(eqx.Module):
    """Layer normalisation over the last axis, with scale and bias."""

    scale: Float[Array, " width"]
    bias: Float[Array, " width"]

    def __init__(self, width: int) -> None:
        self.scale = jnp.ones(width, jnp.float32)
        self.bias = jnp.zeros(width, jnp.float32)

    def __call__(self, x: Float[Array, "*batch width"]) -> Float[Array, "*batch width"]:
        return jax.nn.standardize(x, axis=-1, epsilon=1e-6) * self.scale + self.bias


class MultiHeadAttention(eqx.Module):
    """$\\mathrm{MHA}(n_{head}, d_{out})(Q, K, V)$."""

    query_projection: Linear
    key_projection: Linear
    value_projection: Linear
    feed_forward: Linear
    inner_norm: LayerNorm
    outer_norm: LayerNorm
    num_heads: int = eqx.field(static=True)

    def __init__(self, query_dim: int, key_dim: int, value_dim: int, width: int, *, num_heads: int, key: PRNGKeyArray) -> None:
        if width % num_heads:
            raise InputError(f"num_heads must divide the attention width {width}, got num_heads={num_heads}")
        query_key, key_key, value_key, output_key = jax.random.split(key, 4)
        self.query_projection = linear(query_dim, width, key=query_key)
        self.key_projection = linear(key_dim, width, key=key_key)
        self.value_projection = linear(value_dim, width, key=value_key)
        self.feed_forward = linear(width, width, key=output_key)
        self.inner_norm = LayerNorm(width)
        self.outer_norm = LayerNorm(width)
        self.num_heads = num_heads

    def __call__(
        self, query: Float[Array, "*#batch query query_dim"], *sources: KeyValues
    ) -> Float[Array, "*#batch query width"]:
        """Attend to the union of the sources' rows; with no row of positive weight, to nothing."""
        projected = self.query_projection(query)
        # Each source is projected before the union is formed: rows shared by all samples are projected once.
        keys = concatenate([self.key_projection(source.keys) for source in sources])
        values = concatenate([self.value_projection(source.values) for source in sources])
        weights = concatenate([source.weights[..., None] for source in sources])[..., 0]
        attended = self._attend(projected, keys, values, weights)
        inner = self.inner_norm(projected + attended)
        return self.outer_norm(inner + jax.nn.relu(self.feed_forward(inner)))

    def _attend(
        self,
        query: Float[Array, "*#batch query width"],
        keys: Float[Array, "*#batch point width"],
        values: Float[Array, "*#batch point width"],
        weights: Float[Array, "*#batch point"],
    ) -> Float[Array, "*#batch query width"]:
        width = query.shape[-1]
        query, keys, values = (self._split_heads(x) for x in (query, keys, values))
        scores = jnp.einsum("...qhd,...khd->...hqk", query, keys) / math.sqrt(width)
        shares = _weighted_softmax(scores, weights[..., None, None, :])
        attended = jnp.einsum("...hqk,...khd->...qhd", shares, values)
        return attended.reshape(*attended.shape[:-2], width)

    def _split_heads(self, x: Float[Array, "*batch n width"]) -> Float[Array, "*batch n head head_dim"]:
        return x.reshape(*x.shape[:-1], self.num_heads, x.shape[-1] // self.num_heads)


class ISAB(eqx.Module):
    """Induced set attention block whose inducing points are the context's tokens.

    $H = \\mathrm{MAB}(I, \\mathcal{E})$, then $\\mathrm{MAB}(\\mathcal{E}, H)$: each inducing point looks at all of the noise,
    then each noise vector at all inducing points. Equivariant to the order of the noise, so its output is exchangeable;
    invariant to the order of the inducing points.
    """

    gather: MultiHeadAttention
    scatter: MultiHeadAttention

    def __init__(self, noise_dim: int, inducing_dim: int, width: int, *, num_heads: int, key: PRNGKeyArray) -> None:
        gather_key, scatter_key = jax.random.split(key)
        self.gather = MultiHeadAttention(inducing_dim, noise_dim, noise_dim, width, num_heads=num_heads, key=gather_key)
        self.scatter = MultiHeadAttention(noise_dim, width, width, width, num_heads=num_heads, key=scatter_key)

    def __call__(
        self,
        noise: Float[Array, "*#batch noise noise_dim"],
        inducing: Float[Array, "*#batch point inducing_dim"],
        inducing_weights: Float[Array, "*#batch point"],
    ) -> Float[Array, "*#batch noise width"]:
        hidden = self.gather(inducing, KeyValues(noise, noise, jnp.ones(noise.shape[:-1], noise.dtype)))
        return self.scatter(noise, KeyValues(hidden, hidden, inducing_weights))


def _weighted_softmax(
    scores: Float[Array, "*#batch point"], weights: Float[Array, "*#batch point"]
) -> Float[Array, "*#batch point"]:
    """Softmax in which score i stands for `weights[i]` equal scores; all zeros if no weight is positive."""
    present = weights > 0
    peak = jnp.max(jnp.where(present, scores, -jnp.inf), axis=-1, keepdims=True, initial=-jnp.inf)
    peak = jax.lax.stop_gradient(jnp.where(jnp.isfinite(peak), peak, 0))
    # Absent scores are replaced before the exponential, not after: their gradient must be zero, never 0 * inf.
    mass = weights * jnp.exp(jnp.where(present, scores - peak, 0))
    total = mass.sum(axis=-1, keepdims=True)
    return mass / jnp.where(total > 0, total, 1)
