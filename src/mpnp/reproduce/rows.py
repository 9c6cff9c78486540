"""Rows of experiments, and the training runs behind them."""

import dataclasses
from typing import Any

from mpnp.errors import InputError
from mpnp.models.config import ModelSettings
from mpnp.reproduce.budgets import Effort
from mpnp.training.config import Recipe, RunConfig

__all__ = ["ExperimentRow", "Run"]


@dataclasses.dataclass(frozen=True)
class Run:
    """Everything that determines a training run. Unlike a `RunConfig` it is not validated, which would take 0.2 s each."""

    model: str
    task: str
    seed: int
    recipe: Recipe
    settings: ModelSettings
    num_tasks: int | None = None

    @property
    def name(self) -> str:
        """Path of the run, and of its records, relative to the folders of the budget."""
        default, parts = ModelSettings(), [f"{self.model}-seed{self.seed}-rate{self.recipe.learning_rate:g}"]
        parts.append(f"steps{self.recipe.steps}")
        if self.num_tasks is not None:
            parts.append(f"tasks{self.num_tasks}")
        if self.settings.encoder_width is not None:
            parts.append(f"width{self.settings.encoder_width}")
        if self.settings.num_pseudo != default.num_pseudo:
            parts.append(f"pseudo{self.settings.num_pseudo}")
        return f"{self.task}/{'-'.join(parts)}"

    def config(self) -> RunConfig:
        """The validated configuration for the training loop."""
        return RunConfig(self.model, self.task, self.seed, self.num_tasks, self.recipe, self.settings)

    def agrees_with(self, config: dict[str, Any]) -> bool:
        """Whether a recorded configuration is this run's. Options missing from older records take their defaults."""
        try:
            return Run.from_json({field.name: config[field.name] for field in dataclasses.fields(self)}) == self
        except (KeyError, TypeError, InputError):
            return False

    @staticmethod
    def from_json(content: dict[str, Any]) -> "Run":
        """Read what `dataclasses.asdict` made."""
        return Run(**{**content, "recipe": Recipe(**content["recipe"]), "settings": ModelSettings(**content["settings"])})


@dataclasses.dataclass(frozen=True)
class ExperimentRow:
    """A model trained on one task and tested on one, usually the same."""

    model: str
    task: str
    group: str
    tested_on: str
    settings: ModelSettings
    num_tasks: int | None = None

    @property
    def label(self) -> str:
        """The model, and how its settings differ from the paper's defaults."""
        parts = [self.model]
        if self.settings.encoder_width is not None:
            parts.append(f"encoder width {self.settings.encoder_width}")
        if self.settings.num_pseudo != ModelSettings().num_pseudo:
            parts.append(f"{self.settings.num_pseudo} pseudo points")
        if self.num_tasks is not None:
            parts.append(f"{self.num_tasks:,} tasks")
        return ", ".join(parts)

    def run(self, effort: Effort, seed: int, rate: float) -> Run:
        """The training run of this row."""
        return Run(self.model, self.task, seed, effort.full(rate), self.settings, self.num_tasks)

    def trials(self, effort: Effort) -> list[Run]:
        """Runs that choose the learning rate; empty if there is only one rate.

        Models trained on finite sets use the rate that was best with an endless stream of tasks.
        """
        if len(effort.rates) == 1:
            return []
        return [Run(self.model, self.tried_on(effort), 0, effort.trial(rate), self.settings) for rate in effort.rates]

    def tried_on(self, effort: Effort) -> str:
        """The task on which learning rates are tried."""
        return effort.tried_on or self.task
