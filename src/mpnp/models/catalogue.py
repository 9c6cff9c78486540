"""Every model by name: a mechanism on an architecture, with the paper's settings as defaults."""

import dataclasses
from collections.abc import Callable

import jax
from jaxtyping import PRNGKeyArray

from mpnp.errors import InputError, unknown_name
from mpnp.models.bootstrap import BootstrapNP
from mpnp.models.conditional import ConditionalNP
from mpnp.models.contract import AbstractNeuralProcess
from mpnp.models.direct import AbstractPointGenerator, DirectMartingaleNP, SequentialGenerator, SimultaneousGenerator
from mpnp.models.latent import BOUNDS, LatentNP
from mpnp.models.martingale import MartingaleNP
from mpnp.models.neural_bootstrap import NeuralBootstrapNP
from mpnp.models.parts import ATTENTIVE, POOLED, Architecture, Parts
from mpnp.models.settings import ModelSettings

__all__ = ["MODELS", "ModelEntry", "build", "find_model", "num_parameters"]


def _conditional(architecture: Architecture, parts: Parts) -> ConditionalNP:
    backbone = architecture.backbone(parts)
    return ConditionalNP(backbone, parts.decoder(backbone.width))


def _latent(architecture: Architecture, parts: Parts) -> LatentNP:
    settings = parts.settings
    backbone, latent_dim = architecture.backbone(parts), settings.width
    return LatentNP(
        backbone,
        parts.decoder(backbone.width + latent_dim),
        architecture.set_encoder(parts, 2 * latent_dim, settings.latent_depth),
        BOUNDS[settings.bound],
        latent_dim,
    )


def _bootstrap(architecture: Architecture, parts: Parts) -> BootstrapNP:
    backbone = architecture.backbone(parts)
    adaptation = parts.linear(backbone.width, parts.x_dim + backbone.width)
    return BootstrapNP(backbone, parts.decoder(backbone.width), adaptation)


def _neural_bootstrap(architecture: Architecture, parts: Parts) -> NeuralBootstrapNP:
    backbone = architecture.backbone(parts)
    return NeuralBootstrapNP(backbone, parts.decoder(backbone.width))


def _martingale(architecture: Architecture, parts: Parts) -> MartingaleNP:
    backbone = architecture.backbone(parts)
    generator = parts.isab(backbone.token_dim, backbone.token_dim)
    return MartingaleNP(
        backbone=backbone,
        decoder=parts.decoder(backbone.width),
        generator=generator,
        num_pseudo=parts.settings.num_pseudo,
    )


def _simultaneous(architecture: Architecture, parts: Parts) -> DirectMartingaleNP:
    width, point_dim = parts.settings.width, parts.x_dim + parts.y_dim
    generator = SimultaneousGenerator(parts.isab(width, point_dim), parts.linear(width, point_dim))
    return _direct(architecture, parts, generator)


def _sequential(architecture: Architecture, parts: Parts) -> DirectMartingaleNP:
    width = parts.settings.width
    generator = SequentialGenerator(parts.isab(width, parts.x_dim + parts.y_dim), parts.linear(width, parts.x_dim))
    return _direct(architecture, parts, generator)


def _direct(architecture: Architecture, parts: Parts, generator: AbstractPointGenerator) -> DirectMartingaleNP:
    backbone = architecture.backbone(parts)
    return DirectMartingaleNP(
        backbone=backbone,
        decoder=parts.decoder(backbone.width),
        generator=generator,
        noise_dim=parts.settings.width,
        num_pseudo=parts.settings.num_pseudo,
    )


@dataclasses.dataclass(frozen=True)
class ModelEntry:
    """A row of the catalogue."""

    mechanism: Callable[[Architecture, Parts], AbstractNeuralProcess]
    architecture: Architecture
    title: str
    uncertainty: str


MODELS: dict[str, ModelEntry] = {
    "cnp": ModelEntry(_conditional, POOLED, "Conditional neural process", "none"),
    "np": ModelEntry(_latent, POOLED, "Neural process", "Gaussian latent variable"),
    "bnp": ModelEntry(_bootstrap, POOLED, "Bootstrapping neural process", "bootstrap of points and residuals"),
    "neubnp": ModelEntry(_neural_bootstrap, POOLED, "Neural bootstrapping NP", "Dirichlet weights on the context"),
    "mpnp": ModelEntry(_martingale, POOLED, "Martingale posterior NP", "generated representations"),
    "mpnp-dsi": ModelEntry(_simultaneous, POOLED, "Direct MPNP, simultaneous", "generated points (x', y')"),
    "mpnp-dse": ModelEntry(_sequential, POOLED, "Direct MPNP, sequential", "generated x', then y' given x'"),
    "canp": ModelEntry(_conditional, ATTENTIVE, "Conditional attentive neural process", "none"),
    "anp": ModelEntry(_latent, ATTENTIVE, "Attentive neural process", "Gaussian latent variable"),
    "banp": ModelEntry(_bootstrap, ATTENTIVE, "Bootstrapping attentive NP", "bootstrap of points and residuals"),
    "neubanp": ModelEntry(_neural_bootstrap, ATTENTIVE, "Neural bootstrapping ANP", "Dirichlet weights on the context"),
    "mpanp": ModelEntry(_martingale, ATTENTIVE, "Martingale posterior attentive NP", "generated representations"),
    "mpanp-dsi": ModelEntry(_simultaneous, ATTENTIVE, "Direct MPANP, simultaneous", "generated points (x', y')"),
    "mpanp-dse": ModelEntry(_sequential, ATTENTIVE, "Direct MPANP, sequential", "generated x', then y' given x'"),
}


def find_model(name: str) -> ModelEntry:
    """The catalogue's row of that name."""
    if name not in MODELS:
        raise unknown_name("model", name, MODELS, "Run 'mpnp models' to see them all.")
    return MODELS[name]


def build(
    name: str, *, key: PRNGKeyArray, x_dim: int = 1, y_dim: int = 1, settings: ModelSettings | None = None
) -> AbstractNeuralProcess:
    """A new model of the catalogue, with random weights.

    >>> model = build("mpnp", key=jax.random.key(0))
    >>> num_parameters(model)
    265986
    """
    entry = find_model(name)
    if x_dim < 1 or y_dim < 1:
        raise InputError(f"x_dim and y_dim must be at least 1, got {x_dim} and {y_dim}")
    parts = Parts.from_key(x_dim, y_dim, settings or ModelSettings(), key=key)
    return entry.mechanism(entry.architecture, parts)


def num_parameters(model: AbstractNeuralProcess) -> int:
    """The number of trainable numbers; every leaf of a model is a trainable array."""
    return sum(leaf.size for leaf in jax.tree.leaves(model))
