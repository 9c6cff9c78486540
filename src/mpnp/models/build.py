"""Build a model of the registry from its settings."""

import dataclasses
import pkgutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import jax
from jaxtyping import PRNGKeyArray

from mpnp.models.config import MOST_DIMS, ModelSettings
from mpnp.models.registry import BACKBONES, LIKELIHOODS, find_model
from mpnp.nn.attention import ISAB, MultiHeadAttention
from mpnp.nn.likelihoods.decoder import Decoder
from mpnp.nn.linear import MLP, Linear, linear
from mpnp.options import require_count

if TYPE_CHECKING:
    from mpnp.models.base import AbstractNeuralProcess

__all__ = ["Parts", "build", "num_parameters"]


@dataclasses.dataclass(frozen=True)
class Parts:
    """A factory of networks: knows dimensions and settings, and initialises each network with its own key."""

    x_dim: int
    y_dim: int
    settings: ModelSettings
    keys: Iterator[PRNGKeyArray]

    @staticmethod
    def from_key(x_dim: int, y_dim: int, settings: ModelSettings, *, key: PRNGKeyArray) -> "Parts":
        """A factory whose keys are split from one key."""
        return Parts(x_dim, y_dim, settings, iter(jax.random.split(key, 16)))

    def input_encoder(self, out_dim: int, depth: int) -> MLP:
        """An MLP that reads the input of a point."""
        return self._encoder(self.x_dim, out_dim, depth)

    def point_encoder(self, out_dim: int, depth: int) -> MLP:
        """An MLP that reads the input and the output of a point."""
        return self._encoder(self.x_dim + self.y_dim, out_dim, depth)

    def _encoder(self, in_dim: int, out_dim: int, depth: int) -> MLP:
        # The size-matched baselines enlarge only the hidden width.
        return MLP(in_dim, self.settings.hidden_width, out_dim, depth=depth, key=next(self.keys), num_raw=in_dim)

    def linear(self, in_dim: int, out_dim: int) -> Linear:
        """A linear layer."""
        return linear(in_dim, out_dim, key=next(self.keys))

    def attention(self, width: int) -> MultiHeadAttention:
        """Attention whose queries, keys and values all have this width."""
        return MultiHeadAttention(width, width, width, width, num_heads=self.settings.num_heads, key=next(self.keys))

    def isab(self, width: int, inducing_dim: int) -> ISAB:
        """An ISAB whose noise and output have this width."""
        return ISAB(width, inducing_dim, width, num_heads=self.settings.num_heads, key=next(self.keys))

    def decoder(self, features: int) -> Decoder:
        """A decoder that reads the input and `features` numbers, with the likelihood of the settings."""
        settings, in_dim, out_dim = self.settings, self.x_dim + features, 2 * self.y_dim
        mlp = MLP(in_dim, settings.width, out_dim, depth=settings.decoder_depth, key=next(self.keys), num_raw=self.x_dim)
        distribution = pkgutil.resolve_name(LIKELIHOODS[settings.likelihood])()
        return Decoder(mlp, self.x_dim, self.y_dim, settings.sigma_min, distribution)


def build(
    name: str, *, key: PRNGKeyArray, x_dim: int = 1, y_dim: int = 1, settings: ModelSettings | None = None
) -> "AbstractNeuralProcess":
    """Build a model of the registry, with random weights.

    >>> model = build("mpnp", key=jax.random.key(0))
    >>> num_parameters(model)
    265986
    """
    entry = find_model(name)
    for dim_name, dim in (("x_dim", x_dim), ("y_dim", y_dim)):
        require_count(dim_name, dim, most=MOST_DIMS)
    parts = Parts.from_key(x_dim, y_dim, settings or ModelSettings(), key=key)
    assemble, backbone_type = pkgutil.resolve_name(entry.mechanism), pkgutil.resolve_name(BACKBONES[entry.backbone])
    return assemble(backbone_type, parts)


def num_parameters(model: "AbstractNeuralProcess") -> int:
    """Number of trainable parameters. Every leaf of a model is a trainable array."""
    return sum(leaf.size for leaf in jax.tree.leaves(model))
