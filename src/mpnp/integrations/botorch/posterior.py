"""An ensemble of functions, and a sampler that uses all of them equally often."""

from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from botorch.posteriors.ensemble import EnsemblePosterior  # pyright: ignore[reportMissingImports]
from botorch.sampling.get_sampler import GetSampler  # pyright: ignore[reportMissingImports]
from botorch.sampling.index_sampler import IndexSampler  # pyright: ignore[reportMissingImports]
from torch import Tensor  # pyright: ignore[reportMissingImports]

__all__ = ["FunctionPosterior", "FunctionSampler"]


class FunctionPosterior(EnsemblePosterior):
    """Values of equally likely functions. The k-th member is the same function in every batch and call.

    Samplers of normal numbers, such as BoTorch's Sobol sampler, choose functions by one number each, the same in all batches.
    """

    @property
    def base_sample_shape(self) -> torch.Size:
        return torch.Size([*self.batch_shape, 1, 1])

    @property
    def batch_range(self) -> tuple[int, int]:
        return 0, -2

    def rsample_from_base_samples(self, sample_shape: torch.Size, base_samples: Tensor) -> Tensor:
        if base_samples.is_floating_point():
            levels = torch.special.ndtr(base_samples[..., 0, 0])
            base_samples = (levels * self.ensemble_size).long().clamp(max=self.ensemble_size - 1)
        return super().rsample_from_base_samples(sample_shape, base_samples)

    def scaled(self, weight: Any, offset: float) -> "FunctionPosterior":
        """The same functions times a weight, plus an offset."""
        return FunctionPosterior(offset + weight * self.values)


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
