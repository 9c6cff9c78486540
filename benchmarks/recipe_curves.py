"""Log-likelihood against CPU-seconds on RBF: the paper's recipe at two of its learning rates, and the fast recipe.

    python benchmarks/recipe_curves.py [NAME ...]

Runs live in `runs/recipes` and resume if interrupted; each finished one leaves a record in `results/recipes`. The figure and
the table there are drawn from the records that exist; with --draw-only nothing is trained.
"""

import argparse
import dataclasses
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from mpnp import checkpoint
from mpnp.pictures import STYLE, save_figure
from mpnp.recipes import LEARNING_RATE_GRID, RECIPES, Recipe
from mpnp.records import read_json, write_atomically, write_json
from mpnp.reproduce.render import markdown
from mpnp.runs import RunConfig
from mpnp.train import finish

RESULTS = Path(__file__).parents[1] / "results" / "recipes"
MIDDLE, LARGEST = LEARNING_RATE_GRID[2], LEARNING_RATE_GRID[4]


def shortened(recipe: Recipe, steps: int, num_validations: int) -> Recipe:
    """A recipe over fewer steps. Validations are part of what is timed, so short runs should have few."""
    every = steps // num_validations
    return dataclasses.replace(recipe, steps=steps, validate_every=every, validation_tasks=1_024, checkpoint_every=every)


PAPER_STEPS = {"cnp": 10_000, "canp": 3_000, "mpnp": 3_000, "mpanp": 1_500}
FAST_STEPS = {"cnp": 6_000, "canp": 2_400, "mpnp": 3_000, "mpanp": 1_500}

RUNS: dict[str, RunConfig] = {
    f"{model}-adam-{size}": RunConfig(model, recipe=shortened(Recipe(learning_rate=learning_rate), steps, 40))
    for model, steps in PAPER_STEPS.items()
    for size, learning_rate in {"middle": MIDDLE, "largest": LARGEST}.items()
} | {f"{model}-fast": RunConfig(model, recipe=shortened(RECIPES["fast"], steps, 20)) for model, steps in FAST_STEPS.items()}


def main() -> None:
    """Make the records that are missing, then draw and tabulate them all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"only these of {', '.join(RUNS)}")
    parser.add_argument("--runs", type=Path, default=Path("runs/recipes"), help="where the runs live")
    parser.add_argument("--draw-only", action="store_true", help="train nothing")
    options = parser.parse_args()
    for name in [] if options.draw_only else options.names or RUNS:
        if not (RESULTS / f"{name}.json").exists():
            write_json(RESULTS / f"{name}.json", make_record(RUNS[name], options.runs / name))
    records = {name: read_json(RESULTS / f"{name}.json") for name in RUNS if (RESULTS / f"{name}.json").exists()}
    draw(records)
    write_atomically(RESULTS / "table.md", lambda file: file.write(tabulate(records).encode()))


def make_record(config: RunConfig, directory: Path) -> dict[str, Any]:
    """Train if need be, then gather validation scores and what they cost."""
    run = finish(config, directory)
    card = checkpoint.read_card(run.last)
    return {"kind": "recipe-curve", "config": card["config"], "curve": run.learning_curve(), "environment": card["environment"]}


def draw(records: dict[str, Any]) -> None:
    """A panel a model that has a record: validation log-likelihood against CPU-seconds."""
    models = [model for model in PAPER_STEPS if any(record["config"]["model"] == model for record in records.values())]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(3.2 * len(models), 3.2), layout="constrained")
        axes = figure.subplots(1, len(models), squeeze=False)[0]
        for ax, model in zip(axes, models, strict=True):
            for name, color in (
                (f"{model}-adam-middle", "#9ecae1"),
                (f"{model}-adam-largest", "#08519c"),
                (f"{model}-fast", "#f16913"),
            ):
                if name in records:
                    curve = [row for row in records[name]["curve"] if row["cpu_seconds"] > 0]
                    seconds, scores = ([row[part] for row in curve] for part in ("cpu_seconds", "task"))
                    ax.plot(seconds, scores, color=color, label=describe(records[name]))
            ax.set(title=model.upper(), xscale="log", xlabel="CPU-seconds")
            ax.xaxis.set_minor_formatter(NullFormatter())
        axes[0].set_ylabel("validation log-likelihood a point")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    save_figure(figure, RESULTS / "curves.png")


def describe(record: dict[str, Any]) -> str:
    """Whose recipe it was, and at which rate."""
    recipe = record["config"]["recipe"]
    whose = {"adam": "paper's recipe, Adam", "muon": "fast recipe, Muon"}[recipe["optimizer"]]
    return f"{whose} {recipe['learning_rate']:.2g}"


def tabulate(records: dict[str, Any]) -> str:
    """When either recipe reached the log-likelihood that both reach, the paper's at its better learning rate."""
    header = ["model", "paper's recipe: steps", "learning rate", "reached", "CPU-s", "fast recipe: steps", "reached", "CPU-s"]
    header += ["both reach", "paper's after CPU-s", "fast after CPU-s", "share"]
    rows = []
    for model in PAPER_STEPS:
        slow = [records[name] for name in (f"{model}-adam-middle", f"{model}-adam-largest") if name in records]
        if not slow or f"{model}-fast" not in records:
            continue
        paper = max(slow, key=lambda record: record["curve"][-1]["task"])
        rate = f"{paper['config']['recipe']['learning_rate']:.2g}" + (" (of two)" if len(slow) == 2 else " (the only one run)")
        curves = paper["curve"], records[f"{model}-fast"]["curve"]
        ends = [
            [f"{end['step']:,}", f"{end['task']:.3f}", f"{end['cpu_seconds']:,.0f}"] for end in (curve[-1] for curve in curves)
        ]
        level = min(curve[-1]["task"] for curve in curves)
        slow_there, fast_there = (next(row["cpu_seconds"] for row in curve if row["task"] >= level) for curve in curves)
        times = [f"{slow_there:,.0f}", f"{fast_there:,.0f}", f"1/{slow_there / fast_there:.1f}"]
        rows.append([model, ends[0][0], rate, *ends[0][1:], *ends[1], f"{level:.3f}", *times])
    return markdown(header, rows)


if __name__ == "__main__":
    main()
