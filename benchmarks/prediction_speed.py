"""Cost of a prediction with a loaded model: 25 context points, 100 targets, K = 10; one task, and 1,000 at once.

    python benchmarks/prediction_speed.py

The record and its table go to `results/speed`. Times include conditioning and the conversion from and to NumPy.
"""

import argparse
import json
import statistics
import sys
import time
from typing import Any

import equinox as eqx
import jax
import numpy as np
from measure import RESULTS, UNIT_FLOPS, in_fresh_process, measure_unit, peak_gigabytes, seconds_each

from mpnp.inference.predictor import Predictor
from mpnp.io.files import environment, write_atomically, write_json
from mpnp.models.build import build
from mpnp.models.registry import MODELS
from mpnp.reproduce.tables import markdown
from mpnp.tasks.task import PointSet

NUM_CONTEXT, NUM_TARGETS, NUM_SAMPLES, NUM_TASKS = 25, 100, 10, 1_000


def main() -> None:
    """Measure the models asked for, or one of them for the parent process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), help="only these: print their table, write nothing")
    parser.add_argument("--one", metavar="MODEL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(measure(options.one)))
        return
    rows = []
    for model in options.models or MODELS:
        rows.append(in_fresh_process(__file__, "--one", model))
        print(f"{model}: {rows[-1]['one_task_ms']:.2f} ms", file=sys.stderr)
    if options.models:
        print(tabulate(rows))
        return
    write_json(RESULTS / "prediction.json", {"kind": "prediction-speed", "rows": rows, "environment": environment()})
    write_atomically(RESULTS / "prediction.md", lambda file: file.write(tabulate(rows).encode()))


def measure(name: str) -> dict[str, Any]:
    """Cost of one prediction, and of a thousand."""
    rng = np.random.default_rng(0)
    model = build(name, key=jax.random.key(0), x_dim=1, y_dim=1)
    predictor = Predictor(model, num_samples=NUM_SAMPLES)
    contexts = [PointSet.observed(*rng.normal(size=(2, NUM_CONTEXT))) for _ in range(NUM_TASKS)]
    targets = rng.uniform(-2, 2, size=(NUM_TASKS, NUM_TARGETS, 1)).astype(np.float32)
    started = time.perf_counter()
    predictor(contexts[0], targets[0])
    first = time.perf_counter() - started
    one = []
    for context, x_target in zip(contexts[:200], targets[:200], strict=True):
        started = time.perf_counter()
        predictor(context, x_target)
        one.append(time.perf_counter() - started)
    predictor.many(contexts, list(targets))
    before = measure_unit()
    cpu, wall = seconds_each(lambda: predictor.many(contexts, list(targets)).pop().loc)
    unit = (before + measure_unit()) / 2
    one_task = eqx.filter_jit(model.predict)
    flops = one_task.lower(contexts[0], targets[0], key=jax.random.key(0), num_samples=NUM_SAMPLES)
    flops = flops.lowered.cost_analysis()["flops"] * NUM_TASKS
    return {
        "model": name,
        "first_ms": 1e3 * first,
        "one_task_ms": 1e3 * statistics.median(one),
        "one_task_ms_slowest_of_20": 1e3 * float(np.quantile(one, 0.95)),
        "thousand_cpu_seconds": cpu,
        "thousand_wall_seconds": wall,
        "unit": unit,
        "share_of_unit_rate": flops / cpu * unit / UNIT_FLOPS,
        "peak_gigabytes": peak_gigabytes(),
    }


def tabulate(rows: list[dict[str, Any]]) -> str:
    """A Markdown table of the record."""
    header = [
        "model", "one task, ms", "slowest of 20, ms", "1,000 tasks, wall s", "1,000 tasks, CPU-s", "share of u's rate",
        "peak memory, GB",
    ]  # fmt: skip
    names = ["one_task_ms", "one_task_ms_slowest_of_20", "thousand_wall_seconds", "thousand_cpu_seconds"]
    names += ["share_of_unit_rate", "peak_gigabytes"]
    return markdown(header, [[row["model"], *(f"{row[name]:.2f}" for name in names)] for row in rows])


if __name__ == "__main__":
    main()
