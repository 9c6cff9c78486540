"""How long a fit trains: the number of steps that a time limit allows, by the CPU time of a step.

CPU time, unlike wall time, hardly depends on what else the machine does. So a fit on a busy machine takes longer,
but learns as much.
"""

import dataclasses
import math
import os
import time
import warnings

import numpy as np

from mpnp.inference.fit_options import MOST_STEPS, FitOptions
from mpnp.models.config import ModelSettings
from mpnp.models.registry import find_model
from mpnp.tables.dataset import CurveDataset
from mpnp.tasks.base import Problem
from mpnp.tasks.registry import TABLE
from mpnp.training import sharding
from mpnp.training.config import RunConfig
from mpnp.training.step import initial_state, make_step

__all__ = ["FEW_STEPS", "FewStepsWarning", "Schedule", "plan_run"]

SHARE_OF_TIME = 0.8
"""Share of the time allowed for training steps; the rest is for validation, compilation, rivals and the card."""

PARALLEL = 0.7
"""Share of the available cores that training keeps busy, on average over models."""

VALIDATIONS = 25
"""Number of validations of the whole model. While only its core is trained, the interval is the same."""

FEW_STEPS = 500
"""Fewer steps than these leave most models undertrained."""

STEPS_PER_DECADE = 10
"""Steps are rounded to so many values between 100 and 1,000, so that measuring the cost again gives the same number."""


class FewStepsWarning(UserWarning):
    """The time limit allows so few steps that the model will be undertrained."""


@dataclasses.dataclass(frozen=True)
class Schedule:
    """The configuration of a run and the CPU seconds that its steps take here; None if they have not been measured."""

    run: RunConfig
    cpu_seconds: float | None

    def describe(self) -> str:
        """The plan, in a sentence."""
        recipe, core = self.run.recipe, find_model(self.run.model).core
        of_core = f", of which the first {self.run.core_steps:,} train its core {core}" if self.run.core_steps else ""
        cost = "" if self.cpu_seconds is None else f"; about {self.cpu_seconds / 60:.1f} CPU-minutes"
        stop = "" if recipe.patience is None else f"; stops early after {recipe.patience} validations without a better score"
        return (
            f"plan: {recipe.steps:,} steps of {recipe.batch_size} tasks for {self.run.model}{of_core}{cost}; "
            f"a validation every {recipe.validate_every:,} steps{stop}"
        )


def plan_run(table: CurveDataset, options: FitOptions, settings: ModelSettings, start_from: str | None) -> Schedule:
    """The configuration of the run, with as many steps as the time limit allows."""
    config = RunConfig(
        options.model, TABLE, options.seed, recipe=options.recipe(), settings=settings, own_dims=table.columns.dims,
        start_from=start_from,
    )  # fmt: skip
    cost = None
    if options.steps is None:
        cost = _cpu_seconds_per_step(config, table.problem())
        steps = _allowed_steps(options, cost)
        config = dataclasses.replace(config, recipe=dataclasses.replace(config.recipe, steps=steps))
        _warn_few(steps, cost)
    steps = config.recipe.steps
    every = math.ceil((steps - config.core_steps) / VALIDATIONS)
    recipe = dataclasses.replace(config.recipe, validate_every=every, checkpoint_every=every)
    return Schedule(dataclasses.replace(config, recipe=recipe), None if cost is None else cost * steps)


def num_cores() -> int:
    """Cores that this process may use, busy or not."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _allowed_steps(options: FitOptions, cpu_seconds: float) -> int:
    """The number of steps that fit into the time limit on idle cores, rounded."""
    budget = 60 * options.max_minutes * SHARE_OF_TIME * max(1.0, PARALLEL * num_cores())
    return min(max(_round_down(budget / cpu_seconds), options.min_steps), MOST_STEPS)


def _round_down(steps: float) -> int:
    """The largest number of the grid that is not above.

    >>> [_round_down(steps) for steps in (100.0, 124.0, 126.0, 1500.0, 0.5)]
    [100, 100, 125, 1258, 1]
    """
    place = math.floor(STEPS_PER_DECADE * math.log10(max(steps, 1)) + 1e-9)
    return int(10 ** (place / STEPS_PER_DECADE) + 1e-9)


def _warn_few(steps: int, cpu_seconds: float) -> None:
    if steps >= FEW_STEPS:
        return
    needed = FEW_STEPS * cpu_seconds / (60 * SHARE_OF_TIME * max(1.0, PARALLEL * num_cores()))
    warnings.warn(
        f"the time allows only {steps:,} training steps, and with fewer than {FEW_STEPS:,} the model will be undertrained; "
        f"allow at least {math.ceil(1.3 * needed)} minutes (--max-minutes), or choose a cheaper model such as --model canp",
        FewStepsWarning,
        stacklevel=4,
    )


def _cpu_seconds_per_step(config: RunConfig, problem: Problem) -> float:
    """Mean CPU seconds per step without compilation. Training reuses the compiled steps."""
    mesh, share = sharding.batch_mesh(config.recipe.batch_size), config.core_steps / config.recipe.steps
    step, state = make_step(config, problem.training, mesh), sharding.replicate(mesh, initial_state(config, problem.training))
    indices = np.arange(config.recipe.batch_size, dtype=np.uint32)

    def seconds(number: int, repeats: int = 6) -> float:
        step(state, indices, number)[1]["loss"].block_until_ready()
        times = []
        for _ in range(repeats):
            started = time.process_time()
            step(state, indices, number)[1]["loss"].block_until_ready()
            times.append(time.process_time() - started)
        return float(np.median(times))

    whole = seconds(config.recipe.steps - 1)
    return share * seconds(0) + (1 - share) * whole if share else whole
