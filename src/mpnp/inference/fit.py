"""From curves to a fitted model: split, choose the number of steps, train, describe."""

import contextlib
import dataclasses
import math
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mpnp.errors import InputError, RunError, first_line
from mpnp.inference.assess import Cut, assess, cut_curves
from mpnp.inference.card import ModelCard, Reference, TrainingDomain
from mpnp.inference.files import CARD, save_model
from mpnp.inference.model import NUM_SAMPLES, FittedModel, load
from mpnp.inference.ood import half_scores
from mpnp.inference.plan import PLAN, FitPlan
from mpnp.inference.recalibration import recalibrate_if_better
from mpnp.io.locks import exclusive
from mpnp.models.config import ModelSettings
from mpnp.models.registry import find_model
from mpnp.options import option, require_fields, require_seed
from mpnp.tables.curves import Curves
from mpnp.tables.dataset import CurveDataset
from mpnp.tables.storage import load_dataset, save_dataset
from mpnp.tasks.base import Problem
from mpnp.tasks.registry import TABLE
from mpnp.training import sharding
from mpnp.training.config import Recipe, RunConfig
from mpnp.training.loop import finish
from mpnp.training.rundir import RunDirectory, load_model
from mpnp.training.step import initial_state, make_step

__all__ = ["FitOptions", "SETTINGS", "fit_curves", "has_unfinished_fit", "resume_fit", "unfinished_curves", "unfinished_plan"]


@dataclasses.dataclass(frozen=True)
class FitOptions:
    """Options of a fit. Unless `steps` is given, the number of steps follows from `max_minutes`."""

    model: str = option("mpanp", "which model ('mpnp models' lists them)")
    context: str = option("random", "rows to predict from: random ones, or the beginning of a curve (prefix)")
    max_minutes: float = option(5.0, "approximate training time, which determines the number of steps")
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
    seed: int = option(0, "fixes the split, the initial weights and every draw")

    def __post_init__(self) -> None:
        require_fields(self)
        require_seed(self.seed)
        find_model(self.model)
        if not 0 < self.max_minutes < math.inf:
            raise InputError(f"max_minutes must be positive and finite, got {self.max_minutes}")

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


CORE_SHARE = 0.35
"""Fraction of the steps that train only the core of a martingale model. Smaller than in recipes with unlimited tasks, because
on a finite table a core that trains for long overfits."""

SHARE_OF_TIME = 0.8
"""Share of the time allowed for training steps; the rest is for validation, compilation and the card."""

VALIDATIONS = 25
"""Number of validations of the whole model. While only its core is trained, the interval is the same."""

MOST_STEPS = 20_000

TRAINING = "training"
"""The run of an unfinished fit, inside the model's directory."""

SETTINGS = ModelSettings(width=64, num_heads=4, sigma_min=0.02)
"""Half the paper's width suits data sets of hundreds of curves; a low floor, because outputs have standard deviation one."""


def fit_curves(
    curves: Curves,
    options: FitOptions | None = None,
    *,
    settings: ModelSettings = SETTINGS,
    out: str | Path | None = None,
    licence: str | None = None,
    quiet: bool = False,
) -> FittedModel:
    """Fit a model to curves. If `out` is given, save it there; until then, the directory holds what `resume_fit` needs.

    The number of steps depends on the machine's speed; set `steps` for a reproducible result.
    """
    options = options or FitOptions()
    started = time.monotonic()
    table = CurveDataset(curves, options.context, options.validation, options.test, options.seed, options.mixing)
    with _directory(out) as directory:
        plan = FitPlan(_plan_run(table, options, settings, started), dataclasses.asdict(options), licence)
        save_dataset(RunDirectory(directory).table, table)
        plan.write(directory)
        model = _finish(directory, plan, quiet)
        return model if out is None else _keep(model, Path(out))


def resume_fit(out: str | Path, *, licence: str | None = None, quiet: bool = False) -> FittedModel:
    """Continue an interrupted fit. The result is that of an uninterrupted one; a licence may still be added."""
    out = Path(out)
    if not (out / TRAINING).exists():
        raise RunError(f"{out} holds no unfinished fit; start one with 'mpnp fit'")
    with exclusive(out):
        if (out / CARD).exists():  # interrupted while cleaning up
            model = load(out)
            return _keep(model if licence is None else model.licensed(licence), out)
        if (plan := unfinished_plan(out)) is None:
            raise RunError(f"{out} holds a fit that was interrupted before its first step; start it again with 'mpnp fit'")
        if licence is not None:
            plan = dataclasses.replace(plan, licence=licence)
            plan.write(out / TRAINING)
        return _keep(_finish(out / TRAINING, plan, quiet), out)


def unfinished_plan(out: str | Path) -> FitPlan | None:
    """The plan of the fit to resume; None if there is none."""
    if not has_unfinished_fit(out):
        return None
    plan = FitPlan.read(Path(out) / TRAINING)
    try:
        return dataclasses.replace(plan, options=dataclasses.asdict(FitOptions(**plan.options)))
    except (TypeError, InputError) as error:
        raise RunError(f"the plan of {Path(out) / TRAINING} is damaged ({first_line(error)}); restore it from a copy") from None


def has_unfinished_fit(out: str | Path) -> bool:
    """Whether there is a fit to resume."""
    return (Path(out) / TRAINING / PLAN).exists()


def unfinished_curves(out: str | Path) -> Curves:
    """The curves of the fit to resume."""
    return load_dataset(RunDirectory(Path(out) / TRAINING).table).curves


def _finish(directory: Path, plan: FitPlan, quiet: bool) -> FittedModel:
    """Train to the end from the last checkpoint, if any, then describe the model."""
    finish(plan.run, directory, quiet=quiet)
    model = _describe(directory, plan.licence)
    return _with_held_out(model, load_dataset(RunDirectory(directory).table), plan.options["held_out_contexts"])


def _keep(model: FittedModel, out: Path) -> FittedModel:
    """Save a model, then remove its training run."""
    save_model(out, model.network, model.card)
    shutil.rmtree(out / TRAINING)
    return model


@contextlib.contextmanager
def _directory(out: str | Path | None) -> Iterator[Path]:
    """Where the run lives: inside `out` until it is finished, or in a temporary directory."""
    if out is not None:
        with exclusive(Path(out)):
            _require_free(Path(out))
            yield Path(out) / TRAINING
        return
    with tempfile.TemporaryDirectory(prefix="mpnp-") as temporary:
        yield Path(temporary)


def _require_free(out: Path) -> None:
    """Raise an error if the directory holds a model or an unfinished fit."""
    if (out / CARD).exists():
        raise RunError(f"{out} already holds a model; choose another --out")
    if has_unfinished_fit(out):
        raise RunError(
            f"{out} holds an unfinished fit; continue it with 'mpnp fit --resume {out}', remove {out / TRAINING}, or "
            "choose another --out"
        )


def _plan_run(table: CurveDataset, options: FitOptions, settings: ModelSettings, started: float) -> RunConfig:
    """The configuration of the run, with as many steps as fit into the remaining time."""
    config = RunConfig(
        options.model, TABLE, options.seed, recipe=options.recipe(), settings=settings, own_dims=table.columns.dims
    )
    if options.steps is None:
        cost = _seconds_per_step(config, table.problem())
        left = 60 * options.max_minutes * SHARE_OF_TIME - (time.monotonic() - started)
        recipe = dataclasses.replace(config.recipe, steps=min(max(int(left / cost), options.min_steps), MOST_STEPS))
        config = dataclasses.replace(config, recipe=recipe)
    every = math.ceil((config.recipe.steps - config.core_steps) / VALIDATIONS)
    return dataclasses.replace(config, recipe=dataclasses.replace(config.recipe, validate_every=every, checkpoint_every=every))


def _seconds_per_step(config: RunConfig, problem: Problem) -> float:
    """Mean wall-clock seconds per step without compilation. Training reuses the compiled steps."""
    mesh, share = sharding.batch_mesh(config.recipe.batch_size), config.recipe.core_share
    step, state = make_step(config, problem.training, mesh), sharding.replicate(mesh, initial_state(config, problem.training))
    indices = np.arange(config.recipe.batch_size, dtype=np.uint32)

    def seconds(number: int, repeats: int = 4) -> float:
        step(state, indices, number)[1]["loss"].block_until_ready()
        started = time.monotonic()
        for _ in range(repeats):
            step(state, indices, number)[1]["loss"].block_until_ready()
        return (time.monotonic() - started) / repeats

    whole = seconds(config.recipe.steps - 1)
    return share * seconds(0) + (1 - share) * whole if share else whole


def _describe(directory: Path, licence: str | None) -> FittedModel:
    """The model at its best validation score, with its card."""
    network, config, header = load_model(directory)
    run = RunDirectory(directory)
    table = load_dataset(run.table)
    training = table.parts["train"]
    card = ModelCard(
        model=config.model,
        settings=config.settings,
        columns=table.columns,
        seen=TrainingDomain(
            num_tasks=len(training),
            num_rows=len(training.x),
            low=training.x.min(axis=0),
            high=training.x.max(axis=0),
            largest_context=max(table.max_rows - 1, 1),
        ),
        reference=None,
        about={
            "tasks": {name: len(part) for name, part in table.parts.items()},
            "context": table.context,
            "mixing": table.mixing,
            "seed": config.seed,
            "recipe": dataclasses.asdict(config.recipe),
            "progress": header["progress"],
            "cpu_seconds": run.cpu_seconds() or 0.0,
            "environment": header["environment"],
        },
        licence=licence,
    )
    return FittedModel(network, card)


def _with_held_out(model: FittedModel, table: CurveDataset, num_contexts: int) -> FittedModel:
    """Add scores on held-out curves to the card, and reference scores of their contexts."""
    cuts = _cuts(table, "validation", num_contexts)
    if not cuts:
        return model
    model, report = recalibrate_if_better(model, cuts)
    contexts = [(x, y) for x, y, _, _ in cuts]
    reference = Reference(
        np.asarray([len(x) for x, _ in contexts]), half_scores(model.predictor(NUM_SAMPLES), model.card.columns, contexts)
    )
    scores: dict[str, Any] = {"validation": assess(model, cuts, num_samples=NUM_SAMPLES), "recalibration": report}
    if tested := _cuts(table, "test", num_contexts):
        scores["test"] = assess(model, tested, num_samples=NUM_SAMPLES)
    card = dataclasses.replace(model.card, reference=reference, about={**model.card.about, **scores})
    return FittedModel(model.network, card)


def _cuts(table: CurveDataset, part: str, num_contexts: int) -> list[Cut]:
    """About `num_contexts` contexts of all sizes from the curves of a part."""
    curves = table.parts[part]
    if not len(curves):
        return []
    num_cuts = math.ceil(num_contexts / len(curves))
    return cut_curves(curves, table.context, max_rows=table.max_rows, num_cuts=num_cuts, seed=table.seed)
