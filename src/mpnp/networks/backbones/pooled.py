"""The backbone of CNP: the mean of the points' features, the same at every target."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from mpnp.networks.backbones.contract import AbstractBackbone, Places, Tokens
from mpnp.networks.encoders import AbstractSetEncoder
from mpnp.tasks.task import PointSet

__all__ = ["PooledBackbone"]


class Pool(eqx.Module):
    """The sum of some tokens, and how many they count for."""

    total: Float[Array, "*#batch width"]
    count: Float[Array, "*#batch"]


class PooledBackbone(AbstractBackbone):
    """$r_c = \\frac{1}{|c|}\\sum_{i \\in c} \\mathrm{MLP}(z_i)$; the empty set has the representation zero."""

    encoder: AbstractSetEncoder
    width: int = eqx.field(static=True)

    @property
    def token_dim(self) -> int:
        """A token is the point's representation itself."""
        return self.width

    def embed_at(self, points: PointSet, places: Places) -> Tokens:
        return Tokens(self.encoder(points), points.counts)

    def ask_at(self, places: Places) -> None:
        return None

    def look(self, question: None, tokens: Tokens) -> Pool:
        return Pool(jnp.einsum("...p,...pd->...d", tokens.weights, tokens.features), tokens.weights.sum(axis=-1))

    def conclude(self, question: None, *views: Pool) -> Float[Array, "*#batch 1 width"]:
        # Sums of the sets are added, never their means: each token of the union weighs the same, wherever it came from.
        total, count = sum(view.total for view in views), sum(view.count for view in views)
        mean = total / jnp.where(count > 0, count, 1)[..., None]
        return mean[..., None, :]
