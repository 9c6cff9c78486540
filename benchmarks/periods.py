"""Validation scores of an STNP by its number of candidate periods, which needs no training; release the model with the best.

    python benchmarks/periods.py runs/stnp-periodic-2 --periods 320 480 640 --out results/weights/stnp-periodic

Writes the released model, scored on test tasks, and the record of the choice to OUT.
"""

import argparse
import dataclasses
import shutil
import tempfile
from pathlib import Path

import equinox as eqx
import numpy as np
from release import release

from mpnp.evaluation.scoring import make_scorer
from mpnp.io.files import environment, write_json
from mpnp.models.base import AbstractNeuralProcess
from mpnp.tasks.base import VALIDATION_SEED, fixed_tasks
from mpnp.tasks.registry import find_family
from mpnp.training import checkpoint
from mpnp.training.rundir import RunDirectory, load_model

VALIDATION_TASKS, TEST_TASKS = 1_024, 10_240


def main() -> None:
    """Score, record and release."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a finished run of an stnp")
    parser.add_argument("--periods", type=int, nargs="+", required=True, help="numbers of candidate periods to compare")
    parser.add_argument("--out", type=Path, required=True, help="where to write the released model")
    options = parser.parse_args()
    model, config, card = load_model(options.run)
    scores = {number: validate(with_periods(model, number), config.task) for number in options.periods}
    best = max(scores, key=scores.__getitem__)
    changed = dataclasses.replace(config, settings=dataclasses.replace(config.settings, num_periods=best))
    with tempfile.TemporaryDirectory() as scratch:
        run = RunDirectory(shutil.copytree(options.run, Path(scratch) / "run"))
        write_json(run.config_file, changed.to_json())
        checkpoint.save(run.best, model, {**card, "config": changed.to_json()})
        release(run.path, options.out, num_tasks=TEST_TASKS)
    record = {"kind": "periods", "validation_tasks": VALIDATION_TASKS, "target": scores, "chosen": best}
    write_json(options.out / "periods.json", {**record, "environment": environment()})
    print(record)


def with_periods(model: AbstractNeuralProcess, number: int) -> AbstractNeuralProcess:
    """The same weights with another number of candidate periods."""
    return eqx.tree_at(lambda whole: whole.backbone, model, dataclasses.replace(model.backbone, num_periods=number))


def validate(model: AbstractNeuralProcess, task: str) -> float:
    """Mean target log-likelihood on validation tasks."""
    score = make_scorer(fixed_tasks(find_family(task), VALIDATION_SEED), num_samples=1)
    return float(np.mean(score(model, VALIDATION_TASKS)["target"]))


if __name__ == "__main__":
    main()
