"""What a user may decide about a fit."""

import dataclasses
import math

from mpnp.errors import InputError
from mpnp.models.catalogue import find_model
from mpnp.options import option, require_counts, require_seed

__all__ = ["FitOptions"]


@dataclasses.dataclass(frozen=True)
class FitOptions:
    """How a model is fitted to curves. What is left out is chosen from the data and the time allowed."""

    model: str = option("mpanp", "which model ('mpnp models' lists them)")
    context: str = option("random", "which rows are given and which predicted: random ones, or the rest of a curve (prefix)")
    max_minutes: float = option(5.0, "time for training, about, from which the number of steps follows")
    steps: int | None = option(None, "training steps of each stage, instead of as many as the time allows")
    batch_size: int = option(16, "tasks in a step")
    num_samples: int = option(2, "functions sampled for each task in training, K")
    optimizer: str = option("muon", "adam or muon")
    learning_rate: float = option(1e-2, "base learning rate")
    patience: int = option(12, "validations in a row without a better score after which training stops")
    mixing: float = option(0.95, "share of training tasks that blend two curves (of one input), against overfitting; 0: none")
    validation: float = option(0.15, "share of the tasks kept for validation")
    test: float = option(0.0, "share of the tasks kept aside entirely")
    seed: int = option(0, "fixes the split, the initial weights and every draw")

    def __post_init__(self) -> None:
        require_counts(self)
        require_seed(self.seed)
        find_model(self.model)
        if not 0 < self.max_minutes < math.inf:
            raise InputError(f"max_minutes must be positive and finite, got {self.max_minutes}")
        if not 0 <= self.mixing < 1:
            raise InputError(f"mixing must be a share from 0 to less than 1, got {self.mixing}")
