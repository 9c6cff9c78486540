"""Log-likelihood against CPU-seconds on RBF: the paper's recipe at two of its learning rates, and the fast recipe.

    python benchmarks/recipe_curves.py [NAME ...]

Runs live in `runs/recipes` and resume if interrupted; each finished one leaves a record in `results/recipes`.
"""

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from curves import read_curve

from mpnp import checkpoint
from mpnp.recipes import LEARNING_RATE_GRID, RECIPES, Recipe
from mpnp.records import write_json
from mpnp.runs import RunConfig, RunDirectory
from mpnp.train import resume, train

RESULTS = Path(__file__).parents[1] / "results" / "recipes"
MIDDLE, LARGEST = LEARNING_RATE_GRID[2], LEARNING_RATE_GRID[4]


def shortened(recipe: Recipe, steps: int) -> Recipe:
    """A recipe over fewer steps, validated forty times."""
    return dataclasses.replace(
        recipe, steps=steps, validate_every=steps // 40, validation_tasks=1_024, checkpoint_every=steps // 40
    )


PAPER_STEPS = {"cnp": 10_000, "canp": 3_000, "mpnp": 3_000, "mpanp": 1_500}
FAST_STEPS = {"cnp": 2_400, "canp": 1_000, "mpnp": 2_400, "mpanp": 1_000}
"""About a tenth of the CPU time of the paper's recipe."""

RUNS: dict[str, RunConfig] = {
    f"{model}-adam-{size}": RunConfig(model, recipe=shortened(Recipe(learning_rate=learning_rate), steps))
    for model, steps in PAPER_STEPS.items()
    for size, learning_rate in {"middle": MIDDLE, "largest": LARGEST}.items()
} | {f"{model}-fast": RunConfig(model, recipe=shortened(RECIPES["fast"], steps)) for model, steps in FAST_STEPS.items()}


def main() -> None:
    """Make the records that are missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"only these of {', '.join(RUNS)}")
    parser.add_argument("--runs", type=Path, default=Path("runs/recipes"), help="where the runs live")
    options = parser.parse_args()
    for name in options.names or RUNS:
        if not (RESULTS / f"{name}.json").exists():
            write_json(RESULTS / f"{name}.json", make_record(RUNS[name], options.runs / name))


def make_record(config: RunConfig, directory: Path) -> dict[str, Any]:
    """Train if need be, then gather validation scores and what they cost."""
    run = RunDirectory(directory)
    if not run.config_file.exists():
        train(config, directory)
    elif not run.last.exists() or checkpoint.read_card(run.last)["progress"]["step"] < config.recipe.steps:
        resume(directory)
    card = checkpoint.read_card(run.last)
    return {"kind": "recipe-curve", "config": card["config"], "curve": read_curve(run), "environment": card["environment"]}


if __name__ == "__main__":
    main()
