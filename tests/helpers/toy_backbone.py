"""A backbone in one file: a kernel smoother, whose representation is the average of features near the target."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from mpnp.models.backbones.base import AbstractBackbone, InputFeatures, Tokens
from mpnp.models.parts import Parts
from mpnp.nn.encoders import AbstractSetEncoder, PointwiseEncoder, PreparedPoints
from mpnp.tasks.task import PointSet


class Smoothed(eqx.Module):
    """Sums over some tokens, weighted by their distance to each target."""

    total: Float[Array, "*#batch target width"]
    mass: Float[Array, "*#batch target"]


class KernelBackbone(AbstractBackbone):
    """$r(x) = \\sum_i k(x, x_i) r_i / (1 + \\sum_i k(x, x_i))$ with a Gaussian kernel of unit length."""

    encoder: AbstractSetEncoder
    x_dim: int = eqx.field(static=True)
    width: int = eqx.field(static=True)

    @classmethod
    def assemble(cls, parts: Parts) -> "KernelBackbone":
        width, depth = parts.settings.width, parts.settings.encoder_depth
        return cls(cls.set_encoder(parts, width, depth), parts.x_dim, width)

    @staticmethod
    def set_encoder(parts: Parts, out_dim: int, depth: int) -> AbstractSetEncoder:
        return PointwiseEncoder(parts.point_encoder(out_dim, depth))

    @property
    def token_dim(self) -> int:
        return self.x_dim + self.width

    def prepare(self, points: PointSet, input_features: InputFeatures) -> tuple[InputFeatures, PreparedPoints]:
        return input_features, self.encoder.prepare(points)

    def relate(self, prepared: tuple[InputFeatures, PreparedPoints], counts: Float[Array, "*#batch point"]) -> Tokens:
        features = self.encoder.relate(prepared[1], counts)
        inputs = jnp.broadcast_to(prepared[0], (*features.shape[:-1], self.x_dim))
        return Tokens(jnp.concatenate([inputs, features], axis=-1), counts)

    def query_encoded(self, input_features: InputFeatures) -> InputFeatures:
        return input_features

    def attend(self, query: InputFeatures, tokens: Tokens) -> Smoothed:
        inputs, features = jnp.split(tokens.features, [self.x_dim], axis=-1)
        distance = jnp.sum((query[..., :, None, :] - inputs[..., None, :, :]) ** 2, axis=-1)
        kernel = jnp.exp(-distance / 2) * tokens.weights[..., None, :]
        return Smoothed(kernel @ features, kernel.sum(axis=-1))

    def combine(self, query: InputFeatures, *partials: Smoothed) -> Float[Array, "*#batch target width"]:
        total, mass = sum(part.total for part in partials), sum(part.mass for part in partials)
        return total / (1 + mass)[..., None]
