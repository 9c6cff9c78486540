"""Recalibrate packaged models: correct their standard deviations by what validation tasks teach, and score them anew.

    python benchmarks/recalibrate.py canp-rbf-low mpanp-rbf-low

The correction is learnt on validation tasks, never on test tasks. It is kept if it raises the log-likelihood of validation
tasks: each half is scored with the correction learnt on the other. `calibration.json` in the model's folder holds it, and the
record of the scores holds those before and after, on the same test tasks. Then run `benchmarks/pretrained.py --draw-only`.
"""

import argparse
from pathlib import Path
from typing import Any

from mpnp.diagnostics.cases import cases_from_source
from mpnp.inference.assess import Cut
from mpnp.inference.model import load
from mpnp.inference.recalibration import calibrate_if_better
from mpnp.io.compile_cache import keep_compiled_programs
from mpnp.io.files import environment, read_json, write_json
from mpnp.tasks.base import VALIDATION_SEED, fixed_tasks
from mpnp.tasks.registry import find_problem
from mpnp.training.evaluate import evaluate_run
from mpnp.training.rundir import PRETRAINED, RunDirectory

NUM_TASKS = 2_000


def main() -> None:
    """Recalibrate each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="names of packaged models")
    parser.add_argument("--tasks", type=int, default=NUM_TASKS, help=f"validation tasks to learn from (default {NUM_TASKS:,})")
    options = parser.parse_args()
    keep_compiled_programs()
    for name in options.models:
        report = recalibrate(PRETRAINED / name, options.tasks)
        print(f"{name}: log-likelihood of validation tasks {report['before']:.4f} before, {report['after']:.4f} after")


def recalibrate(directory: Path, num_tasks: int) -> dict[str, float]:
    """Learn the correction of a run; keep it, with new scores, if it helps. Returns the validation scores before and after."""
    model, run = load(directory).uncalibrated(), RunDirectory(directory)
    task = model.card.about["task"]
    cuts = validation_cuts(task, num_tasks)
    calibration, report, _ = calibrate_if_better(model.card.columns, model.answer_cuts(cuts), cuts)
    if report is None:
        raise SystemExit(f"{num_tasks} validation tasks are too few to learn from")
    if calibration is not None:
        about = {"task": task, "validation_seed": VALIDATION_SEED, "num_tasks": num_tasks, "environment": environment()}
        write_json(run.calibration_file, {"calibration": calibration.to_json(), "report": report, **about})
        score_again(run, task)
    return report


def validation_cuts(task: str, num_tasks: int) -> list[Cut]:
    """Contexts and targets of validation tasks."""
    cases = cases_from_source(fixed_tasks(find_problem(task).validation, VALIDATION_SEED), task, num_tasks)
    return [Cut(case.x_context, case.y_context, case.x_target, case.y_target) for case in cases]


def score_again(run: RunDirectory, task: str) -> None:
    """Score a recalibrated run on the test tasks of its record, which keeps the scores without the correction."""
    before: dict[str, Any] = read_json(run.scores(task))
    counts = {name: before["evaluation"][name] for name in ("num_tasks", "num_samples")}
    after = evaluate_run(run.path, **counts)
    kept = {"training": before["training"], "uncalibrated": before.get("uncalibrated", before["scores"])}
    write_json(run.scores(task), after | kept)


if __name__ == "__main__":
    main()
