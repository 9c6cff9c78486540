"""Settings of the models; the defaults are the paper's."""

import dataclasses

from mpnp.errors import InputError, unknown_name
from mpnp.models.registry import LIKELIHOODS
from mpnp.options import option, require_fields

__all__ = ["BOUNDS", "MOST_DIMS", "ModelSettings"]

BOUNDS = ("iwae", "elbo")
"""Names of the bounds on the log evidence that latent models can maximise; `mpnp.models.latent` defines them."""


WIDEST, DEEPEST, MOST_DIMS = 16_384, 100, 10_000
"""Limits on networks. A card or configuration from a stranger must not keep the machine busy with an absurd one."""


@dataclasses.dataclass(frozen=True)
class ModelSettings:
    """Settings of all models in the registry. The defaults are those of the paper's appendix A."""

    width: int = option(128, "width of representations, decoder and attention", most=WIDEST)
    encoder_width: int | None = option(None, "width of the encoders' hidden layers (default: that of --width)", most=WIDEST)
    encoder_depth: int = option(5, "hidden layers of the encoders", most=DEEPEST)
    latent_depth: int = option(2, "hidden layers of the latent encoder (np, anp, ltnp)", most=DEEPEST)
    decoder_depth: int = option(3, "hidden layers of the decoder", most=DEEPEST)
    num_layers: int = option(4, "layers of a transformer (tnp, ltnp, mptnp, stnp, mpstnp)", most=DEEPEST)
    layer_width: int = option(64, "width of a transformer's layers (the same)", most=WIDEST)
    num_periods: int = option(320, "candidate periods along each input (stnp, mpstnp)", most=10_000)
    num_heads: int = option(8, "attention heads; must divide the width")
    num_pseudo: int = option(10, "pseudo context points per sample (martingale models)", most=10_000)
    noise_correlation: float = option(0.0, "correlation of the noise of pseudo points within one sample, 0 to 1 (mpnp, mpanp)")
    energy_weight: float = option(0.0, "weight of the energy score of whole samples in the loss (mpnp, mpanp)")
    sigma_min: float = option(0.1, "smallest standard deviation a model can predict, above 0 and below 1")
    likelihood: str = option("gaussian", f"distribution of the outputs given the function: {', '.join(LIKELIHOODS)}")
    bound: str = option("iwae", "what np, anp and ltnp maximise: iwae (importance-weighted bound) or elbo")

    def __post_init__(self) -> None:
        require_fields(self)
        if not 0 < self.sigma_min < 1:
            raise InputError(f"sigma_min must lie above 0 and below 1, got {self.sigma_min}")
        if not 0 <= self.noise_correlation <= 1:
            raise InputError(f"noise_correlation must lie between 0 and 1, got {self.noise_correlation}")
        if not 0 <= self.energy_weight < float("inf"):
            raise InputError(f"energy_weight must be finite and at least 0, got {self.energy_weight}")
        if self.likelihood not in LIKELIHOODS:
            raise unknown_name("likelihood", self.likelihood, LIKELIHOODS, f"Choose one of: {', '.join(LIKELIHOODS)}.")
        if self.bound not in BOUNDS:
            raise unknown_name("bound", self.bound, BOUNDS, f"Choose one of: {', '.join(BOUNDS)}.")

    @property
    def hidden_width(self) -> int:
        """Width of the encoders' hidden layers, which the paper's size-matched baselines enlarge."""
        return self.encoder_width or self.width
