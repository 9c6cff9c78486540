"""How cost grows with the sizes of a problem: context, targets, samples K, pseudo context, batch.

    python benchmarks/growth.py

One size varies at a time. The first four time a prediction, the last a training step, in CPU seconds and in units u. The
record, its table and its figure go to `results/speed`.
"""

import argparse
import dataclasses
import json
import sys
from typing import Any

import jax
import numpy as np
from matplotlib import pyplot as plt
from measure import RESULTS, in_fresh_process, measure_unit, peak_gigabytes, seconds_each

from mpnp.inference.predictor import Predictor
from mpnp.io.files import environment, read_json, write_atomically, write_json
from mpnp.models.build import build
from mpnp.models.config import ModelSettings
from mpnp.plotting.style import STYLE, save_figure
from mpnp.reproduce.tables import markdown
from mpnp.tasks.registry import find_family
from mpnp.tasks.task import PointSet
from mpnp.training.config import Recipe, RunConfig
from mpnp.training.sharding import batch_mesh, replicate
from mpnp.training.step import initial_state, make_step

MODELS = ("cnp", "canp", "mpnp", "mpanp")


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of a problem. All but one stay at their defaults."""

    context: int = 25
    targets: int = 100
    samples: int = 10
    pseudo: int = 10
    batch: int = 32


VARIED: dict[str, tuple[int, ...]] = {
    "context": (10, 100, 1_000, 10_000),
    "targets": (10, 100, 1_000, 10_000),
    "samples": (1, 10, 100),
    "pseudo": (1, 10, 100),
    "batch": (8, 32, 128, 512),
}


def main() -> None:
    """Measure everything, or one point for the parent process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, help="only these: print their table, write nothing")
    parser.add_argument("--one", nargs=3, metavar=("MODEL", "SIZE", "VALUE"), help=argparse.SUPPRESS)
    parser.add_argument("--draw-only", action="store_true", help="measure nothing, draw the record that exists")
    options = parser.parse_args()
    if options.draw_only:
        draw(read_json(RESULTS / "growth.json")["rows"])
        return
    if options.one is not None:
        model, size, value = options.one
        print(json.dumps(measure(model, size, int(value))))
        return
    rows = []
    for model in options.models or MODELS:
        for size, values in VARIED.items():
            if size == "pseudo" and not model.startswith("mp"):
                continue
            for value in values:
                rows.append(in_fresh_process(__file__, "--one", model, size, str(value)))
                print(f"{model}, {size} {value}: {rows[-1]['cpu_seconds']:.4f} CPU-s", file=sys.stderr)
    if options.models:
        print(tabulate(rows))
        return
    write_json(RESULTS / "growth.json", {"kind": "growth", "rows": rows, "environment": environment()})
    write_atomically(RESULTS / "growth.md", lambda file: file.write(tabulate(rows).encode()))
    draw(rows)


def measure(model: str, size: str, value: int) -> dict[str, Any]:
    """Cost at one size."""
    sizes = dataclasses.replace(Sizes(), **{size: value})
    unit = measure_unit()
    run = training_step(model, sizes) if size == "batch" else prediction(model, sizes)
    run()
    cpu, wall = seconds_each(run, budget=2.0)
    times = {"cpu_seconds": cpu, "wall_seconds": wall, "unit": unit, "units": cpu / unit, "peak_gigabytes": peak_gigabytes()}
    return {"model": model, "size": size, "value": value, **times}


def prediction(model: str, sizes: Sizes) -> Any:
    """Condition and predict once."""
    rng = np.random.default_rng(0)
    settings = ModelSettings(num_pseudo=sizes.pseudo)
    predictor = Predictor(build(model, key=jax.random.key(0), x_dim=1, y_dim=1, settings=settings), num_samples=sizes.samples)
    context = PointSet.observed(*rng.normal(size=(2, sizes.context)))
    targets = rng.normal(size=(sizes.targets, 1)).astype(np.float32)
    return lambda: predictor(context, targets).loc


def training_step(model: str, sizes: Sizes) -> Any:
    """One step of training."""
    config = RunConfig(model, recipe=Recipe(batch_size=sizes.batch, num_samples=sizes.samples))
    mesh = batch_mesh(sizes.batch)
    family = find_family(config.task)
    step, state = make_step(config, family, mesh), replicate(mesh, initial_state(config, family))
    return lambda: step(state, np.arange(sizes.batch, dtype=np.uint32), 0)


def tabulate(rows: list[dict[str, Any]]) -> str:
    """One row per measurement."""
    return markdown(
        ["model, size", "value", "CPU-seconds", "u", "peak memory, GB"],
        [
            [f"{row['model']}, {row['size']}", f"{row['value']:,}", f"{row['cpu_seconds']:.4f}", f"{row['units']:.3f}",
             f"{row['peak_gigabytes']:.2f}"]
            for row in rows
        ],
    )  # fmt: skip


def draw(rows: list[dict[str, Any]]) -> None:
    """One panel per size, one line per model."""
    labels = {
        "context": "context points", "targets": "targets", "samples": "samples K", "pseudo": "pseudo context points",
        "batch": "tasks in a training step",
    }  # fmt: skip
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(1, len(VARIED), figsize=(15, 3.4), sharey=True, layout="constrained")
        for ax, size in zip(axes, VARIED, strict=True):
            for number, model in enumerate(MODELS):
                points = [(row["value"], row["cpu_seconds"]) for row in rows if (row["model"], row["size"]) == (model, size)]
                if points:
                    ax.plot(*zip(*points, strict=True), marker="o", color=f"C{number}", label=model)
            ax.set(xscale="log", yscale="log", xlabel=labels[size])
        axes[0].set(ylabel="CPU-seconds")
        axes[0].legend()
        save_figure(figure, RESULTS / "growth.png")


if __name__ == "__main__":
    main()
