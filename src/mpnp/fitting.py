"""From curves to a fitted model: split, normalise, choose sizes and steps, train, describe."""

import contextlib
import dataclasses
import math
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mpnp import devices
from mpnp.assess import assess, cut_curves
from mpnp.card import ModelCard, Seen
from mpnp.data.curves import Curves
from mpnp.data.learnable import LearningTable
from mpnp.errors import RunError
from mpnp.fit_options import FitOptions
from mpnp.fitted import NUM_SAMPLES, FittedModel
from mpnp.model_files import CARD
from mpnp.models.settings import ModelSettings
from mpnp.recipes import Recipe
from mpnp.runs import RunConfig, RunDirectory, load_model
from mpnp.step import initial_state, make_step
from mpnp.table_files import load_table, save_table
from mpnp.tasks.sources import Problem
from mpnp.tasks.tables import TABLE
from mpnp.train import resume, train
from mpnp.typicality import Reference, half_scores

__all__ = ["SETTINGS", "fit_curves", "resume_fit"]

SHARE_OF_TIME = 0.8
"""Of the minutes allowed, what the training steps may take; the rest goes to validation, compiling and the card."""

VALIDATIONS = 25
FEWEST_STEPS, MOST_STEPS = 100, 20_000
REFERENCE_CONTEXTS = 600

TRAINING = "training"
"""Where an unfinished fit lives, inside the directory of the model that it makes."""


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
    problem = table.problem()
    with _directory(out) as directory:
        config = _plan(table, problem, options, settings, started)
        save_table(RunDirectory(directory).table, table)
        train(config, directory, quiet=quiet)
        return _finish(directory, out)


def resume_fit(out: str | Path, *, quiet: bool = False) -> FittedModel:
    """Continue a fit that was interrupted."""
    directory = Path(out) / TRAINING
    if not RunDirectory(directory).config_file.exists():
        raise RunError(f"{out} holds no unfinished fit; start one with 'mpnp fit'")
    resume(directory, quiet=quiet)
    return _finish(directory, out)


@contextlib.contextmanager
def _directory(out: str | Path | None) -> Iterator[Path]:
    """Where training lives: inside `out` until it is done, or nowhere that lasts."""
    if out is not None:
        if (Path(out) / CARD).exists():
            raise RunError(f"{out} already holds a model; choose another --out")
        if RunDirectory(Path(out) / TRAINING).config_file.exists():
            raise RunError(f"{out} holds an unfinished fit; continue it with 'mpnp fit --resume {out}' or choose another --out")
        yield Path(out) / TRAINING
        return
    with tempfile.TemporaryDirectory(prefix="mpnp-") as temporary:
        yield Path(temporary)


def _plan(table: LearningTable, problem: Problem, options: FitOptions, settings: ModelSettings, started: float) -> RunConfig:
    """The run whose steps fit into the time that is left."""
    recipe = Recipe(
        steps=options.steps or MOST_STEPS,
        batch_size=options.batch_size,
        num_samples=options.num_samples,
        optimizer=options.optimizer,
        learning_rate=options.learning_rate,
        select_by="target",
        patience=options.patience,
    )
    config = RunConfig(options.model, TABLE, options.seed, recipe=recipe, settings=settings, table_dims=table.dims)
    if options.steps is None:
        seconds = _seconds_a_step(config, problem)
        left = 60 * options.max_minutes * SHARE_OF_TIME - (time.monotonic() - started)
        recipe = dataclasses.replace(recipe, steps=min(max(int(left / seconds), FEWEST_STEPS), MOST_STEPS))
    every = max(1, math.ceil(recipe.steps / VALIDATIONS))
    recipe = dataclasses.replace(recipe, validate_every=every, checkpoint_every=every, validation_tasks=512)
    return dataclasses.replace(config, recipe=recipe)


def _seconds_a_step(config: RunConfig, problem: Problem, repeats: int = 4) -> float:
    """Wall seconds, once compiled; training then reuses the compiled step."""
    mesh = devices.batch_mesh(config.recipe.batch_size)
    step, state = make_step(config, problem.training, mesh), devices.replicate(mesh, initial_state(config))
    indices = np.arange(config.recipe.batch_size, dtype=np.uint32)
    step(state, indices, 0)[1]["loss"].block_until_ready()
    started = time.monotonic()
    for _ in range(repeats):
        step(state, indices, 0)[1]["loss"].block_until_ready()
    return (time.monotonic() - started) / repeats


def _finish(directory: Path, out: str | Path | None) -> FittedModel:
    """The model at its best validation score, with its card; saved in place of the training files."""
    run = RunDirectory(directory)
    network, config, header = load_model(directory)
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
            "progress": header["progress"],
            "cpu_seconds": run.cpu_seconds(),
            "environment": header["environment"],
        },
    )
    model = _with_held_out(FittedModel(network, card), table)
    if out is not None:
        model.save(out)
        shutil.rmtree(directory)
    return model


def _with_held_out(model: FittedModel, table: LearningTable) -> FittedModel:
    """The model with what the validation curves say about it: its scores, and what contexts are typical."""
    held_out = table.parts["validation"]
    cuts = cut_curves(
        held_out,
        table.context,
        max_rows=table.max_rows,
        num_cuts=math.ceil(REFERENCE_CONTEXTS / len(held_out)),
        seed=table.seed,
    )
    if not cuts:
        return model
    contexts = [(x, y) for x, y, _, _ in cuts]
    reference = Reference(
        np.asarray([len(x) for x, _ in contexts]), half_scores(model.predictor(NUM_SAMPLES), model.units, contexts)
    )
    scores = assess(model, cuts, num_samples=NUM_SAMPLES)
    card = dataclasses.replace(model.card, reference=reference, about={**model.card.about, "validation": scores})
    return FittedModel(model.network, card)
