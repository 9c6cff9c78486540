"""Peak memory of one prediction at many rows, which must stay below a gigabyte at any number of them.

    python benchmarks/prediction_memory.py            measure, write results/speed/prediction-memory.json, fail above the bound

Each measurement has its own process, so that the peak is its own.
"""

import argparse
import json
import sys
import warnings
from typing import Any

import numpy as np
from measure import RESULTS, in_fresh_process, peak_gigabytes

import mpnp
from mpnp.io.files import environment, write_json

MODELS, ROWS = ("canp-rbf", "mpanp-rbf"), (1_000, 100_000)
MOST_GIGABYTES = 1.0
CONTEXT = 40


def main() -> None:
    """Measure everything, or one point for the parent process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", nargs=2, metavar=("MODEL", "ROWS"), help=argparse.SUPPRESS)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(measure(options.one[0], int(options.one[1]))))
        return
    rows = [in_fresh_process(__file__, "--one", model, str(count)) for model in options.models for count in ROWS]
    write_json(RESULTS / "prediction-memory.json", {"kind": "prediction memory", "rows": rows, "environment": environment()})
    for row in rows:
        print(f"{row['model']}, {row['rows']:,} rows: {row['peak_gigabytes']:.2f} GB")
    if any(row["peak_gigabytes"] > MOST_GIGABYTES for row in rows):
        sys.exit(f"a prediction took more than {MOST_GIGABYTES} GB")


def measure(model: str, count: int) -> dict[str, Any]:
    """Peak memory of a full prediction, quantiles included."""
    x = np.linspace(-2, 2, CONTEXT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mpnp.load(model).condition(x, np.sin(3 * x)).predict(np.linspace(-2, 2, count), "full")
    return {"model": model, "rows": count, "peak_gigabytes": round(peak_gigabytes(), 3)}


if __name__ == "__main__":
    main()
