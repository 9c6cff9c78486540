"""Log-likelihood against CPU-seconds on RBF: the paper's recipe at two of its learning rates, and the fast recipe.

    python benchmarks/recipe_curves.py [NAME ...]
    python benchmarks/recipe_curves.py --costs

Runs are in `runs/recipes` and resume if interrupted; each finished one writes a record to `results/recipes`. The cost of a step
is measured separately, for all recipes together on one core (--costs), because the runs take hours and may come from several
machines and commits: log-likelihoods are plotted against the number of steps times the cost of a step. The figure and the
table are made from existing records; with --draw-only nothing is trained.
"""

import argparse
import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jax
import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from measure import in_fresh_process, seconds_each
from training_speed import training_step

from mpnp.io.files import environment, read_json, write_atomically, write_json
from mpnp.plotting.style import STYLE, save_figure
from mpnp.reproduce.tables import markdown
from mpnp.training import checkpoint
from mpnp.training.config import LEARNING_RATE_GRID, RECIPES, Recipe, RunConfig
from mpnp.training.loop import finish

RESULTS = Path(__file__).parents[1] / "results" / "recipes"
COSTS = RESULTS / "costs.json"
MIDDLE, LARGEST = LEARNING_RATE_GRID[2], LEARNING_RATE_GRID[4]


def shortened(recipe: Recipe, steps: int, num_validations: int) -> Recipe:
    """A recipe over fewer steps. Validations are part of what is timed, so short runs should have few."""
    every = steps // num_validations
    return dataclasses.replace(recipe, steps=steps, validate_every=every, validation_tasks=1_024, checkpoint_every=every)


PAPER_STEPS = {"cnp": 10_000, "canp": 3_000, "mpnp": 3_000, "mpanp": 1_500}
FAST_STEPS = {"cnp": 4_000, "canp": 1_000, "mpnp": 2_400, "mpanp": 1_600}

RUNS: dict[str, RunConfig] = {
    f"{model}-adam-{size}": RunConfig(model, recipe=shortened(Recipe(learning_rate=learning_rate), steps, 40))
    for model, steps in PAPER_STEPS.items()
    for size, learning_rate in {"middle": MIDDLE, "largest": LARGEST}.items()
} | {f"{model}-fast": RunConfig(model, recipe=shortened(RECIPES["fast"], steps, 20)) for model, steps in FAST_STEPS.items()}


class Row(NamedTuple):
    """A validation, of the whole model or of its core, which may have learnt first."""

    step: int
    cpu_seconds: float
    score: float
    whole: bool


def main() -> None:
    """Make the records that are missing, then draw and tabulate them all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"only these of {', '.join(RUNS)}")
    parser.add_argument("--runs", type=Path, default=Path("runs/recipes"), help="where the runs live")
    parser.add_argument("--draw-only", action="store_true", help="train nothing")
    parser.add_argument("--costs", action="store_true", help="train nothing, but measure what steps cost")
    parser.add_argument("--cost-of", metavar="NAME", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cost_of is not None:
        print(json.dumps(measure_costs(RUNS[options.cost_of])))
        return
    if options.costs:
        rows = {name: in_fresh_process(__file__, "--cost-of", name) for name in RUNS if "middle" not in name}
        write_json(COSTS, {"kind": "recipe-costs", "rows": rows, "environment": environment()})
    options.draw_only |= options.costs
    for name in [] if options.draw_only else options.names or RUNS:
        if not (RESULTS / f"{name}.json").exists():
            write_json(RESULTS / f"{name}.json", make_record(RUNS[name], options.runs / name))
    if not COSTS.exists():
        sys.exit("what steps cost has not been measured yet: run this with --costs")
    records = {name: read_json(RESULTS / f"{name}.json") for name in RUNS if (RESULTS / f"{name}.json").exists()}
    costs = read_json(COSTS)["rows"]
    curves = {name: costed(record, costs[name.replace("middle", "largest")]) for name, record in records.items()}
    draw(records, curves)
    write_atomically(RESULTS / "table.md", lambda file: file.write(tabulate(records, curves).encode()))


def make_record(config: RunConfig, directory: Path) -> dict[str, Any]:
    """Train if need be, then gather validation scores and what they cost."""
    run = finish(config, directory)
    card = checkpoint.read_card(run.last)
    return {"kind": "recipe-curve", "config": card["config"], "curve": run.learning_curve(), "environment": card["environment"]}


def measure_costs(config: RunConfig) -> dict[str, float]:
    """CPU-seconds of a step on one core, of the whole model and of its core, if steps of that come first."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    costs = {}
    for learner, number in {"core": 0, "whole": config.recipe.steps - 1}.items():
        step = training_step(config, number)
        jax.block_until_ready(step())
        costs[learner], _ = seconds_each(step, at_least=5)
    return costs


def costed(record: dict[str, Any], costs: dict[str, float]) -> list[Row]:
    """The log-likelihood at each validation and what the steps up to it cost."""
    config = RunConfig.from_json(record["config"])
    model = jax.eval_shape(config.build_model)
    core_steps = 0 if model.core is model else config.core_steps
    return [
        Row(
            row["step"],
            costs["core"] * min(row["step"], core_steps) + costs["whole"] * max(row["step"] - core_steps, 0),
            row["task"],
            row["step"] > core_steps,
        )
        for row in record["curve"]
    ]


def draw(records: dict[str, Any], curves: dict[str, list[Row]]) -> None:
    """One panel per model with a record: validation log-likelihood against CPU seconds."""
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
                    rows = curves[name][1:]  # the first validation has cost nothing and has no logarithm
                    seconds, scores = ([getattr(row, part) for row in rows] for part in ("cpu_seconds", "score"))
                    ax.plot(seconds, scores, color=color, label=describe(records[name]))
                    core = [row for row in rows if not row.whole]
                    ax.plot([row.cpu_seconds for row in core], [row.score for row in core], color="white", lw=0.8, ls=":")
            ax.set(title=model.upper(), xscale="log", xlabel="CPU-seconds")
            ax.xaxis.set_minor_formatter(NullFormatter())
        axes[0].set_ylabel("validation log-likelihood per point")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    save_figure(figure, RESULTS / "curves.png")


def describe(record: dict[str, Any]) -> str:
    """Whose recipe it was, and at which rate."""
    recipe = record["config"]["recipe"]
    whose = {"adam": "paper's recipe, Adam", "muon": "fast recipe, Muon"}[recipe["optimizer"]]
    return f"{whose} {recipe['learning_rate']:.2g}"


def tabulate(records: dict[str, Any], curves: dict[str, list[Row]]) -> str:
    """When either recipe reached the log-likelihood that both reach, the paper's at its better learning rate."""
    header = ["model", "paper's recipe: rate", "steps", "reached", "CPU-s", "fast recipe: steps", "reached", "CPU-s"]
    header += ["both reach", "paper's after CPU-s", "fast after CPU-s", "share"]
    rows = []
    for model in PAPER_STEPS:
        slow = [name for name in (f"{model}-adam-middle", f"{model}-adam-largest") if name in records]
        if not slow or f"{model}-fast" not in records:
            continue
        paper = max(slow, key=lambda name: curves[name][-1].score)
        rate = f"{records[paper]['config']['recipe']['learning_rate']:.2g}"
        compared = curves[paper], curves[f"{model}-fast"]
        ends = [[f"{end.step:,}", f"{end.score:.3f}", f"{end.cpu_seconds:,.0f}"] for end in (curve[-1] for curve in compared)]
        level = min(curve[-1].score for curve in compared)
        slow_there, fast_there = (
            next(row.cpu_seconds for row in curve if row.whole and row.score >= level) for curve in compared
        )
        times = [f"{slow_there:,.0f}", f"{fast_there:,.0f}", f"1/{slow_there / fast_there:.1f}"]
        which = "better of two" if len(slow) == 2 else "the only one run"
        rows.append([model, f"{rate} ({which})", *ends[0], *ends[1], f"{level:.3f}", *times])
    return markdown(header, rows)


if __name__ == "__main__":
    main()
