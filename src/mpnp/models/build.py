"""Build a model of the registry from its settings."""

import pkgutil

import jax
from jaxtyping import PRNGKeyArray

from mpnp.models.base import AbstractNeuralProcess
from mpnp.models.config import MOST_DIMS, ModelSettings
from mpnp.models.parts import Parts
from mpnp.models.registry import BACKBONES, find_model
from mpnp.options import require_count

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
    for dim_name, dim in (("x_dim", x_dim), ("y_dim", y_dim)):
        require_count(dim_name, dim, most=MOST_DIMS)
    parts = Parts.from_key(x_dim, y_dim, settings or ModelSettings(), key=key)
    assemble, backbone_type = pkgutil.resolve_name(entry.mechanism), pkgutil.resolve_name(BACKBONES[entry.backbone])
    return assemble(backbone_type, parts)


def num_parameters(model: AbstractNeuralProcess) -> int:
    """Number of trainable parameters. Every leaf of a model is a trainable array."""
    return sum(leaf.size for leaf in jax.tree.leaves(model))
