"""Joint log-likelihood of all targets of a task, by the chain rule, beside the mixture of functions and the exact process.

    python benchmarks/joint.py --tasks 200          what the records lack; then the table

Tasks are those of `benchmarks/functionals.py` on RBF. Packaged weights are used where there are some, else those of the run
`results/weights/<model>-rbf`, else those of a run of your own:

    for model in np bnp anp banp; do
        mpnp train --model $model --task rbf --recipe fast --steps 1500 --out runs/joint/$model
    done

Models without weights are left out. One record per model in `results/joint`, with the densities of each task.
"""

import argparse
import dataclasses
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from functionals import SEED, draw_cases

from mpnp.diagnostics.calibration import predict_targets
from mpnp.diagnostics.estimate import cluster_mean
from mpnp.diagnostics.joint import CHAIN, EXACT, EXACT_MARGINALS, MARGINALS, MIXTURE, joint_densities
from mpnp.inference.model import load
from mpnp.io.compile_cache import keep_compiled_programs
from mpnp.io.files import environment, read_json, write_atomically, write_json
from mpnp.reproduce.tables import markdown
from mpnp.training.rundir import PRETRAINED, RunDirectory

RESULTS = Path(__file__).parents[1] / "results" / "joint"
WEIGHTS = RESULTS.parent / "weights"
RUNS = Path("runs/joint")
MODELS = ("cnp", "np", "bnp", "mpnp", "canp", "anp", "banp", "mpanp", "tnp")
"""The paper's eight models and the transformer."""

WITHOUT_FLOOR = ("canp-rbf-low", "mpanp-rbf-low", "tnp-rbf-low")
CHUNK = 20
"""Tasks between two saves."""


def main() -> None:
    """Measure what has no record yet, then tabulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=200, help="tasks per model (default 200)")
    parser.add_argument("--only", nargs="*", help="names of models; default all, none if empty")
    options = parser.parse_args()
    keep_compiled_programs()
    warnings.simplefilter("ignore")  # unusual contexts count like any other here
    names = [*MODELS, *WITHOUT_FLOOR]
    for name in names if options.only is None else options.only:
        if (weights := find_weights(name)) is not None:
            extend_record(name, weights, options.tasks)
    records = [read_json(path) for name in names if (path := RESULTS / f"{name}.json").exists()]
    table = tabulate(records)
    write_atomically(RESULTS / "table.md", lambda file: file.write(table.encode()))
    print(table)


def find_weights(name: str) -> Path | None:
    """The packaged model, or the run, of this name."""
    for path in (PRETRAINED / name, PRETRAINED / f"{name}-rbf", WEIGHTS / f"{name}-rbf", RUNS / name):
        if path.is_dir():
            return path
    return None


def extend_record(name: str, weights: Path, num_tasks: int) -> None:
    """Measure the tasks that the record of a model lacks."""
    path, model = RESULTS / f"{name}.json", load(weights)
    recipe = RunDirectory(weights).config().recipe
    start = {
        "kind": "joint",
        "model": name,
        "packaged": weights.parent == PRETRAINED,
        "steps": recipe.steps,
        "sigma_min": model.card.settings.sigma_min,
        "protocol": {"task": "rbf", "seed": SEED},
        "cpu_seconds": 0.0,
        "tasks": [],
    }
    record: dict[str, Any] = read_json(path) if path.exists() else start
    cases = draw_cases("rbf", SEED, num_tasks)
    for first in range(len(record["tasks"]), num_tasks, CHUNK):
        started = time.process_time()
        some = dataclasses.replace(cases, items=cases.items[first : min(first + CHUNK, num_tasks)])
        found = joint_densities(model, some, predict_targets(model, some), seed=SEED, quiet=True)
        record["tasks"] += [dict(zip(found, row, strict=True)) for row in np.stack(list(found.values()), axis=1).tolist()]
        record["cpu_seconds"] += time.process_time() - started
        write_json(path, record | {"environment": environment()})


def tabulate(records: Sequence[dict[str, Any]]) -> str:
    """One row per model, and one for the exact process."""
    header = ["model", "smallest std", "training steps", "tasks", *(f"{way}" for way in (CHAIN, MIXTURE, MARGINALS))]
    rows = []
    for record in records:
        name = f"`{find_name(record)}`" if record["packaged"] else record["model"]
        cells = [_cell(record["tasks"], way) for way in (CHAIN, MIXTURE, MARGINALS)]
        rows.append([name, f"{record['sigma_min']:g}", f"{record['steps']:,}", f"{len(record['tasks']):,}", *cells])
    if records:
        tasks = max((record["tasks"] for record in records), key=len)
        rows.append(
            ["exact GP, kernel known", "", "", f"{len(tasks):,}", _cell(tasks, EXACT), "", _cell(tasks, EXACT_MARGINALS)]
        )
    return markdown(header, rows)


def find_name(record: dict[str, Any]) -> str:
    """The name under which a packaged model is loaded."""
    return record["model"] if record["model"] in WITHOUT_FLOOR else f"{record['model']}-rbf"


def _cell(tasks: Sequence[dict[str, float]], way: str) -> str:
    return cluster_mean(np.asarray([task[way] for task in tasks]), np.arange(len(tasks))).number()


if __name__ == "__main__":
    main()
