"""Attention of the paper's appendix A.1: multi-head attention, and the induced set attention block built from it.

It differs from the common kind: scores are divided by the square root of the full width, not of one head's; the
projected query is the residual; there is no output projection.
"""

import functools
import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from mpnp.errors import InputError
from mpnp.networks.dense import Linear, linear
from mpnp.networks.product import product

__all__ = ["ISAB", "Attended", "KeyValues", "LayerNorm", "MultiHeadAttention", "Projected"]


class KeyValues(eqx.Module):
    """What a query looks at. A row of weight w counts as w rows, so weight 0 is a masked row and 1 a plain one."""

    keys: Float[Array, "*#batch point key_dim"]
    values: Float[Array, "*#batch point value_dim"]
    weights: Float[Array, "*#batch point"]


class Projected(eqx.Module):
    """Rows of a set that looks at itself, each by itself so far: those of a subset are some of those of the set."""

    query: Float[Array, "*#batch point width"]
    keys: Float[Array, "*#batch point head head_dim"]
    values: Float[Array, "*#batch point head head_dim"]


class Attended(eqx.Module):
    """Sums over the rows of one source, relative to its highest score: those of a union follow from those of its parts."""

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

    The bias of the keys is kept for the paper's count of parameters but not computed with: it adds the same to all scores
    of a query, which the softmax does not see.
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

    def __call__(
        self, query: Float[Array, "*#batch query query_dim"], *sources: KeyValues
    ) -> Float[Array, "*#batch query width"]:
        """Attend to the union of the sources' rows; with no row of positive weight, to nothing."""
        projected = self.query_projection(query)
        return self.conclude(projected, *(self.look(projected, source) for source in sources))

    def look(self, query: Float[Array, "*#batch query width"], source: KeyValues) -> Attended:
        """What attention of projected queries to a union needs to know about one source."""
        pays = self._lifting_pays(query.shape[-2], *source.keys.shape[-2:])
        return self.look_with_lifted_queries(query, source) if pays else self.look_at_projected(query, source)

    def conclude(self, query: Float[Array, "*#batch query width"], *parts: Attended) -> Float[Array, "*#batch query width"]:
        """Attention of projected queries to the union of what was looked at."""
        inner = self.inner_norm(query + self._join_heads(_mean_of_union(parts)))
        return self.outer_norm(inner + jax.nn.relu(self.feed_forward(inner)))

    def project(self, features: Float[Array, "*batch point query_dim"]) -> Projected:
        """The rows of a set as queries, keys and values at once."""
        keys, values = self._project_source(features, features)
        return Projected(self.query_projection(features), keys, values)

    def attend_within(self, rows: Projected, weights: Float[Array, "*#batch point"]) -> Float[Array, "*#batch point width"]:
        """Attention of a set's rows to all of them."""
        return self.conclude(rows.query, self._compare(rows.query, rows.keys, rows.values, weights))

    def look_at_projected(self, query: Float[Array, "*#batch query width"], source: KeyValues) -> Attended:
        """Attention as it is usually computed: project keys and values, then compare and mix them head by head."""
        return self._compare(query, *self._project_source(source.keys, source.values), source.weights)

    def _project_source(
        self, keys: Float[Array, "*#batch point key_dim"], values: Float[Array, "*#batch point value_dim"]
    ) -> tuple[Float[Array, "*#batch point head head_dim"], Float[Array, "*#batch point head head_dim"]]:
        return self._split_heads(product(keys, self.key_projection.weight)), self._split_heads(self.value_projection(values))

    def _compare(
        self,
        query: Float[Array, "*#batch query width"],
        keys: Float[Array, "*#batch point head head_dim"],
        values: Float[Array, "*#batch point head head_dim"],
        weights: Float[Array, "*#batch point"],
    ) -> Attended:
        scores = jnp.einsum("...qhd,...khd->...hqk", self._split_heads(query), keys) / math.sqrt(query.shape[-1])
        peak, masses = _masses(scores, weights[..., None, None, :])
        return Attended(peak, masses.sum(axis=-1), jnp.einsum("...hqk,...khd->...qhd", masses, values))

    def look_with_lifted_queries(self, query: Float[Array, "*#batch query width"], source: KeyValues) -> Attended:
        """The same numbers with the projections moved to the queries' side: $(W_k k)^T q = k^T (W_k^T q)$.

        Keys and values are met as they are, by one query a head. With few queries this costs fewer multiplications, and in
        larger matrix products.
        """
        key_weight, value_weight = (
            projection.weight.reshape(-1, self.num_heads, query.shape[-1] // self.num_heads)
            for projection in (self.key_projection, self.value_projection)
        )
        lifted = jnp.einsum("...qhd,chd->...hqc", self._split_heads(query), key_weight)
        scores = jnp.einsum("...hqc,...kc->...hqk", lifted, source.keys) / math.sqrt(query.shape[-1])
        peak, masses = _masses(scores, source.weights[..., None, None, :])
        mixed, mass = jnp.einsum("...hqk,...kc->...hqc", masses, source.values), masses.sum(axis=-1)
        bias = jnp.swapaxes(mass, -1, -2)[..., None] * self._split_heads(self.value_projection.bias)
        return Attended(peak, mass, jnp.einsum("...hqc,chd->...qhd", mixed, value_weight) + bias)

    def _lifting_pays(self, num_queries: int, num_rows: int, row_dim: int) -> bool:
        """Whether lifted queries need far fewer multiplications; a few fewer are eaten up by the transposes they need."""
        width = self.query_projection.bias.shape[0]
        lifted = num_queries * row_dim * (width + self.num_heads * num_rows)
        projected = num_rows * width * (row_dim + num_queries)
        return 1.5 * lifted < projected

    def _split_heads(self, x: Float[Array, "*batch width"]) -> Float[Array, "*batch head head_dim"]:
        return x.reshape(*x.shape[:-1], self.num_heads, x.shape[-1] // self.num_heads)

    def _join_heads(self, x: Float[Array, "*batch head head_dim"]) -> Float[Array, "*batch width"]:
        return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])


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


def _masses(
    scores: Float[Array, "*#batch point"], weights: Float[Array, "*#batch point"]
) -> tuple[Float[Array, "*#batch"], Float[Array, "*#batch point"]]:
    """The highest score of a row of positive weight, minus infinity if there is none, and $w\\,e^{score - peak}$ of each."""
    present = weights > 0
    weighted = scores + jnp.where(present, jnp.log(jnp.where(present, weights, 1)), -jnp.inf)
    peak = jax.lax.stop_gradient(jnp.max(weighted, axis=-1, initial=-jnp.inf))
    return peak, jnp.exp(weighted - jnp.where(jnp.isfinite(peak), peak, 0)[..., None])


def _mean_of_union(parts: Sequence[Attended]) -> Float[Array, "*batch query head head_dim"]:
    """Values averaged by mass over all parts; zero if there is no mass."""
    highest = functools.reduce(jnp.maximum, [part.peak for part in parts])
    highest = jnp.where(jnp.isfinite(highest), highest, 0)
    factors = [jnp.exp(part.peak - highest) for part in parts]
    mass = functools.reduce(jnp.add, [factor * part.mass for factor, part in zip(factors, parts, strict=True)])
    shares = [jnp.swapaxes(factor / jnp.where(mass > 0, mass, 1), -1, -2)[..., None] for factor in factors]
    return functools.reduce(jnp.add, [share * part.mixed for share, part in zip(shares, parts, strict=True)])


# It states its own derivative, which needs fewer passes over the arrays than differentiating each operation.


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
