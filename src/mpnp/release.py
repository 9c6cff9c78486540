"""Releases: a finished run as small files, with the scores of exactly these, to be shipped and loaded by name."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from mpnp import checkpoint
from mpnp.errors import RunError
from mpnp.evaluate import evaluate_run
from mpnp.recipes import Recipe
from mpnp.records import write_atomically, write_json
from mpnp.runs import RunDirectory, load_model

__all__ = ["release"]


def release(directory: Path, out: Path, *, num_tasks: int = 2_560, num_samples: int = 10) -> dict[str, Any]:
    """Write the best model of a run to `out` in half precision, score it on test tasks, and return that record.

    Everything is made in a folder beside `out` first, so that `out` holds a whole release or is not there.
    """
    if out.exists():
        raise RunError(f"{out} exists already; move it away, or choose another folder")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as scratch:
        unfinished = Path(scratch) / out.name
        _write_model(directory, RunDirectory(unfinished))
        record = evaluate_run(unfinished, num_tasks=num_tasks, num_samples=num_samples)
        write_json(RunDirectory(unfinished).scores(record["task"]), record)
        shutil.move(unfinished, out)
    return record


def _write_model(directory: Path, released: RunDirectory) -> None:
    model, config, card = load_model(directory)
    _require_finished(directory, config.recipe, card["progress"]["best_step"])
    released.create(config)
    checkpoint.save(released.best, _halved(model), card)
    run = RunDirectory(directory)
    rows = run.metrics.read_text().splitlines(keepends=True)
    _write_text(released.metrics, "".join(row for row in rows if "validation" in json.loads(row)))
    _write_text(released.timing, run.timing.read_text())


def _write_text(path: Path, text: str) -> None:
    write_atomically(path, lambda file: file.write(text.encode()))


def _require_finished(directory: Path, recipe: Recipe, best_step: int) -> None:
    """Refuse a run that has steps left: its learning rate has not come down yet. Only lost patience may end one early."""
    last = max((row["step"] for row in RunDirectory(directory).learning_curve()), default=0)
    impatient = recipe.patience is not None and last - best_step >= recipe.patience * recipe.validate_every
    if last < recipe.steps and not impatient:
        raise RunError(f"{directory} is at step {last:,} of {recipe.steps:,}; finish it with 'mpnp train --resume {directory}'")


def _halved(model: Any) -> Any:
    """In half precision, which `checkpoint.load` makes single again."""
    return jax.tree.map(lambda leaf: leaf.astype(jnp.float16) if eqx.is_inexact_array(leaf) else leaf, model)
