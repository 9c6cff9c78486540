"""Attention as in the paper's appendix A.1: multi-head attention, and the induced set attention block built from it.

It differs from standard attention: scores are divided by the square root of the full width, not of a head's width; the
projected query is the residual; there is no output projection.
"""

import functools
import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from mpnp.errors import InputError
from mpnp.nn.linear import Linear, linear, product

__all__ = [
    "ISAB",
    "Attended",
    "KeyValues",
    "LayerNorm",
    "MultiHeadAttention",
    "Projected",
    "mean_of_union",
    "softmax_sums",
    "union_of",
]


HEAD_DIM_TO_LIFT = 32
"""Smallest head width for which an ISAB uses `attend_lifted`. For narrower heads, the transposes cost more than it saves."""


class KeyValues(eqx.Module):
    """Keys and values to attend to. A row of weight w counts as w rows: 0 for a masked row, 1 for an ordinary one."""

    keys: Float[Array, "*#batch point key_dim"]
    values: Float[Array, "*#batch point value_dim"]
    weights: Float[Array, "*#batch point"]


class Projected(eqx.Module):
    """Queries, keys and values of a set for self-attention. Each row depends on one point only, so subsets can share them."""

    query: Float[Array, "*#batch point width"]
    keys: Float[Array, "*#batch point head head_dim"]
    values: Float[Array, "*#batch point head head_dim"]


class Attended(eqx.Module):
    """Softmax sums over the rows of one source, from which those of a union of sources can be computed.

    `peak` is the highest score, `mass` the sum of exponentials relative to it, and `mixed` the values summed with these.
    """

    peak: Float[Array, "*#batch head query"]
    mass: Float[Array, "*#batch head query"]
    mixed: Float[Array, "*#batch query head head_dim"]


class LayerNorm(eqx.Module):
    """Layer normalisation over the last axis, with scale and bias."""

    scale: Float[Array, " width"]
    bias: Float[Array, " width"]

    def __init__(self, width: int) -> None:
        self.scale = jnp.ones(width, jnp.float32)
        self.bias = jnp.zeros(width, jnp.float32)

    def __call__(self, x: Float[Array, "*batch width"]) -> Float[Array, "*batch width"]:
        return _standardize(x) * self.scale + self.bias


class MultiHeadAttention(eqx.Module):
    """$\\mathrm{MHA}(n_{head}, d_{out})(Q, K, V)$.

    The bias of the keys is kept to match the paper's parameter count but never used: it adds the same number to all scores
    of a query, which the softmax cancels.
    """

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

    @property
    def head_dim(self) -> int:
        """Width of one head."""
        return self.query_projection.bias.shape[0] // self.num_heads

    def __call__(
        self, query: Float[Array, "*#batch query query_dim"], *sources: KeyValues
    ) -> Float[Array, "*#batch query width"]:
        """Attend to the union of the sources' rows. Without rows of positive weight, the mean of the values is zero."""
        projected = self.query_projection(query)
        return self.combine(projected, *(self.attend(projected, source) for source in sources))

    def attend(self, query: Float[Array, "*#batch query width"], source: KeyValues) -> Attended:
        """The sums for one source, given projected queries; pass those of all sources to `combine`."""
        return self._compare(query, *self._project_source(source.keys, source.values), source.weights)

    def combine(self, query: Float[Array, "*#batch query width"], *parts: Attended) -> Float[Array, "*#batch query width"]:
        """Attention of projected queries to the union of the sources that `parts` summarise."""
        inner = self.inner_norm(query + self._join_heads(mean_of_union(parts)))
        return self.outer_norm(inner + jax.nn.relu(self.feed_forward(inner)))

    def project(self, features: Float[Array, "*batch point query_dim"]) -> Projected:
        """Project the rows of a set to queries, keys and values."""
        keys, values = self._project_source(features, features)
        return Projected(self.query_projection(features), keys, values)

    def attend_within(self, rows: Projected, weights: Float[Array, "*#batch point"]) -> Float[Array, "*#batch point width"]:
        """Self-attention: each row attends to all rows of its set."""
        return self.combine(rows.query, self.sums_within(rows, weights))

    def sums_within(self, rows: Projected, weights: Float[Array, "*#batch point"]) -> Attended:
        """The sums of each row over all rows of its set, for `append_within` and `combine`."""
        return self._compare(rows.query, rows.keys, rows.values, weights)

    def append_within(
        self, sums: Attended, rows: Projected, slot: Int[Array, ""] | int, weights: Float[Array, " point"]
    ) -> Attended:
        """The sums after the row in this slot joined a set; `rows` and `weights` are those with it.

        Every row attends to the new one, and the new one to all: no other pair is compared again.
        """
        new = jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, slot, 1), rows)
        weight = jax.lax.dynamic_slice_in_dim(weights, slot, 1)
        grown = union_of(sums, self._compare(rows.query, new.keys, new.values, weight))
        own = self._compare(new.query, rows.keys, rows.values, weights)
        return Attended(
            grown.peak.at[:, slot].set(own.peak[:, 0]),
            grown.mass.at[:, slot].set(own.mass[:, 0]),
            grown.mixed.at[slot].set(own.mixed[0]),
        )

    def _project_source(
        self, keys: Float[Array, "*#batch point key_dim"], values: Float[Array, "*#batch point value_dim"]
    ) -> tuple[Float[Array, "*#batch point head head_dim"], Float[Array, "*#batch point head head_dim"]]:
        projected = product(keys, self.key_projection.weight, self.key_projection.marker)
        return self._split_heads(projected), self._split_heads(self.value_projection(values))

    def _compare(
        self,
        query: Float[Array, "*#batch query width"],
        keys: Float[Array, "*#batch point head head_dim"],
        values: Float[Array, "*#batch point head head_dim"],
        weights: Float[Array, "*#batch point"],
    ) -> Attended:
        scores = jnp.einsum("...qhd,...khd->...hqk", self._split_heads(query), keys) / math.sqrt(query.shape[-1])
        return softmax_sums(scores, values, weights)

    def attend_lifted(self, query: Float[Array, "*#batch query width"], source: KeyValues) -> Attended:
        """The same as `attend`, with the projections moved to the queries' side: $(W_k k)^T q = k^T (W_k^T q)$.

        Keys and values are not projected; instead, each head has its own queries. Cheaper for few queries and many keys.
        """
        key_weight, value_weight = (
            projection.weight.reshape(-1, self.num_heads, self.head_dim)
            for projection in (self.key_projection, self.value_projection)
        )
        lifted = jnp.einsum("...qhd,chd->...hqc", self._split_heads(query), key_weight)
        scores = jnp.einsum("...hqc,...kc->...hqk", lifted, source.keys) / math.sqrt(query.shape[-1])
        peak, masses = _masses(scores, source.weights[..., None, None, :])
        mixed, mass = jnp.einsum("...hqk,...kc->...hqc", masses, source.values), masses.sum(axis=-1)
        bias = jnp.swapaxes(mass, -1, -2)[..., None] * self._split_heads(self.value_projection.bias)
        return Attended(peak, mass, jnp.einsum("...hqc,chd->...qhd", mixed, value_weight) + bias)

    def _split_heads(self, x: Float[Array, "*batch width"]) -> Float[Array, "*batch head head_dim"]:
        return x.reshape(*x.shape[:-1], self.num_heads, self.head_dim)

    def _join_heads(self, x: Float[Array, "*batch head head_dim"]) -> Float[Array, "*batch width"]:
        return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])


class ISAB(eqx.Module):
    """Induced set attention block whose inducing points are the context's tokens.

    $H = \\mathrm{MAB}(I, \\mathcal{E})$, then $\\mathrm{MAB}(\\mathcal{E}, H)$: each inducing point attends to all noise
    vectors, then each noise vector to all inducing points. Equivariant to permutations of the noise, so its output is
    exchangeable; invariant to permutations of the inducing points.
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
        """One output per noise vector; inducing points of weight 0 are ignored."""
        hidden = self.gather(inducing, KeyValues(noise, noise, jnp.ones(noise.shape[:-1], noise.dtype)))
        query, source = self.scatter.query_projection(noise), KeyValues(hidden, hidden, inducing_weights)
        attend = self.scatter.attend_lifted if self.scatter.head_dim >= HEAD_DIM_TO_LIFT else self.scatter.attend
        return self.scatter.combine(query, attend(query, source))


def softmax_sums(
    scores: Float[Array, "*#batch head query point"],
    values: Float[Array, "*#batch point head head_dim"],
    weights: Float[Array, "*#batch point"],
) -> Attended:
    """The softmax sums of values with these scores, each row counting by its weight."""
    peak, masses = _masses(scores, weights[..., None, None, :])
    return Attended(peak, masses.sum(axis=-1), jnp.einsum("...hqk,...khd->...qhd", masses, values))


def _masses(
    scores: Float[Array, "*#batch point"], weights: Float[Array, "*#batch point"]
) -> tuple[Float[Array, "*#batch"], Float[Array, "*#batch point"]]:
    """The highest score among rows of positive weight (minus infinity if there are none), and $w\\,e^{score - peak}$."""
    present = weights > 0
    weighted = scores + jnp.where(present, jnp.log(jnp.where(present, weights, 1)), -jnp.inf)
    # For zero rows this maximum is minus infinity, whereas `jnp.max` would raise an error.
    peak = jax.lax.reduce_max(jax.lax.stop_gradient(weighted), (weighted.ndim - 1,))
    return peak, jnp.exp(weighted - jnp.where(jnp.isfinite(peak), peak, 0)[..., None])


def union_of(one: Attended, other: Attended) -> Attended:
    """The sums over the rows of both sources."""
    peak = jnp.maximum(one.peak, other.peak)
    highest = jnp.where(jnp.isfinite(peak), peak, 0)
    factors = [jnp.exp(part.peak - highest) for part in (one, other)]
    shares = [jnp.swapaxes(factor, -1, -2)[..., None] for factor in factors]
    return Attended(peak, factors[0] * one.mass + factors[1] * other.mass, shares[0] * one.mixed + shares[1] * other.mixed)


def mean_of_union(parts: Sequence[Attended]) -> Float[Array, "*batch query head head_dim"]:
    """Mean of the values of all parts, weighted by mass; zero if there is no mass."""
    highest = functools.reduce(jnp.maximum, [part.peak for part in parts])
    highest = jnp.where(jnp.isfinite(highest), highest, 0)
    factors = [jnp.exp(part.peak - highest) for part in parts]
    mass = functools.reduce(jnp.add, [factor * part.mass for factor, part in zip(factors, parts, strict=True)])
    shares = [jnp.swapaxes(factor / jnp.where(mass > 0, mass, 1), -1, -2)[..., None] for factor in factors]
    return functools.reduce(jnp.add, [share * part.mixed for share, part in zip(shares, parts, strict=True)])


# A derivative written by hand needs fewer passes over the arrays than differentiating each operation.


@jax.custom_jvp
def _standardize(x: Float[Array, "*batch width"]) -> Float[Array, "*batch width"]:
    """Zero mean and unit variance over the last axis."""
    return _standardize_jvp((x,), (x,))[0]


@_standardize.defjvp
def _standardize_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (change,) = primals, tangents
    centred = x - x.mean(axis=-1, keepdims=True)
    rate = jax.lax.rsqrt(jnp.mean(centred**2, axis=-1, keepdims=True) + 1e-6)
    standard = centred * rate
    change = change - change.mean(axis=-1, keepdims=True)
    return standard, rate * (change - standard * jnp.mean(standard * change, axis=-1, keepdims=True))
