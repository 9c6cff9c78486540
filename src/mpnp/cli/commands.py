"""What each command does, given its options."""

import argparse
import dataclasses
import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax

from mpnp import checkpoint, devices
from mpnp.cli.scores import score_table
from mpnp.cli.table import format_table
from mpnp.errors import InputError
from mpnp.evaluate import evaluate_run, problem_for, with_num_pseudo
from mpnp.models.catalogue import MODELS, build, num_parameters
from mpnp.models.settings import ModelSettings
from mpnp.recipes import Recipe, find_recipe
from mpnp.records import write_json
from mpnp.runs import RunConfig, RunDirectory, find_run, load_model
from mpnp.tasks.catalogue import STORED_TASKS, TASKS
from mpnp.train import resume as resume_run
from mpnp.train import train as train_run

__all__ = ["evaluate", "given", "list_models", "list_tasks", "plot", "train"]


def train(options: argparse.Namespace) -> None:
    """Train a new run, or continue one."""
    _join_others(options)
    if options.resume is None:
        config = _new_config(options)
        out = options.out or Path("runs") / f"{config.model}-{config.task.replace(':', '.')}-{config.seed}"
        run = lambda: train_run(config, out, quiet=options.quiet)  # noqa: E731 (the two cases differ in this alone)
    else:
        out, config = options.resume, RunDirectory(options.resume).config()
        _check_resume(options, config)
        run = lambda: resume_run(out, quiet=options.quiet)  # noqa: E731
    if options.coordinator is None:  # otherwise the devices of all processes must divide the batch: the user decides on them
        devices.split_cpu(config.recipe.batch_size)
    try:
        run()
    except KeyboardInterrupt:
        kept = "saved" if RunDirectory(out).last.exists() else "nothing to save yet"
        print(f"{kept}; continue with: mpnp train --resume {out}")
        raise
    progress = checkpoint.read_card(RunDirectory(out).best)["progress"]
    print(
        f"done: best validation log-likelihood a point {progress['best_score']:.4f} at step {progress['best_step']}, "
        f"in {out}; score it with: mpnp evaluate {out}"
    )


def evaluate(options: argparse.Namespace) -> None:
    """Score a run, write the record and show it."""
    record = evaluate_run(
        options.directory,
        task=options.task,
        num_tasks=options.num_tasks,
        num_samples=options.num_samples,
        num_pseudo=options.num_pseudo,
    )
    out = options.out or RunDirectory(_beside(options.directory)).scores(record["task"])
    write_json(out, record)
    print(json.dumps(record, indent=2) if options.json else f"{score_table(record)}\nrecord: {out}")


def plot(options: argparse.Namespace) -> None:
    """Draw the posterior of a run."""
    from mpnp import pictures  # here, because matplotlib takes half a second to import
    from mpnp.plot import plot_posterior

    out = options.out or _beside(options.directory) / "posterior.png"
    pictures.picture_format(out)  # a name that cannot be written is refused before the work, not after
    model, config, card = load_model(options.directory)
    model = with_num_pseudo(model, options.num_pseudo)
    task = options.task or config.task
    family = problem_for(model, task).test
    num_samples = config.recipe.num_samples if options.num_samples is None else options.num_samples
    figure = plot_posterior(model, family, num_samples=num_samples, seed=options.seed)
    shown_on = "" if task == config.task else f", shown on {task}"
    step = f"step {card['progress']['best_step']:,} of {config.recipe.steps:,}"
    figure.suptitle(f"{config.model} trained on {config.task}{shown_on}: {step}")
    pictures.save_figure(figure, out)
    print(f"wrote {out}")


def _beside(run: Path) -> Path:
    """Where a command writes unless told: into the run, or for one that comes with the package into `runs`."""
    return run if find_run(run) == run else Path("runs") / run


def list_models(options: argparse.Namespace) -> None:
    """Every model of the catalogue."""
    rows = [
        {
            "name": name,
            "parameters": num_parameters(jax.eval_shape(functools.partial(build, name), key=jax.random.key(0))),
            "title": entry.title,
            "uncertainty": entry.uncertainty,
        }
        for name, entry in MODELS.items()
    ]
    _print_listing(rows, options.json)


def list_tasks(options: argparse.Namespace) -> None:
    """Every task family of the catalogue."""
    rows = [
        {"name": name, "x_dim": entry.dims[0], "y_dim": entry.dims[1], "description": entry.description}
        for name, entry in (TASKS | STORED_TASKS).items()
    ]
    _print_listing(rows, options.json)


def _print_listing(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    cells = [[f"{value:,}" if isinstance(value, int) else value for value in row.values()] for row in rows]
    print(format_table(list(rows[0]), cells))


def given(options: argparse.Namespace, kind: type) -> dict[str, Any]:
    """The fields of a dataclass that the user set on the command line."""
    values = {field.name: getattr(options, field.name, None) for field in dataclasses.fields(kind)}
    return {name: value for name, value in values.items() if value is not None}


def _join_others(options: argparse.Namespace) -> None:
    given = [options.coordinator, options.num_processes, options.process_id]
    if any(value is not None for value in given):
        if any(value is None for value in given):
            raise InputError("several processes need --coordinator, --num-processes and --process-id, all three of them")
        devices.join(*given)


def _new_config(options: argparse.Namespace) -> RunConfig:
    if options.model is None:
        raise InputError("which model? Pass --model NAME ('mpnp models' lists them), or --resume RUN to continue a run")
    top = {name: getattr(options, name) for name in ("task", "seed", "num_tasks", "start_from")}
    return RunConfig(
        model=options.model,
        recipe=dataclasses.replace(find_recipe(options.recipe or "short"), **given(options, Recipe)),
        settings=ModelSettings(**given(options, ModelSettings)),
        **{name: value for name, value in top.items() if value is not None},
    )


def _check_resume(options: argparse.Namespace, stored: RunConfig) -> None:
    """Whatever the user repeats on the command line must agree with the run; it cannot be changed in mid-course."""
    if options.out is not None and options.out.resolve() != options.resume.resolve():
        raise InputError(f"--resume continues in {options.resume} itself; leave out --out {options.out}")
    recipe = given(options, Recipe)
    if options.recipe is not None:
        recipe = dataclasses.asdict(find_recipe(options.recipe)) | recipe
    _require_equal(given(options, RunConfig) | {"recipe": None}, dataclasses.asdict(stored), options.resume)
    _require_equal(recipe, dataclasses.asdict(stored.recipe), options.resume)
    _require_equal(given(options, ModelSettings), dataclasses.asdict(stored.settings), options.resume)


def _require_equal(given: Mapping[str, Any], stored: Mapping[str, Any], directory: Path) -> None:
    for name, value in given.items():
        if value is not None and stored[name] != value:
            flag = f"--{name.replace('_', '-')}"
            raise InputError(
                f"{directory} was started with {flag} {stored[name]}, not {value}; leave {flag} out to continue it, or "
                "start a new run with --out"
            )
