"""Options of a fit, and the defaults that suit small data sets."""

import dataclasses
import math

from mpnp.errors import InputError, unknown_name
from mpnp.inference.pretrained import PRETRAINED
from mpnp.models.config import ModelSettings
from mpnp.models.registry import find_model
from mpnp.options import option, require_fields, require_seed
from mpnp.rivals.registry import RIVALS
from mpnp.training.config import Recipe

__all__ = ["MOST_STEPS", "SETTINGS", "FitOptions"]

MOST_STEPS = 20_000

CORE_SHARE = 0.35
"""Fraction of the steps that train only the core of a martingale model. Smaller than in recipes with unlimited tasks, because
on a finite table a core that trains for long overfits."""

SETTINGS = ModelSettings(width=64, num_heads=4, sigma_min=0.02)
"""Half the paper's width suits data sets of hundreds of curves; a low floor, because outputs have standard deviation one."""

COMPARED = (*RIVALS, PRETRAINED)
ALL_RIVALS = ",".join(COMPARED)


@dataclasses.dataclass(frozen=True)
class FitOptions:
    """Options of a fit. Unless `steps` is given, the number of steps follows from `max_minutes` and the CPU time of a step."""

    model: str = option("mpanp", "which model ('mpnp models' lists them)")
    context: str = option("random", "rows to predict from: random ones, or the beginning of a curve (prefix)")
    max_minutes: float = option(5.0, "training time on idle cores, which determines the number of steps by their CPU time")
    steps: int | None = option(None, "training steps (default: as many as the time allows)")
    min_steps: int = option(100, "minimum number of training steps, even if they take longer")
    batch_size: int = option(16, "tasks per step")
    num_samples: int = option(2, "functions sampled per task in training, K")
    optimizer: str = option("muon", "adam or muon")
    learning_rate: float = option(1e-2, "base learning rate")
    patience: int = option(12, "training stops after this many validations without a better score")
    mixing: float = option(0.95, "share of training tasks that blend two curves (of one input), against overfitting; 0: none")
    validation: float = option(0.15, "share of the tasks kept for validation")
    test: float = option(0.0, "share of the tasks held out for a final test")
    held_out_contexts: int = option(600, "contexts cut from held-out tasks to score the model and to detect unusual contexts")
    rivals: str = option(ALL_RIVALS, f"simple forecasts to compare with, among {ALL_RIVALS}; none: no comparison")
    seed: int = option(0, "fixes the split, the initial weights and every draw")

    def __post_init__(self) -> None:
        require_fields(self)
        require_seed(self.seed)
        find_model(self.model)
        if not 0 < self.max_minutes < math.inf:
            raise InputError(f"max_minutes must be positive and finite, got {self.max_minutes}")
        if not 0 <= self.mixing < 1:
            raise InputError(f"mixing must be at least 0 and below 1, got {self.mixing}")
        for name in self.rival_names:
            if name not in COMPARED:
                raise unknown_name("rival", name, COMPARED, f"Choose none, or some of: {ALL_RIVALS}.")

    @property
    def rival_names(self) -> tuple[str, ...]:
        """The rivals to compare with."""
        return () if self.rivals.strip() == "none" else tuple(name.strip() for name in self.rivals.split(","))

    def recipe(self) -> Recipe:
        """The training recipe, with the maximum number of steps."""
        return Recipe(
            steps=self.steps or MOST_STEPS,
            batch_size=self.batch_size,
            num_samples=self.num_samples,
            optimizer=self.optimizer,
            learning_rate=self.learning_rate,
            core_share=0.0 if find_model(self.model).core is None else CORE_SHARE,
            validation_tasks=512,
            select_by="target",
            patience=self.patience,
        )
