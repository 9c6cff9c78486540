"""The registry of models: each a mechanism on a backbone, by name. Importing it does not import JAX."""

import dataclasses

from mpnp.errors import unknown_name

__all__ = ["BACKBONES", "LIKELIHOODS", "MODELS", "ModelEntry", "find_model"]

CONDITIONAL = "mpnp.models.conditional:ConditionalNP.assemble"
LATENT = "mpnp.models.latent:LatentNP.assemble"
BOOTSTRAP = "mpnp.models.bootstrap:BootstrapNP.assemble"
NEURAL_BOOTSTRAP = "mpnp.models.neural_bootstrap:NeuralBootstrapNP.assemble"
MARTINGALE = "mpnp.models.martingale:MartingaleNP.assemble"
SIMULTANEOUS = "mpnp.models.direct:DirectMartingaleNP.simultaneous"
SEQUENTIAL = "mpnp.models.direct:DirectMartingaleNP.sequential"


@dataclasses.dataclass(frozen=True)
class ModelEntry:
    """One model: a mechanism on a backbone, and its description."""

    mechanism: str
    """The function that assembles the model from a backbone type and `Parts`, as `package.module:name`."""
    backbone: str
    """A name in `BACKBONES`."""
    num_parameters: int
    """Number of parameters with the paper's settings, for one input and one output dimension."""
    title: str
    uncertainty: str
    """The source of functional uncertainty."""
    core: str | None = None
    """Name of the model inside that can be trained first, if there is one."""

    @property
    def base(self) -> str:
        """Name of the conditional model with the same backbone."""
        return self._with_mechanism(CONDITIONAL)

    @property
    def partner(self) -> str:
        """Name of the martingale posterior model with the same backbone."""
        return self._with_mechanism(MARTINGALE)

    def _with_mechanism(self, mechanism: str) -> str:
        wanted = (mechanism, self.backbone)
        return next(name for name, entry in MODELS.items() if (entry.mechanism, entry.backbone) == wanted)


BACKBONES = {
    "pooled": "mpnp.models.backbones.pooled:PooledBackbone",
    "attentive": "mpnp.models.backbones.attentive:AttentiveBackbone",
    "transformer": "mpnp.models.backbones.transformer:TransformerBackbone",
    "seasonal": "mpnp.models.backbones.seasonal:SeasonalBackbone",
}
"""Backbones by name, as `package.module:class`."""

LIKELIHOODS = {
    "gaussian": "mpnp.nn.likelihoods.gaussian:Gaussian",
    "laplace": "mpnp.nn.likelihoods.laplace:Laplace",
}
"""Likelihoods by name: the class of the distribution, as `package.module:class`."""

MODELS: dict[str, ModelEntry] = {
    "cnp": ModelEntry(CONDITIONAL, "pooled", 132_866, "Conditional neural process", "none"),
    "np": ModelEntry(LATENT, "pooled", 199_170, "Neural process", "Gaussian latent variable"),
    "bnp": ModelEntry(BOOTSTRAP, "pooled", 149_507, "Bootstrapping neural process", "bootstrap of points and residuals"),
    "neubnp": ModelEntry(NEURAL_BOOTSTRAP, "pooled", 132_866, "Neural bootstrapping NP", "Dirichlet weights on the context"),
    "mpnp": ModelEntry(MARTINGALE, "pooled", 265_986, "Martingale posterior NP", "generated representations", core="cnp"),
    "mpnp-dsi": ModelEntry(SIMULTANEOUS, "pooled", 250_116, "Direct MPNP, simultaneous", "generated points (x', y')"),
    "mpnp-dse": ModelEntry(SEQUENTIAL, "pooled", 249_987, "Direct MPNP, sequential", "generated x', then y' given x'"),
    "canp": ModelEntry(CONDITIONAL, "attentive", 348_802, "Conditional attentive neural process", "none"),
    "anp": ModelEntry(LATENT, "attentive", 679_298, "Attentive neural process", "Gaussian latent variable"),
    "banp": ModelEntry(BOOTSTRAP, "attentive", 365_443, "Bootstrapping attentive NP", "bootstrap of points and residuals"),
    "neubanp": ModelEntry(
        NEURAL_BOOTSTRAP, "attentive", 348_802, "Neural bootstrapping ANP", "Dirichlet weights on the context"
    ),
    "mpanp": ModelEntry(
        MARTINGALE, "attentive", 877_186, "Martingale posterior attentive NP", "generated representations", core="canp"
    ),
    "mpanp-dsi": ModelEntry(SIMULTANEOUS, "attentive", 466_052, "Direct MPANP, simultaneous", "generated points (x', y')"),
    "mpanp-dse": ModelEntry(SEQUENTIAL, "attentive", 465_923, "Direct MPANP, sequential", "generated x', then y' given x'"),
    "tnp": ModelEntry(CONDITIONAL, "transformer", 184_130, "Transformer neural process", "none"),
    "ltnp": ModelEntry(LATENT, "transformer", 514_626, "Latent transformer neural process", "Gaussian latent variable"),
    "mptnp": ModelEntry(
        MARTINGALE, "transformer", 712_770, "Martingale posterior TNP", "generated representations", core="tnp"
    ),
    "stnp": ModelEntry(CONDITIONAL, "seasonal", 191_010, "Seasonal transformer neural process", "none"),
    "mpstnp": ModelEntry(
        MARTINGALE, "seasonal", 720_162, "Martingale posterior STNP", "generated representations", core="stnp"
    ),
}


def find_model(name: str) -> ModelEntry:
    """Look up a model by name.

    >>> find_model("anp").base, find_model("anp").partner
    ('canp', 'mpanp')
    """
    if str(name) not in MODELS:
        raise unknown_name("model", str(name), MODELS, "Run 'mpnp models' to see them all.")
    return MODELS[str(name)]
