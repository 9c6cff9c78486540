"""Train every model with the quick recipe on RBF, and plot validation scores.

    python benchmarks/learning_curves.py

Runs are in `runs/learning-curves` and resume if interrupted. Each finished model writes one record to
`results/learning-curves`; the figure and the table are made from the records alone.
"""

import argparse
from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt

from mpnp.io.files import read_json, write_atomically, write_json
from mpnp.models.registry import MODELS
from mpnp.plotting.style import STYLE, save_figure
from mpnp.training.config import RECIPES, RunConfig
from mpnp.training.evaluate import evaluate_run
from mpnp.training.loop import finish

RESULTS = Path(__file__).parents[1] / "results" / "learning-curves"
NUM_TEST_TASKS = 2_560


def main() -> None:
    """Make the records that are missing, then the figure and the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS), help="only these")
    parser.add_argument("--runs", type=Path, default=Path("runs/learning-curves"), help="where the runs live")
    options = parser.parse_args()
    for model in options.models:
        if not (RESULTS / f"{model}.json").exists():
            write_json(RESULTS / f"{model}.json", make_record(model, options.runs / model))
    records = {model: read_json(path) for model in MODELS if (path := RESULTS / f"{model}.json").exists()}
    draw(records)
    tabulate(records)


def make_record(model: str, directory: Path) -> dict[str, Any]:
    """Train and score one model."""
    run = finish(RunConfig(model, recipe=RECIPES["quick"]), directory)
    test = evaluate_run(directory, num_tasks=NUM_TEST_TASKS)
    return {"kind": "learning-curve", "model": model, "curve": run.learning_curve(), "test": test}


def draw(records: dict[str, Any]) -> None:
    """One panel for the models without attention, one for those with it."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
        for model, record in records.items():
            ax = axes[0 if MODELS[model].backbone == "pooled" else 1]
            ax.plot(*zip(*((row["step"], row["task"]) for row in record["curve"]), strict=True), label=model)
        for ax, title in zip(axes, ("pooled backbone", "attentive backbone"), strict=True):
            ax.set(title=title, xlabel="training step")
            ax.legend(ncols=2, loc="lower right")
        axes[0].set(ylabel="validation log-likelihood per point", ylim=(-1.6, None))
        recipe = RECIPES["quick"]
        figure.suptitle(f"RBF, {recipe.batch_size} tasks per step, K = {recipe.num_samples}, Adam {recipe.learning_rate:g}")
    save_figure(figure, RESULTS / "learning_curves.png")


def tabulate(records: dict[str, Any]) -> None:
    """A Markdown table: where validation started and ended, the test scores, and the cost."""
    lines = [
        "| model | parameters | validation, start | validation, best | test context | test target | test task | CPU-seconds |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for model, record in records.items():
        curve, test = record["curve"], record["test"]
        scores = [test["scores"][name]["mean"] for name in ("context", "target", "task")]
        numbers = [curve[0]["task"], max(row["task"] for row in curve), *scores]
        cells = [model, f"{test['parameters']:,}", *(f"{value:.3f}" for value in numbers), f"{curve[-1]['cpu_seconds']:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    write_atomically(RESULTS / "table.md", lambda file: file.write(("\n".join(lines) + "\n").encode()))


if __name__ == "__main__":
    main()
