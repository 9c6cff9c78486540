"""Calibration of the posteriors of functionals: the maximum, its location, the integral, and a difference.

    python benchmarks/functionals.py
    python benchmarks/functionals.py MODEL ...        other models; prints only

Functions come from the RBF prior that the models were trained on, observed at a few points. For each functional, how often
does the central 90% interval of its posterior contain the true value? The exact Gaussian process with known kernel serves as
reference. Written to `results/functionals`.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mpnp.inference.model import FittedModel, load
from mpnp.io.files import environment, write_atomically, write_json

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "functionals"
GRID = np.linspace(-2, 2, 101)
NUM_FUNCTIONS, NUM_DRAWS, NOISE, SEED = 200, 64, 0.02, 20
MODELS = ("canp-rbf-low", "tnp-rbf-low", "mpanp-rbf")
CONTEXT_SIZES = (3, 30)

FUNCTIONALS: dict[str, Callable[[np.ndarray], Any]] = {
    "maximum": np.max,
    "argmax": lambda values: GRID[np.argmax(values)],
    "integral": lambda values: np.trapezoid(values, GRID),
    "f(1) - f(-1)": lambda values: values[75] - values[25],
}

Scene = tuple[np.ndarray, np.ndarray, np.ndarray, Callable[[np.random.Generator], np.ndarray]]
"""Context, true function on the grid, and a sampler of the exact posterior."""


def main() -> None:
    """Measure, record, tabulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, help="directories or names; nothing is written then")
    options = parser.parse_args()
    rng = np.random.default_rng(SEED)
    scenes = [draw_scene(rng) for _ in range(NUM_FUNCTIONS)]
    rows = [measure("exact GP, kernel known", scenes, lambda scene: scene[3](np.random.default_rng(SEED)))]
    for directory in options.models or map(Path, MODELS):
        model = load(directory)
        # A conditional model generates one function only.
        for method in ("resample",) if directory.name.startswith(("c", "t")) else ("resample", "generate"):

            def draw(scene: Scene, model: FittedModel = model, method: str = method) -> np.ndarray:
                return model.condition(scene[0], scene[1]).sample(GRID, NUM_DRAWS, method=method)

            rows.append(measure(f"{directory.name}, {method}d", scenes, draw))
            print(tabulate(rows[-1:]), flush=True)
    table = tabulate(rows)
    print(table)
    if options.models:
        return
    protocol = {"functions": NUM_FUNCTIONS, "draws": NUM_DRAWS, "noise": NOISE, "context": CONTEXT_SIZES, "seed": SEED}
    write_json(
        RESULTS / "scores.json", {"kind": "functionals", "protocol": protocol, "rows": rows, "environment": environment()}
    )
    write_atomically(RESULTS / "table.md", lambda file: file.write(table.encode()))


def draw_scene(rng: np.random.Generator) -> Scene:
    """A function, a few noisy points of it, and the exact posterior."""
    length, scale = rng.uniform(0.1, 0.6), rng.uniform(0.1, 1.0)
    x = rng.uniform(-2, 2, rng.integers(*CONTEXT_SIZES))

    def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return scale**2 * np.exp(-((a[:, None] - b[None]) ** 2) / (2 * length**2))

    everywhere = np.concatenate([x, GRID])
    values = _normal(np.zeros(len(everywhere)), kernel(everywhere, everywhere), rng, 1)[0]
    y = values[: len(x)] + NOISE * rng.standard_normal(len(x))
    gain = np.linalg.solve(kernel(x, x) + NOISE**2 * np.eye(len(x)), kernel(x, GRID)).T
    mean, covariance = gain @ y, kernel(GRID, GRID) - gain @ kernel(x, GRID)
    return x, y, values[len(x) :], lambda generator: _normal(mean, covariance, generator, NUM_DRAWS)


def _normal(mean: np.ndarray, covariance: np.ndarray, rng: np.random.Generator, num: int) -> np.ndarray:
    weights, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return mean + (rng.standard_normal((num, len(mean))) * np.sqrt(np.maximum(weights, 0))) @ vectors.T


def measure(method: str, scenes: list[Scene], draw: Callable[[Scene], np.ndarray]) -> dict[str, Any]:
    """Coverage of each functional's 90% interval, with its standard error, and the interval's mean width."""
    started = time.process_time()
    inside: dict[str, list[bool]] = {name: [] for name in FUNCTIONALS}
    widths: dict[str, list[float]] = {name: [] for name in FUNCTIONALS}
    for scene in scenes:
        draws = draw(scene)
        for name, functional in FUNCTIONALS.items():
            low, high = np.quantile([functional(values) for values in draws], [0.05, 0.95])
            inside[name].append(bool(low <= functional(scene[2]) <= high))
            widths[name].append(float(high - low))
    return {
        "method": method,
        "cpu_seconds": time.process_time() - started,
        "functionals": {
            name: {
                "coverage": float(np.mean(inside[name])),
                "standard_error": float(np.std(inside[name]) / np.sqrt(len(scenes))),
                "width": float(np.mean(widths[name])),
            }
            for name in FUNCTIONALS
        },
    }


def tabulate(rows: list[dict[str, Any]]) -> str:
    """A Markdown table of the record: coverage of the 90% interval and its mean width."""
    lines = [f"| method | {' | '.join(FUNCTIONALS)} |", f"|---|{'---:|' * len(FUNCTIONALS)}"]
    for row in rows:
        cells = [
            f"{part['coverage']:.1%} ± {part['standard_error']:.1%}, width {part['width']:.2f}"
            for part in row["functionals"].values()
        ]
        lines.append(f"| {row['method']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
