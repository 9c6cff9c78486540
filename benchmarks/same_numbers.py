"""Does a code change alter any number? Records predictions and short training runs, and compares two records.

    python benchmarks/same_numbers.py record before.json     # at the old commit
    python benchmarks/same_numbers.py record after.json      # at the new one
    python benchmarks/same_numbers.py compare before.json after.json

It uses only what stays the same across versions: names of pretrained and registered models, public names and the command line.
With XLA_FLAGS=--xla_backend_optimization_level=0, a record takes a few minutes; use the same flags for both.
"""

import argparse
import contextlib
import io
import json
import math
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import jax
import numpy as np

import mpnp
from mpnp.cli import main as run_command

KERNELS = ("rbf", "matern")
MODELS = ("cnp", "canp", "mpnp", "mpanp")
"""What the packaged models of curves are named after."""

STEPS = 6
CONTEXT = [-1.5, -0.3, 0.4, 1.1], [0.2, -0.7, 0.1, 0.9]
TOLERANCE = 1e-4
"""Tolerance: float32 rounding of reordered sums, after a few training steps."""

Record = dict[str, list[float]]


def networks() -> Record:
    """Location and scale that every packaged network predicts from one context, including the network of images."""
    record: Record = {}
    for name in ("mpanp-mnist", *(f"{model}-{kernel}" for kernel in KERNELS for model in MODELS)):
        model, _, _ = mpnp.load_model(name)
        rng = np.random.default_rng(0)
        x, x_target = rng.uniform(-0.5, 0.5, (8, model.x_dim)), rng.uniform(-0.5, 0.5, (16, model.x_dim))
        context = mpnp.PointSet(x.astype(np.float32), np.sin(9 * x[:, :1]).astype(np.float32), np.arange(8) < 6)
        predictive = model.predict(context, x_target.astype(np.float32), key=jax.random.key(0), num_samples=5)
        for part, values in (("mean", predictive.mean), ("std", predictive.std)):
            record[f"{name} network {part}"] = np.ravel(values).tolist()
    return record


def predictions() -> Record:
    """Mean, deviation, quantiles, samples and joint density of every packaged model of curves, on one context."""
    record: Record = {}
    x, y = CONTEXT
    grid = np.linspace(-2, 2, 9)
    for kernel in KERNELS:
        for model in MODELS:
            posterior = mpnp.load(f"{model}-{kernel}").condition(x, y)
            for name, values in posterior.predict(grid, "full").items():
                record[f"{model}-{kernel} {name}"] = np.ravel(values).tolist()
            record[f"{model}-{kernel} cdf"] = np.ravel(posterior.cdf(grid, np.zeros(9))).tolist()
    return record


def trainings(models: Iterable[str]) -> Record:
    """Losses, gradient norms and validation scores of a few steps of these models."""
    record: Record = {}
    for model in models:
        for recipe in ("quick", "fast"):
            with tempfile.TemporaryDirectory() as folder:
                run = Path(folder) / "run"
                sizes = ["--steps", STEPS, "--batch-size", 4, "--validation-tasks", 16, "--validate-every", STEPS]
                command = ["train", "--model", model, "--task", "rbf", "--recipe", recipe, *map(str, sizes), "--out", str(run)]
                with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                    assert run_command(command) == 0
                rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
            for number, row in enumerate(rows):
                numbers = {name: value for name, value in row.items() if isinstance(value, int | float)}
                record |= {f"{model} {recipe} row {number} {name}": [float(value)] for name, value in numbers.items()}
            jax.clear_caches()
            print(f"{model} {recipe}", file=sys.stderr, flush=True)
    return record


def compare(before: Record, after: Record) -> bool:
    """Print the largest relative difference of each group; whether all are within the tolerance."""
    groups: dict[str, float] = {}
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        group = " ".join(name.split()[:2]) if " row " in name else name.split()[0]
        if old is None or new is None or len(old) != len(new):
            difference = math.inf
        else:
            scale = max(1.0, float(np.max(np.abs(old))))
            difference = float(np.max(np.abs(np.asarray(old) - np.asarray(new)))) / scale
        groups[group] = max(groups.get(group, 0.0), difference)
    for group, difference in groups.items():
        print(f"{group:24} {difference:.1e}{'' if difference <= TOLERANCE else '   DIFFERS'}")
    worst = max(groups.values())
    print(f"{len(before)} numbers or arrays; largest relative difference {worst:.1e} (tolerance {TOLERANCE:.0e})")
    return worst <= TOLERANCE


def main() -> int:
    """Record or compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("out", type=Path)
    recording.add_argument(
        "--models", nargs="*", metavar="NAME", default=list(mpnp.MODELS), help="models to train (default all)"
    )
    comparison = commands.add_parser("compare")
    comparison.add_argument("before", type=Path)
    comparison.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.command == "record":
        options.out.write_text(json.dumps(networks() | predictions() | trainings(options.models)))
        return 0
    return 0 if compare(*(json.loads(path.read_text()) for path in (options.before, options.after))) else 1


if __name__ == "__main__":
    sys.exit(main())
