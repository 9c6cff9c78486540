"""An ensemble of functions, and a sampler that uses all of them equally often."""

from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from botorch.posteriors.ensemble import EnsemblePosterior  # pyright: ignore[reportMissingImports]
from botorch.sampling.get_sampler import GetSampler  # pyright: ignore[reportMissingImports]
from botorch.sampling.index_sampler import IndexSampler  # pyright: ignore[reportMissingImports]

__all__ = ["FunctionPosterior", "FunctionSampler"]


class FunctionPosterior(EnsemblePosterior):
    """Values of equally likely functions. The k-th member is the same function in every batch and call."""


class FunctionSampler(IndexSampler):
    """Takes the functions in order, and starts again if more samples are requested than there are functions.

    BoTorch's own sampler draws functions with replacement, independently for each batch. A batch could then win only because
    it happened to get better functions.
    """

    def _construct_base_samples(self, posterior: EnsemblePosterior) -> None:
        shape = self.sample_shape
        numbers = torch.arange(shape.numel(), device=posterior.device) % posterior.ensemble_size
        numbers = numbers.reshape(*shape, *(1 for _ in posterior.batch_shape)).expand(*shape, *posterior.batch_shape)
        self.register_buffer("base_samples", numbers)


@GetSampler.register(FunctionPosterior)
def _get_sampler(posterior: FunctionPosterior, sample_shape: torch.Size, **options: Any) -> FunctionSampler:
    return FunctionSampler(sample_shape=sample_shape, **options)
