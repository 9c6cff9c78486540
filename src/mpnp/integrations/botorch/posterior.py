"""An ensemble of functions, and a sampler that takes each of them as often as any other."""

from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from botorch.posteriors.ensemble import EnsemblePosterior  # pyright: ignore[reportMissingImports]
from botorch.sampling.get_sampler import GetSampler  # pyright: ignore[reportMissingImports]
from botorch.sampling.index_sampler import IndexSampler  # pyright: ignore[reportMissingImports]

__all__ = ["FunctionPosterior", "FunctionSampler"]


class FunctionPosterior(EnsemblePosterior):
    """Values of equally likely functions: the k-th of every batch and every call is one function."""


class FunctionSampler(IndexSampler):
    """The functions in order, and from the start again if more are asked for than there are.

    BoTorch's own sampler draws functions with replacement, others for each batch: a batch would be preferred for the
    functions that it happened to get.
    """

    def _construct_base_samples(self, posterior: EnsemblePosterior) -> None:
        shape = self.sample_shape
        numbers = torch.arange(shape.numel(), device=posterior.device) % posterior.ensemble_size
        numbers = numbers.reshape(*shape, *(1 for _ in posterior.batch_shape)).expand(*shape, *posterior.batch_shape)
        self.register_buffer("base_samples", numbers)


@GetSampler.register(FunctionPosterior)
def _get_sampler(posterior: FunctionPosterior, sample_shape: torch.Size, **options: Any) -> FunctionSampler:
    return FunctionSampler(sample_shape=sample_shape, **options)
