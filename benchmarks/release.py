"""Releases: the best model of a finished run in half precision, with test scores of exactly these files.

`benchmarks/pretrained.py` uses it to make the models that come with the package.
"""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from mpnp.errors import RunError
from mpnp.io.files import write_atomically, write_json
from mpnp.training import checkpoint
from mpnp.training.config import TEST_TASKS, Recipe
from mpnp.training.evaluate import evaluate_run
from mpnp.training.rundir import RunDirectory, load_model


def release(directory: Path, out: Path, *, num_tasks: int = TEST_TASKS, num_samples: int = 10) -> dict[str, Any]:
    """Write the best model of a run to `out` in half precision, score it on test tasks, and return the record.

    Files are written to a temporary folder first, so `out` is either complete or absent.
    """
    if out.exists():
        raise RunError(f"{out} exists already; move it, or choose another folder")
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
    """Raise an error if the run has steps left, unless early stopping ended it: its learning rate has not decayed yet."""
    last = max((row["step"] for row in RunDirectory(directory).learning_curve()), default=0)
    impatient = recipe.patience is not None and last - best_step >= recipe.patience * recipe.validate_every
    if last < recipe.steps and not impatient:
        raise RunError(f"{directory} is at step {last:,} of {recipe.steps:,}; finish it with 'mpnp train --resume {directory}'")


def _halved(model: Any) -> Any:
    """The model in half precision; `checkpoint.load` restores single precision."""
    return jax.tree.map(lambda leaf: leaf.astype(jnp.float16) if eqx.is_inexact_array(leaf) else leaf, model)
