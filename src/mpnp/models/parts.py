"""The parts that models are assembled from, made to the settings."""

import dataclasses
from collections.abc import Callable, Iterator

import jax
from jaxtyping import PRNGKeyArray

from mpnp.models.settings import ModelSettings
from mpnp.networks.attention import ISAB, MultiHeadAttention
from mpnp.networks.backbones.attentive import AttentiveBackbone
from mpnp.networks.backbones.contract import AbstractBackbone
from mpnp.networks.backbones.pooled import PooledBackbone
from mpnp.networks.decoder import GaussianDecoder
from mpnp.networks.dense import MLP, Linear, linear
from mpnp.networks.encoders import AbstractSetEncoder, PointwiseEncoder, SelfAttentiveEncoder

__all__ = ["ATTENTIVE", "POOLED", "Architecture", "Parts"]


@dataclasses.dataclass(frozen=True)
class Parts:
    """A maker of parts: knows the dimensions and settings, and gives each part a key of its own."""

    x_dim: int
    y_dim: int
    settings: ModelSettings
    keys: Iterator[PRNGKeyArray]

    @staticmethod
    def from_key(x_dim: int, y_dim: int, settings: ModelSettings, *, key: PRNGKeyArray) -> "Parts":
        """A maker whose keys all come from one."""
        return Parts(x_dim, y_dim, settings, iter(jax.random.split(key, 16)))

    def mlp(self, in_dim: int, out_dim: int, depth: int) -> MLP:
        """An encoder network, whose hidden width the size-matched baselines enlarge."""
        return MLP(in_dim, self.settings.hidden_width, out_dim, depth=depth, key=next(self.keys))

    def linear(self, in_dim: int, out_dim: int) -> Linear:
        """One linear layer."""
        return linear(in_dim, out_dim, key=next(self.keys))

    def attention(self, width: int) -> MultiHeadAttention:
        """Attention between features of one width."""
        return MultiHeadAttention(width, width, width, width, num_heads=self.settings.num_heads, key=next(self.keys))

    def isab(self, width: int, inducing_dim: int) -> ISAB:
        """A generator as wide as its noise."""
        return ISAB(width, inducing_dim, width, num_heads=self.settings.num_heads, key=next(self.keys))

    def decoder(self, features: int) -> GaussianDecoder:
        """A decoder of the input and so many features."""
        settings, in_dim, out_dim = self.settings, self.x_dim + features, 2 * self.y_dim
        mlp = MLP(in_dim, settings.width, out_dim, depth=settings.decoder_depth, key=next(self.keys))
        return GaussianDecoder(mlp, settings.sigma_min)


def _pointwise_encoder(parts: Parts, out_dim: int, depth: int) -> AbstractSetEncoder:
    return PointwiseEncoder(parts.mlp(parts.x_dim + parts.y_dim, out_dim, depth))


def _self_attentive_encoder(parts: Parts, out_dim: int, depth: int) -> AbstractSetEncoder:
    return SelfAttentiveEncoder(parts.mlp(parts.x_dim + parts.y_dim, out_dim, depth), parts.attention(out_dim))


def _pooled_backbone(parts: Parts) -> AbstractBackbone:
    width, depth = parts.settings.width, parts.settings.encoder_depth
    return PooledBackbone(encoder=_pointwise_encoder(parts, width, depth), width=width)


def _attentive_backbone(parts: Parts) -> AbstractBackbone:
    width, depth = parts.settings.width, parts.settings.encoder_depth
    return AttentiveBackbone(
        value_encoder=_self_attentive_encoder(parts, width, depth),
        coordinate_encoder=parts.mlp(parts.x_dim, width, depth),
        cross_attention=parts.attention(width),
        width=width,
    )


@dataclasses.dataclass(frozen=True)
class Architecture:
    """How a family of models looks at sets: its backbone, and the encoder that latent models use beside it."""

    backbone: Callable[[Parts], AbstractBackbone]
    set_encoder: Callable[[Parts, int, int], AbstractSetEncoder]


POOLED = Architecture(_pooled_backbone, _pointwise_encoder)
ATTENTIVE = Architecture(_attentive_backbone, _self_attentive_encoder)
