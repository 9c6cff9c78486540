"""The best scores that any model can reach on average: exact inference with the prior known.

    python benchmarks/ceilings.py [--tasks NAME ...] [--num-tasks N]

Computed on the test tasks of `mpnp evaluate`. Existing records are skipped, so rerunning resumes. Writes one record per task
family, and a table, to `results/ceilings`.
"""

import argparse
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Integer

from mpnp.errors import InputError
from mpnp.evaluation.ceilings.gaussian import NUM_REPRESENTATIVES, inferred_scores, uniform_gaussian_process
from mpnp.evaluation.ceilings.quadrature import quadrature_for
from mpnp.evaluation.ceilings.student_t import NUM_BURN_IN, NUM_CHAINS, NUM_DRAWS, SampledScores, Scores, sampled_scores
from mpnp.evaluation.metrics import summarise
from mpnp.evaluation.oracle import has_oracle, oracle_scores
from mpnp.io.files import environment, read_json, write_atomically, write_json
from mpnp.reproduce.tables import markdown
from mpnp.tasks.base import TEST_SEED, TaskSource, fixed_tasks
from mpnp.tasks.protocol import FULL_SIZE
from mpnp.tasks.registry import find_family

RESULTS = Path(__file__).parents[1] / "results" / "ceilings"
TASKS = ("rbf", "matern", "periodic", "rbf-4d", "t-noise")
COLUMNS = ("context", "target", "task", "joint")


def main() -> None:
    """Make the records that are missing, then tabulate all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS)
    parser.add_argument("--num-tasks", type=int, default=500)
    options = parser.parse_args()
    for task in options.tasks:
        if not (path := RESULTS / f"{task}.json").exists():
            write_json(path, ceiling_record(task, num_tasks=options.num_tasks))
        elif (found := read_json(path)["evaluation"]["num_tasks"]) != options.num_tasks:
            print(f"{path.name} is of {found} tasks and stays; delete it to make one of {options.num_tasks}")
    table = tabulate([read_json(path) for task in TASKS if (path := RESULTS / f"{task}.json").exists()])
    write_atomically(RESULTS / "table.md", lambda file: file.write(table.encode()))
    print(table)


def ceiling_record(task: str, *, num_tasks: int, num_oracle: int = FULL_SIZE, sigma_min: float = 0.1) -> dict[str, Any]:
    """Scores of the best predictors on the first test tasks of a family, with known and with inferred kernels.

    Where the exact posterior has a closed form, both are extrapolated to the first `num_oracle` tasks.
    """
    if num_tasks < 1:
        raise InputError(f"num_tasks must be at least 1, got {num_tasks}")
    source, indices = fixed_tasks(find_family(task), TEST_SEED), np.arange(num_tasks, dtype=np.uint32)
    started = time.process_time()
    if has_oracle(source.family):
        found = _by_quadrature(source, indices, sigma_min)
        found["carried_over"] = _carried_over(source, num_oracle, sigma_min, found["known_minus_inferred"])
    else:
        found = _by_sampling(source, indices, sigma_min)
    return {
        "kind": "ceiling",
        "task": task,
        "sigma_min": sigma_min,
        **found,
        "evaluation": {
            "test_seed": TEST_SEED,
            "num_tasks": num_tasks,
            "cpu_seconds": round(time.process_time() - started, 3),
            "environment": environment(),
        },
    }


def _by_quadrature(source: TaskSource, indices: Integer[np.ndarray, " task"], sigma_min: float) -> dict[str, Any]:
    prior, _ = uniform_gaussian_process(source.family)
    quadrature = quadrature_for(prior)
    inferred = inferred_scores(source, indices, quadrature, sigma_min=sigma_min)
    known = {"exact": oracle_scores(source, indices), "floored": oracle_scores(source, indices, sigma_min=sigma_min)}
    known = {floor: {name: known[floor][name] for name in scores} for floor, scores in inferred.items()}
    method = {
        "name": "adaptive quadrature",
        "first_cells": [len(side) - 1 for side in quadrature.edges],
        "rounds": quadrature.num_rounds,
        "cells_split": quadrature.num_split,
        "representatives": NUM_REPRESENTATIVES,
    }
    return {"method": method, **_summaries(known, inferred)}


def _carried_over(source: TaskSource, num_oracle: int, sigma_min: float, cost: dict[str, Any]) -> dict[str, Any]:
    """Scores with known kernels on many more tasks, and with inferred kernels by subtracting the cost of inference."""
    indices = np.arange(num_oracle, dtype=np.uint32)
    known, inferred = {}, {}
    for floor, least in (("exact", 0.0), ("floored", sigma_min)):
        summaries = summarise(oracle_scores(source, indices, sigma_min=least))
        known[floor] = {metric: summaries[metric] for metric in cost[floor]}
        inferred[floor] = {metric: _difference(known[floor][metric], lost) for metric, lost in cost[floor].items()}
    return {"num_tasks": num_oracle, "known": known, "inferred": inferred}


def _difference(score: dict[str, float], cost: dict[str, float]) -> dict[str, float]:
    error = math.hypot(score["standard_error"], cost["standard_error"])
    return {"mean": score["mean"] - cost["mean"], "standard_error": error}


def _by_sampling(source: TaskSource, indices: Integer[np.ndarray, " task"], sigma_min: float) -> dict[str, Any]:
    sampled = sampled_scores(source, indices, sigma_min=sigma_min)
    method = {"name": "Gibbs sampling", "chains": NUM_CHAINS, "burn_in": NUM_BURN_IN, "draws": NUM_DRAWS}
    errors = {name: _sampling_errors(scores) for name, scores in sampled.items()}
    return {
        "method": method,
        **_summaries(sampled["known"].together, sampled["inferred"].together),
        "sampling_errors": errors,
    }


def _summaries(known: Scores, inferred: Scores) -> dict[str, Any]:
    """Both ceilings, and the cost of inference: paired by task, it has a far smaller standard error than either."""
    cost = {floor: {name: known[floor][name] - values for name, values in scores.items()} for floor, scores in inferred.items()}
    ceilings = {"known": known, "inferred": inferred, "known_minus_inferred": cost}
    return {name: {floor: summarise(scores) for floor, scores in ceiling.items()} for name, ceiling in ceilings.items()}


def _sampling_errors(scores: SampledScores) -> dict[str, dict[str, dict[str, float]]]:
    """From the two halves of the chains: standard error of the mean over tasks, and the bias from too few draws."""
    first, second = scores.halves
    return {
        floor: {
            name: {
                "standard_error": float(np.sqrt(np.mean((first[floor][name] - second[floor][name]) ** 2) / 4 / len(values))),
                "shortfall": float(np.mean(values - (first[floor][name] + second[floor][name]) / 2)),
            }
            for name, values in metrics.items()
        }
        for floor, metrics in scores.together.items()
    }


def tabulate(records: list[dict[str, Any]]) -> str:
    """One row per family, known or inferred kernel parameters, and with or without the floor."""
    rows = []
    for record in records:
        for parameters in ("known", "inferred"):
            for floor in ("exact", "floored"):
                scores = record[parameters][floor]
                size = f"≥ {record['sigma_min']}" if floor == "floored" else "any"
                cells = [cell(scores[name]) if name in scores else "" for name in COLUMNS]
                cells.append(f"{record['evaluation']['num_tasks']:,}")
                if wide := record.get("carried_over"):
                    cells += [cell(wide[parameters][floor]["target"]), f"{wide['num_tasks']:,}"]
                else:
                    cells += ["", ""]
                rows.append([record["task"], parameters, size, *cells])
    return markdown(["task", "parameters", "sigma", *COLUMNS, "tasks", "target, carried over to", "tasks"], rows)


def cell(summary: dict[str, float]) -> str:
    """A mean with its standard error."""
    return f"{summary['mean']:.3f} ± {summary['standard_error']:.3f}"


if __name__ == "__main__":
    main()
