"""What a campaign would cost on one GPU, estimated from the operations of a training step as the compiler counts them.

    python benchmarks/gpu_estimate.py

Operations come from `results/speed/training.json`: 256 padded tasks of 50 points, K = 10. They are scaled by tasks, points and
functions, and divided by the rates that a GPU may sustain on products this small. Nothing was run on a GPU. Tests and
validations are not counted, nor models without a record. Written to `results/speed/gpu.md`.
"""

from pathlib import Path

from mpnp.io.files import read_json, write_atomically
from mpnp.models.registry import MODELS
from mpnp.reproduce.budgets import BUDGETS, Budget
from mpnp.reproduce.experiments import EXPERIMENTS
from mpnp.reproduce.rows import Run
from mpnp.reproduce.tables import markdown
from mpnp.tasks.protocol import FUNCTION_POINTS
from mpnp.tasks.registry import task_reach
from mpnp.training.config import RECIPES

SPEED = Path(__file__).parents[1] / "results" / "speed"
RATES = (1, 5, 20)
"""Sustained rates in teraflops, from a small GPU to a good share of a large one's single precision."""
TABLES = ("regression", "size-matched", "4d", "finite-data", "direct", "images", "predator-prey")


def main() -> None:
    """Add up the operations of each table's runs."""
    operations = {row["model"]: row["padded_gigaflops"] for row in read_json(SPEED / "training.json")["rows"]}
    rows = [_cells(budget, name, operations) for budget in (BUDGETS["day"], BUDGETS["paper"]) for name in TABLES]
    table = markdown(["budget", "table", "runs counted", "PFLOP", *(f"hours at {rate} TFLOP/s" for rate in RATES)], rows)
    write_atomically(SPEED / "gpu.md", lambda file: file.write(table.encode()))
    print(table)


def _cells(budget: Budget, name: str, operations: dict[str, float]) -> list[str]:
    runs = {run for run in _runs(budget, name) if run.model in operations}
    total = sum(_gigaflops(run, operations) for run in runs)
    hours = (total / (1e3 * rate) / 3600 for rate in RATES)
    return [budget.name, name, str(len(runs)), f"{total / 1e6:,.1f}", *(f"{value:,.1f}" for value in hours)]


def _runs(budget: Budget, name: str) -> list[Run]:
    """All runs of a table at the first of its learning rates; trials of other rates are not counted."""
    rows = EXPERIMENTS[name].rows(budget)
    seeds = range(budget.num_seeds)
    return [row.run(budget.efforts[row.group], seed, budget.efforts[row.group].rates[0]) for row in rows for seed in seeds]


def _gigaflops(run: Run, operations: dict[str, float]) -> float:
    core = MODELS[run.model].core
    share = run.recipe.core_share if core is not None else 0.0
    whole = (1 - share) * _per_step(run, run.model, operations)
    return run.recipe.steps * (whole + (share * _per_step(run, core, operations) if core is not None else 0.0))


def _per_step(run: Run, model: str, operations: dict[str, float]) -> float:
    measured, recipe = RECIPES["paper"], run.recipe
    functions = 1.0 if MODELS[model].base == model else recipe.num_samples / measured.num_samples
    points = task_reach(run.task)[2] / FUNCTION_POINTS
    return operations[model] * recipe.batch_size / measured.batch_size * functions * points


if __name__ == "__main__":
    main()
