"""Settings of the models; the defaults are the paper's."""

import dataclasses

from mpnp.errors import InputError, unknown_name
from mpnp.models.latent import BOUNDS
from mpnp.options import option, require_counts

__all__ = ["ModelSettings"]


@dataclasses.dataclass(frozen=True)
class ModelSettings:
    """Every setting a model of the catalogue may need. Reading the defaults is reading the paper's appendix A."""

    width: int = option(128, "width of representations, decoder and attention")
    encoder_width: int | None = option(None, "width of the encoders' hidden layers, as --width unless given")
    encoder_depth: int = option(5, "hidden layers of the encoders")
    latent_depth: int = option(2, "hidden layers of the latent encoder (np, anp)")
    decoder_depth: int = option(3, "hidden layers of the decoder")
    num_heads: int = option(8, "attention heads; must divide the width")
    num_pseudo: int = option(10, "pseudo context points in each sample (martingale models)")
    sigma_min: float = option(0.1, "smallest standard deviation a model can predict, above 0 and below 1")
    bound: str = option("iwae", "what np and anp maximise: iwae (importance-weighted bound) or elbo")

    def __post_init__(self) -> None:
        require_counts(self)
        if not 0 < self.sigma_min < 1:
            raise InputError(f"sigma_min must lie above 0 and below 1, got {self.sigma_min}")
        if self.bound not in BOUNDS:
            raise unknown_name("bound", self.bound, BOUNDS, f"Choose one of: {', '.join(BOUNDS)}.")

    @property
    def hidden_width(self) -> int:
        """Width of the encoders' hidden layers: what the paper's size-matched baselines enlarge."""
        return self.encoder_width or self.width
