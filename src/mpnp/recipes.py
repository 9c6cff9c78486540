"""Recipes: how long and with what a model is trained. Presets are Python, so reading them is reading the paper's settings."""

import dataclasses

from mpnp.errors import InputError, unknown_name
from mpnp.models.initialisations import INITIALISATIONS
from mpnp.optimizers import OPTIMIZERS
from mpnp.options import option, require_counts
from mpnp.tasks.sources import FULL_SIZE

__all__ = ["LEARNING_RATE_GRID", "RECIPES", "Recipe", "find_recipe"]

SELECTIONS = ("task", "target", "context")
"""Log-likelihoods of a validation: of all points, of those to be predicted, of those given."""

LEARNING_RATE_GRID = tuple(5 * 10**exponent for exponent in (-4.5, -4.25, -4.0, -3.75, -3.5))
"""Base learning rates that the paper tries for each model, keeping the best on validation (appendix C)."""


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How a model is trained; the learning rate follows a cosine to zero. The defaults are the paper's."""

    steps: int = option(100_000, "training steps; the learning rate falls to zero over them")
    batch_size: int = option(256, "tasks in a step")
    num_samples: int = option(10, "functions sampled for each task, K, in training and validation")
    optimizer: str = option("adam", "adam or muon")
    learning_rate: float = option(5e-4, "base learning rate; the paper tries five from 1.6e-4 to 1.6e-3")
    initialisation: str = option(
        "authors", "weights to start with: authors, or spread (first layers bend at points of the data)"
    )
    core_share: float = option(0.0, "share of the steps, the first, in which a martingale model learns as its conditional core")
    validate_every: int = option(1_000, "steps between validations")
    validation_tasks: int = option(FULL_SIZE, "tasks in a validation")
    checkpoint_every: int = option(500, "steps between checkpoints")
    select_by: str = option("task", "validation score that the best model is chosen by: task (the paper's), target or context")
    patience: int | None = option(None, "validations in a row without a better score after which training stops")

    def __post_init__(self) -> None:
        require_counts(self)
        if self.optimizer not in OPTIMIZERS:
            raise unknown_name("optimizer", self.optimizer, OPTIMIZERS, f"Choose one of: {', '.join(OPTIMIZERS)}.")
        if self.select_by not in SELECTIONS:
            raise unknown_name("select_by", self.select_by, SELECTIONS, f"Choose one of: {', '.join(SELECTIONS)}.")
        if self.initialisation not in INITIALISATIONS:
            known = f"Choose one of: {', '.join(INITIALISATIONS)}."
            raise unknown_name("initialisation", self.initialisation, INITIALISATIONS, known)
        if not 0 <= self.core_share < 1:
            raise InputError(f"core_share must be at least 0 and below 1, got {self.core_share}")
        if not 0 < self.learning_rate < float("inf"):
            raise InputError(f"learning_rate must be positive and finite, got {self.learning_rate}")


RECIPES: dict[str, Recipe] = {
    "paper": Recipe(),
    # Small batches: at equal cost, many small steps of Muon learnt more than few large ones, down to where Muon itself is a
    # third of a step. Twice the rate suits pooled models but not attentive ones.
    "fast": Recipe(
        steps=5_000,
        batch_size=64,
        num_samples=4,
        optimizer="muon",
        learning_rate=1e-2,
        initialisation="spread",
        core_share=0.6,
        validate_every=250,
        validation_tasks=1_024,
        checkpoint_every=250,
    ),
    "short": Recipe(
        steps=5_000, batch_size=64, learning_rate=1e-3, validate_every=250, validation_tasks=1_024, checkpoint_every=250
    ),
    "quick": Recipe(
        steps=600,
        batch_size=16,
        num_samples=4,
        learning_rate=1e-3,
        validate_every=50,
        validation_tasks=256,
        checkpoint_every=50,
    ),
}


def find_recipe(name: str) -> Recipe:
    """The preset of that name."""
    if name not in RECIPES:
        raise unknown_name("recipe", name, RECIPES, f"Choose one of: {', '.join(RECIPES)}.")
    return RECIPES[name]
