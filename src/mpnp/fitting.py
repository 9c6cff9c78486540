"""From curves to a fitted model: split, normalise, choose sizes and steps, train, describe."""

import contextlib
import dataclasses
import math
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from mpnp import devices
from mpnp.assess import Cut, assess, cut_curves
from mpnp.card import ModelCard, Seen
from mpnp.data.curves import Curves
from mpnp.data.learnable import LearningTable
from mpnp.errors import RunError
from mpnp.fit_options import FitOptions
from mpnp.fitted import NUM_SAMPLES, FittedModel, load
from mpnp.model_files import CARD
from mpnp.models.settings import ModelSettings
from mpnp.recipes import Recipe
from mpnp.records import read_json, write_json
from mpnp.runs import RunConfig, RunDirectory, load_model
from mpnp.step import initial_state, make_step
from mpnp.table_files import load_table, save_table
from mpnp.tasks.sources import Problem
from mpnp.tasks.tables import TABLE
from mpnp.train import resume, train
from mpnp.typicality import Reference, half_scores

__all__ = ["SETTINGS", "fit_curves", "has_unfinished_fit", "resume_fit"]

SHARE_OF_TIME = 0.8
"""Of the minutes allowed, what the training steps may take; the rest goes to validation, compiling and the card."""

VALIDATIONS = 25
FEWEST_STEPS, MOST_STEPS = 100, 20_000
REFERENCE_CONTEXTS = 600

TRAINING, PLAN = "training", "plan.json"
"""Where an unfinished fit lives, inside the directory of the model that it makes, and what it is to do."""

CORES = {"mpnp": "cnp", "mpanp": "canp"}
"""Models that a martingale model starts from."""

SHARE_OF_CORE = 0.35
"""Of the time for training, what goes to that first model."""


SETTINGS = ModelSettings(width=64, num_heads=4, sigma_min=0.02)
"""Half the paper's width suits data sets of hundreds of curves; a low floor, because outputs vary by one standard deviation."""


def fit_curves(
    curves: Curves,
    options: FitOptions | None = None,
    *,
    settings: ModelSettings = SETTINGS,
    out: str | Path | None = None,
    quiet: bool = False,
) -> FittedModel:
    """Fit a model to curves; with `out`, save it there, and keep there what is needed to resume until it is done.

    The number of steps depends on the machine's speed unless `steps` is given: give it for a result that can be repeated.
    """
    options = options or FitOptions()
    started = time.monotonic()
    table = LearningTable(curves, options.context, options.validation, options.test, options.seed, options.mixing)
    with _directory(out) as directory:
        stages = _plan(table, options, settings, started)
        for stage in stages:
            save_table(RunDirectory(directory / stage.model).table, table)
        write_json(directory / PLAN, [stage.to_json() for stage in stages])
        return _train(directory, stages, out, quiet)


def resume_fit(out: str | Path, *, quiet: bool = False) -> FittedModel:
    """Continue a fit that was interrupted."""
    directory = Path(out) / TRAINING
    if (Path(out) / CARD).exists() and directory.exists():  # it was stopped while it cleaned up
        shutil.rmtree(directory)
        return load(out)
    if not has_unfinished_fit(out):
        raise RunError(f"{out} holds no unfinished fit; start one with 'mpnp fit'")
    return _train(directory, [RunConfig.from_json(stage) for stage in read_json(directory / PLAN)], out, quiet)


def has_unfinished_fit(out: str | Path) -> bool:
    """Is there something to resume?"""
    return (Path(out) / TRAINING / PLAN).exists()


def _train(directory: Path, stages: Sequence[RunConfig], out: str | Path | None, quiet: bool) -> FittedModel:
    """Go through the stages, from wherever they are, to a model."""
    for stage in stages:
        run = RunDirectory(directory / stage.model)
        if run.last.exists():
            resume(run.path, quiet=quiet)
            continue
        if run.config_file.exists():  # it was stopped before its first checkpoint, and the directory may have moved since
            run.rewind_logs(-1)
            run.config_file.unlink()
        if stage.start_from is not None:
            stage = dataclasses.replace(stage, start_from=str(directory / stage.start_from))
        train(stage, run.path, quiet=quiet)
    model = _describe(directory, stages)
    if out is not None:
        model.save(out)
        shutil.rmtree(directory)
    return model


@contextlib.contextmanager
def _directory(out: str | Path | None) -> Iterator[Path]:
    """Where training lives: inside `out` until it is done, or nowhere that lasts."""
    if out is not None:
        if (Path(out) / CARD).exists():
            raise RunError(f"{out} already holds a model; choose another --out")
        if has_unfinished_fit(out):
            raise RunError(
                f"{out} holds an unfinished fit; continue it with 'mpnp fit --resume {out}', remove {Path(out) / TRAINING}, or "
                "choose another --out"
            )
        yield Path(out) / TRAINING
        return
    with tempfile.TemporaryDirectory(prefix="mpnp-") as temporary:
        yield Path(temporary)


def _plan(table: LearningTable, options: FitOptions, settings: ModelSettings, started: float) -> list[RunConfig]:
    """The runs to make, one after the other, whose steps fit into the time that is left.

    A martingale model starts from the trained model that it is without its generator: that one learns many times faster, and
    its loss is one of the three terms.
    """
    core = CORES.get(options.model)
    shares = {options.model: 1.0} if core is None else {core: SHARE_OF_CORE, options.model: 1 - SHARE_OF_CORE}
    recipe = Recipe(
        steps=options.steps or MOST_STEPS,
        batch_size=options.batch_size,
        num_samples=options.num_samples,
        optimizer=options.optimizer,
        learning_rate=options.learning_rate,
        select_by="target",
        patience=options.patience,
    )
    stages = [
        RunConfig(model, TABLE, options.seed, recipe=recipe, settings=settings, table_dims=table.dims) for model in shares
    ]
    if options.steps is None:
        problem = table.problem()
        costs = [_seconds_a_step(stage, problem) for stage in stages]
        left = 60 * options.max_minutes * SHARE_OF_TIME - (time.monotonic() - started)
        steps = [
            min(max(int(share * left / cost), FEWEST_STEPS), MOST_STEPS)
            for share, cost in zip(shares.values(), costs, strict=True)
        ]
    else:
        steps = [options.steps] * len(stages)
    return [
        _with_steps(stage, count, core if stage.model != core else None) for stage, count in zip(stages, steps, strict=True)
    ]


def _with_steps(stage: RunConfig, steps: int, start_from: str | None) -> RunConfig:
    every = max(1, math.ceil(steps / VALIDATIONS))
    recipe = dataclasses.replace(stage.recipe, steps=steps, validate_every=every, checkpoint_every=every, validation_tasks=512)
    return dataclasses.replace(stage, recipe=recipe, start_from=start_from)


def _seconds_a_step(config: RunConfig, problem: Problem, repeats: int = 4) -> float:
    """Wall seconds, once compiled; training then reuses the compiled step."""
    mesh = devices.batch_mesh(config.recipe.batch_size)
    step, state = make_step(config, problem.training, mesh), devices.replicate(mesh, initial_state(config, problem.training))
    indices = np.arange(config.recipe.batch_size, dtype=np.uint32)
    step(state, indices, 0)[1]["loss"].block_until_ready()
    started = time.monotonic()
    for _ in range(repeats):
        step(state, indices, 0)[1]["loss"].block_until_ready()
    return (time.monotonic() - started) / repeats


def _describe(directory: Path, stages: Sequence[RunConfig]) -> FittedModel:
    """The model of the last stage at its best validation score, with its card."""
    runs = [RunDirectory(directory / stage.model) for stage in stages]
    run = runs[-1]
    network, config, header = load_model(run.path)
    table = load_table(run.table)
    training = table.parts["train"]
    card = ModelCard(
        model=config.model,
        settings=config.settings,
        dims=config.dims,
        columns=table.curves.columns,
        normaliser=table.normaliser,
        seen=Seen(
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
            "stages": {stage.model: stage.recipe.steps for stage in stages},
            "progress": header["progress"],
            "cpu_seconds": sum(run.cpu_seconds() or 0.0 for run in runs),
            "environment": header["environment"],
        },
    )
    return _with_held_out(FittedModel(network, card), table)


def _with_held_out(model: FittedModel, table: LearningTable) -> FittedModel:
    """The model with what held-out curves say about it: its scores, and what contexts are typical."""
    cuts = _cuts(table, "validation")
    if not cuts:
        return model
    contexts = [(x, y) for x, y, _, _ in cuts]
    reference = Reference(
        np.asarray([len(x) for x, _ in contexts]), half_scores(model.predictor(NUM_SAMPLES), model.units, contexts)
    )
    scores = {"validation": assess(model, cuts, num_samples=NUM_SAMPLES)}
    if tested := _cuts(table, "test"):
        scores["test"] = assess(model, tested, num_samples=NUM_SAMPLES)
    card = dataclasses.replace(model.card, reference=reference, about={**model.card.about, **scores})
    return FittedModel(model.network, card)


def _cuts(table: LearningTable, part: str) -> list[Cut]:
    """Contexts of all sizes of the curves of a part."""
    curves = table.parts[part]
    if not len(curves):
        return []
    num_cuts = math.ceil(REFERENCE_CONTEXTS / len(curves))
    return cut_curves(curves, table.context, max_rows=table.max_rows, num_cuts=num_cuts, seed=table.seed)
