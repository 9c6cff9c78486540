"""Rotary attention (Su et al., 2021) for points anywhere in space: it sees inputs only through their differences.

Queries, keys and values are rotated by angles proportional to the input of their point, and means are rotated back. So
moving all points together changes nothing, and a row learns where the rows that it attends to lie relative to itself.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from mpnp.errors import InputError
from mpnp.nn.attention import Attended, mean_of_union, softmax_sums
from mpnp.nn.linear import Linear, linear

__all__ = ["RotaryAttention", "frequencies", "phases"]

LOWEST, HIGHEST = 0.5, 64.0
"""Range of the angular frequencies, for inputs of about -2 to 2: from waves much longer than the data to a tenth of a unit."""


def frequencies(x_dim: int, num_heads: int, pairs_per_head: int) -> Float[np.ndarray, "head pair x_dim"]:
    """Angular frequencies on a logarithmic grid, assigned to the heads in turn; in several dimensions in all directions.

    >>> frequencies(1, 2, 2)[..., 0].astype(int).tolist()
    [[0, 12], [2, 64]]
    """
    count = num_heads * pairs_per_head
    magnitudes = np.geomspace(LOWEST, HIGHEST, count)
    directions = np.ones((count, 1)) if x_dim == 1 else np.random.default_rng(0).normal(size=(count, x_dim))
    waves = magnitudes[:, None] * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    return waves.reshape(pairs_per_head, num_heads, x_dim).swapaxes(0, 1).astype(np.float32)


def phases(x: Float[Array, "*#batch point x_dim"], width: int, num_heads: int) -> Float[Array, "*#batch point width"]:
    """Cosine and sine of each point's angles, those of a head side by side."""
    waves = frequencies(x.shape[-1], num_heads, width // num_heads // 2)
    angles = jnp.einsum("...px,hfx->...phf", x, waves.astype(x.dtype))
    return jnp.concatenate([jnp.cos(angles), jnp.sin(angles)], axis=-1).reshape(*x.shape[:-1], width)


class RotaryAttention(eqx.Module):
    """Multi-head attention whose result does not change if all points are moved together."""

    query_projection: Linear
    key_projection: Linear
    value_projection: Linear
    output_projection: Linear
    num_heads: int = eqx.field(static=True)

    def __init__(self, width: int, *, num_heads: int, key: PRNGKeyArray) -> None:
        if width % (2 * num_heads):
            raise InputError(f"twice num_heads must divide the layer width {width}, got num_heads={num_heads}")
        self.query_projection, self.key_projection, self.value_projection, self.output_projection = (
            linear(width, width, key=part) for part in jax.random.split(key, 4)
        )
        self.num_heads = num_heads

    def project(
        self, features: Float[Array, "*#batch point width"], phase: Float[Array, "*#batch point width"]
    ) -> tuple[Float[Array, "*#batch point head head_dim"], Float[Array, "*#batch point head head_dim"]]:
        """Rotated keys and values of rows to attend to."""
        keys, values = self.key_projection(features), self.value_projection(features)
        return self._rotate(keys, phase), self._rotate(values, phase)

    def query(
        self, features: Float[Array, "*#batch query width"], phase: Float[Array, "*#batch query width"]
    ) -> Float[Array, "*#batch query head head_dim"]:
        """Rotated queries."""
        return self._rotate(self.query_projection(features), phase)

    def attend(
        self,
        query: Float[Array, "*#batch query head head_dim"],
        keys: Float[Array, "*#batch point head head_dim"],
        values: Float[Array, "*#batch point head head_dim"],
        weights: Float[Array, "*#batch point"],
    ) -> Attended:
        """The sums over one source; pass those of all sources to `combine`."""
        scores = jnp.einsum("...qhd,...khd->...hqk", query, keys) / math.sqrt(query.shape[-1])
        return softmax_sums(scores, values, weights)

    def combine(self, phase: Float[Array, "*#batch query width"], *parts: Attended) -> Float[Array, "*#batch query width"]:
        """The mean of the values of all sources, as seen from each query."""
        mean = mean_of_union(parts)
        back = self._rotate(mean.reshape(*mean.shape[:-2], phase.shape[-1]), phase, -1)
        return self.output_projection(back.reshape(*back.shape[:-2], phase.shape[-1]))

    def _rotate(
        self, features: Float[Array, "*#batch point width"], phase: Float[Array, "*#batch point width"], sign: int = 1
    ) -> Float[Array, "*#batch point head head_dim"]:
        """Rotate each pair of a head's features by its angle."""
        first, second, cosine, sine = (
            half
            for rows in (features, phase)
            for half in jnp.split(rows.reshape(*rows.shape[:-1], self.num_heads, rows.shape[-1] // self.num_heads), 2, axis=-1)
        )
        return jnp.concatenate([first * cosine - sign * second * sine, second * cosine + sign * first * sine], axis=-1)
