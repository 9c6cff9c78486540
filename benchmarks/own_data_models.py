"""Which network learns real sets of small related curves best in the same CPU time? Judged on validation tasks.

    python benchmarks/own_data_models.py --sets sea pigs power --max-minutes 0.5

The tasks that benchmarks/own_data.py holds out for its scores are held out here, too, and never looked at: what follows from
these records may be judged there. Each set and model has one record in results/own-data/models.
"""

import argparse
import warnings
from typing import Any

import numpy as np
from own_data import RESULTS, SEED, TEST
from own_data_sets import SETS, DataSet

from mpnp.inference.fit import FitOptions, fit_curves
from mpnp.io.files import environment, read_json, write_atomically, write_json
from mpnp.reproduce.tables import markdown

MODELS = ("canp", "mpanp", "tnp")


def main() -> None:
    """Fit what has no record, then tabulate all records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=["sea", "pigs", "power"])
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--max-minutes", type=float, default=0.5)
    options = parser.parse_args()
    folder = RESULTS / "models"
    for name in options.sets:
        for model in options.models:
            path = folder / f"{name}-{model}.json"
            if not path.exists():
                write_json(path, measure(name, SETS[name], model, options.max_minutes))
    table = tabulate([read_json(path) for path in sorted(folder.glob("*.json"))])
    write_atomically(folder / "table.md", lambda file: file.write(table.encode()))
    print(table)


def measure(name: str, data: DataSet, model: str, max_minutes: float) -> dict[str, Any]:
    """The validation scores of one model on one set."""
    options = FitOptions(model, data.context, max_minutes, test=TEST, seed=SEED, rivals="none", held_out_contexts=300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        about = fit_curves(data.curves(), options).card.about
    kept = {
        key: about[key] for key in ("tasks", "context", "seed", "recipe", "progress", "steps_done", "cpu_seconds", "validation")
    }
    return {
        "kind": "own data, networks",
        "set": name,
        "model": model,
        "max_minutes": max_minutes,
        "candidates": about.get("candidates"),
        **kept,
        "environment": environment(),
    }


def tabulate(records: list[dict[str, Any]]) -> str:
    """One row per set and model; scores are means over outputs."""
    header = ["set", "model", "steps", "CPU-s", "log-likelihood", "CRPS", "90% band covers"]
    rows = []
    for record in records:
        scores = [
            np.mean([output[metric] for output in record["validation"].values()])
            for metric in ("log_likelihood", "crps", "coverage_90")
        ]
        rows.append(
            [record["set"], record["model"], f"{record['steps_done']:,}", f"{record['cpu_seconds']:,.0f}",
             f"{scores[0]:.3f}", f"{scores[1]:.4f}", f"{scores[2]:.1%}"]
        )  # fmt: skip
    return markdown(header, rows)


if __name__ == "__main__":
    main()
