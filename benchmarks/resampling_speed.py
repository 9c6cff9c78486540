"""What drawing functions by predictive resampling costs, and how the cost grows.

    python benchmarks/resampling_speed.py           what the record lacks; remove it to measure anew

One size varies at a time: functions, future observations, context. Times are CPU and wall seconds after compilation; wall
time depends on what else the machine does, so the table shows CPU time, best measured on one core (`taskset -c 0`). The record
and its table go to `results/speed`.
"""

import argparse
import dataclasses
import warnings
from typing import Any

import numpy as np
from measure import RESULTS, measure_unit, seconds_each

from mpnp.inference.model import load
from mpnp.io.files import environment, read_json, write_atomically, write_json
from mpnp.reproduce.tables import markdown

RECORD = RESULTS / "resampling.json"
MODELS = ("canp-rbf", "mpanp-rbf", "tnp-rbf-low")


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of a question. All but one stay at their defaults."""

    functions: int = 64
    future: int = 30
    context: int = 10
    inputs: int = 100


VARIED = [
    Sizes(),
    Sizes(functions=256),
    *(Sizes(future=n) for n in (10, 60)),
    *(Sizes(context=n) for n in (3, 40)),
]


def main() -> None:
    """Measure what the record lacks, tabulate."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    start = {"kind": "resampling", "unit": measure_unit(), "rows": [], "environment": environment()}
    record = read_json(RECORD) if RECORD.exists() else start
    known = [(row["model"], row["sizes"]) for row in record["rows"]]
    for sizes in VARIED:
        for name in MODELS:
            if (name, dataclasses.asdict(sizes)) not in known:
                record["rows"].append(measure(name, sizes))
                write_json(RECORD, record)
    table = tabulate(record["rows"])
    write_atomically(RECORD.with_suffix(".md"), lambda file: file.write(table.encode()))
    print(table)


def measure(name: str, sizes: Sizes) -> dict[str, Any]:
    """CPU and wall seconds of one call."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, sizes.context)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # any outputs will do
        posterior = load(name).condition(x, np.sin(3 * x))
    grid = np.linspace(-2, 2, sizes.inputs)

    def draw() -> np.ndarray:
        return posterior.sample(grid, sizes.functions, num_future=sizes.future)

    draw()  # compiles
    cpu, wall = seconds_each(draw, budget=1.0)
    return {"model": name, "sizes": dataclasses.asdict(sizes), "cpu_seconds": cpu, "wall_seconds": wall}


def tabulate(rows: list[dict[str, Any]]) -> str:
    """CPU milliseconds, one row per question, one column per model."""
    header = ["functions", "future observations", "context", "inputs", *(f"`{name}`, CPU-ms" for name in MODELS)]
    lines = []
    for sizes in map(dataclasses.asdict, VARIED):
        times = [
            f"{1e3 * row['cpu_seconds']:,.0f}"
            for name in MODELS
            for row in rows
            if (row["model"], row["sizes"]) == (name, sizes)
        ]
        lines.append([*map(str, sizes.values()), *times])
    return markdown(header, lines)


if __name__ == "__main__":
    main()
