"""Build a model of the registry from its settings."""

import pkgutil

import jax
from jaxtyping import PRNGKeyArray

from mpnp.errors import InputError
from mpnp.models.base import AbstractNeuralProcess
from mpnp.models.config import ModelSettings
from mpnp.models.parts import Parts
from mpnp.models.registry import BACKBONES, find_model

__all__ = ["build", "num_parameters"]


def build(
    name: str, *, key: PRNGKeyArray, x_dim: int = 1, y_dim: int = 1, settings: ModelSettings | None = None
) -> AbstractNeuralProcess:
    """Build a model of the registry, with random weights.

    >>> model = build("mpnp", key=jax.random.key(0))
    >>> num_parameters(model)
    265986
    """
    entry = find_model(name)
    if x_dim < 1 or y_dim < 1:
        raise InputError(f"x_dim and y_dim must be at least 1, got {x_dim} and {y_dim}")
    parts = Parts.from_key(x_dim, y_dim, settings or ModelSettings(), key=key)
    assemble, backbone_type = pkgutil.resolve_name(entry.mechanism), pkgutil.resolve_name(BACKBONES[entry.backbone])
    return assemble(backbone_type, parts)


def num_parameters(model: AbstractNeuralProcess) -> int:
    """Number of trainable parameters. Every leaf of a model is a trainable array."""
    return sum(leaf.size for leaf in jax.tree.leaves(model))
