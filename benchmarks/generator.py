"""The generator, mended: do correlated noise and the energy score make generated functions honest?

    python benchmarks/generator.py                train what is missing, measure, tabulate

Each MPNP starts from the packaged CNP, without the paper's floor, and learns RBF for a few thousand steps. It is judged on
validation tasks: how often do 90% intervals of functionals of generated functions contain the truth, and what do they cost in
log-likelihood? Resampled functions of the same networks stand beside them. Runs are in `runs/generator` and resume; there is
one record per setting in `results/generator`.
"""

import argparse
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from functionals import FUNCTIONALS, SEED, Functions, coverage_of, measure_case, spread_of

from mpnp.diagnostics.cases import Cases
from mpnp.diagnostics.draws import generate_functions, resample_cases
from mpnp.diagnostics.exact import cases_from_gaussian_process
from mpnp.inference.model import FittedModel, load
from mpnp.io.compile_cache import keep_compiled_programs
from mpnp.io.files import environment, read_json, write_atomically, write_json
from mpnp.models.config import ModelSettings
from mpnp.reproduce.tables import markdown
from mpnp.tasks.base import VALIDATION_SEED, fixed_tasks
from mpnp.tasks.registry import find_problem
from mpnp.training.config import RECIPES, RunConfig
from mpnp.training.loop import finish

RESULTS = Path(__file__).parents[1] / "results" / "generator"
RUNS = Path("runs/generator")
START, SIGMA_MIN = "cnp-rbf", 0.005
RECIPE = dataclasses.replace(
    RECIPES["fast"], steps=2_000, batch_size=32, core_share=0.0, validate_every=500, validation_tasks=512, checkpoint_every=100
)
SETTINGS = {
    "as in the paper": ModelSettings(sigma_min=SIGMA_MIN),
    "noise correlation 0.9": ModelSettings(sigma_min=SIGMA_MIN, noise_correlation=0.9),
    "energy weight 0.1": ModelSettings(sigma_min=SIGMA_MIN, energy_weight=0.1),
    "energy weight 1": ModelSettings(sigma_min=SIGMA_MIN, energy_weight=1.0),
    "energy weight 3": ModelSettings(sigma_min=SIGMA_MIN, energy_weight=3.0),
    "noise correlation 0.9, energy weight 1": ModelSettings(sigma_min=SIGMA_MIN, noise_correlation=0.9, energy_weight=1.0),
}


def main() -> None:
    """Train and measure each setting that has no record, then tabulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=100, help="validation tasks to draw functions for (default 100)")
    parser.add_argument("--only", nargs="*", choices=SETTINGS, help="default all, none if empty")
    options = parser.parse_args()
    keep_compiled_programs()
    for name in SETTINGS if options.only is None else options.only:
        if not record_of(name).exists():
            write_json(record_of(name), measure(name, options.tasks))
    records = [read_json(record_of(name)) for name in SETTINGS if record_of(name).exists()]
    table = tabulate(records)
    write_atomically(RESULTS / "table.md", lambda file: file.write(table.encode()))
    print(table)


def record_of(name: str) -> Path:
    """Where the record of a setting is kept."""
    return RESULTS / f"{slug(name)}.json"


def slug(name: str) -> str:
    """The setting as part of a file's name."""
    return name.replace(", ", "-").replace(" ", "-")


def measure(name: str, num_tasks: int) -> dict[str, Any]:
    """Train a setting, then draw functions for validation tasks."""
    config = RunConfig("mpnp", "rbf", recipe=RECIPE, settings=SETTINGS[name], start_from=START)
    run = finish(config, RUNS / slug(name))
    model = load(run.path)
    cases = cases_from_gaussian_process(fixed_tasks(find_problem("rbf").validation, VALIDATION_SEED), "rbf", num_tasks)
    return {
        "kind": "generator",
        "setting": name,
        "config": run.config().to_json(),
        "validation": max(run.learning_curve(), key=lambda row: row["task"]),
        "validation_seed": VALIDATION_SEED,
        "tasks": {
            way: [measure_case(case, functions) for case, functions in zip(cases, drawn, strict=True)]
            for way, drawn in draw_both(model, cases).items()
        },
        "cpu_seconds": run.cpu_seconds(),
        "environment": environment(),
    }


def draw_both(model: FittedModel, cases: Cases) -> dict[str, Iterator[Functions]]:
    """Functions of each case by the generator, and by predictive resampling."""
    return {
        "generated": (prediction.loc[..., 0] for prediction in generate_functions(model, cases)),
        "resampled": (resampled.functions.loc[..., 0] for resampled in resample_cases(model, cases, seed=SEED)),
    }


def tabulate(records: Sequence[dict[str, Any]]) -> str:
    """One row per setting and way to draw functions."""
    header = ["MPNP", "target log-likelihood", "functions", "spread / exact", *FUNCTIONALS]
    rows = []
    for record in records:
        for way, tasks in record["tasks"].items():
            covered = [coverage_of(tasks, name).percent() for name in FUNCTIONALS]
            score = f"{record['validation']['target']:.3f}" if way == "generated" else ""
            name = record["setting"] if way == "generated" else ""
            rows.append([name, score, way, spread_of(tasks).number(2), *covered])
    return markdown(header, rows)


if __name__ == "__main__":
    main()
