"""Score the pretrained models of regression once more, on tasks and with a metric that NumPy alone computes.

    python benchmarks/numpy_scores.py [--tasks 1500]

Nothing of mpnp's task families or metrics is used: functions are drawn from the paper's priors by a Cholesky factor in double
precision, and a model answers through `condition` and `log_prob`, as users ask it. Its scores agree with those on its own
card, up to their standard errors, only if families, metrics and files are what the documents say. Writes a record and a table
to `results/pretrained`.
"""

import argparse
import dataclasses
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.inference.model import load
from mpnp.io.compile_cache import keep_compiled_programs
from mpnp.io.files import environment, read_json, write_atomically, write_json
from mpnp.reproduce.tables import markdown
from mpnp.training.rundir import PRETRAINED

RESULTS = Path(__file__).parents[1] / "results" / "pretrained"
SEED = 20261119
NOISE = 0.02
MOST_POINTS = 50
NUM_SAMPLES = 10
"""Function samples per task, as in the records that scores are compared with."""

Kernel = Callable[[Float[np.ndarray, "point point"]], Float[np.ndarray, "point point"]]
"""Covariances from distances."""


@dataclasses.dataclass(frozen=True)
class NumPyTask:
    """A task of the paper's protocol; the first `num_context` points are the context."""

    x: Float[np.ndarray, " point"]
    y: Float[np.ndarray, " point"]
    num_context: int


def main() -> None:
    """Score every pretrained model of a family below, then tabulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=1_500, help="tasks per family (default 1,500)")
    options = parser.parse_args()
    keep_compiled_programs()
    warnings.simplefilter("ignore")  # unusual contexts count like any other here
    tasks = {family: draw_tasks(family, options.tasks) for family in KERNELS}
    rows = [score(folder, tasks) for folder in sorted(PRETRAINED.iterdir()) if family_of(folder) in KERNELS]
    protocol = {"seed": SEED, "tasks": options.tasks, "num_samples": NUM_SAMPLES}
    write_json(
        RESULTS / "numpy-scores.json",
        {"kind": "numpy-scores", "protocol": protocol, "models": rows, "environment": environment()},
    )
    table = tabulate(rows)
    write_atomically(RESULTS / "numpy-scores.md", lambda file: file.write(table.encode()))
    print(table)


def family_of(folder: Path) -> str | None:
    """The family that a pretrained model was trained on."""
    return read_json(folder / "config.json")["task"] if folder.is_dir() else None


def rbf(rng: np.random.Generator) -> Kernel:
    """A kernel of the family `rbf`."""
    length, scale = rng.uniform(0.1, 0.6), rng.uniform(0.1, 1.0)
    return lambda distance: scale**2 * np.exp(-0.5 * (distance / length) ** 2)


def matern(rng: np.random.Generator) -> Kernel:
    """A kernel of the family `matern`."""
    length, scale = rng.uniform(0.1, 0.6), rng.uniform(0.1, 1.0)

    def kernel(distance: Float[np.ndarray, "point point"]) -> Float[np.ndarray, "point point"]:
        ratio = distance / length
        return scale**2 * (1 + np.sqrt(5) * ratio + 5 / 3 * ratio**2) * np.exp(-np.sqrt(5) * ratio)

    return kernel


KERNELS = {"rbf": rbf, "matern": matern}


def draw_tasks(family: str, num_tasks: int) -> list[NumPyTask]:
    """Tasks of a family, by the seed."""
    rng = np.random.default_rng([SEED, sorted(KERNELS).index(family)])
    return [_draw(KERNELS[family](rng), rng) for _ in range(num_tasks)]


def _draw(kernel: Kernel, rng: np.random.Generator) -> NumPyTask:
    num_context = rng.integers(3, MOST_POINTS - 2)
    num_points = num_context + rng.integers(3, MOST_POINTS - num_context + 1)
    x = rng.uniform(-2, 2, num_points)
    covariance = kernel(np.abs(x[:, None] - x)) + NOISE**2 * np.eye(num_points)
    return NumPyTask(x, np.linalg.cholesky(covariance) @ rng.normal(size=num_points), int(num_context))


def score(folder: Path, tasks: dict[str, list[NumPyTask]]) -> dict[str, Any]:
    """Log-likelihood of context and target: the mean over points of a task, then over tasks."""
    model, family = load(folder), family_of(folder)
    (card,) = (folder / "scores").iterdir()
    scores = []
    for task in tasks[family or ""]:
        context = slice(task.num_context)
        posterior = model.condition(task.x[context], task.y[context], num_samples=NUM_SAMPLES)
        density = np.asarray(posterior.log_prob(task.x, task.y)).reshape(-1)
        scores.append((density[context].mean(), density[task.num_context :].mean()))
    columns = {
        name: {"mean": float(values.mean()), "standard_error": float(values.std(ddof=1) / np.sqrt(len(values)))}
        for name, values in zip(("context", "target"), np.array(scores).T, strict=True)
    }
    published = {name: read_json(card)["scores"][name] for name in columns}
    return {"model": folder.name, "scores": columns, "card": published}


def tabulate(rows: list[dict[str, Any]]) -> str:
    """One row per model, with the difference of target scores in standard errors of the difference."""
    header = ["model", "context", "on its card", "target", "on its card", "difference", "in standard errors"]
    return markdown(header, [_cells(row) for row in rows])


def _cells(row: dict[str, Any]) -> list[str]:
    shown = [
        f"{score['mean']:.3f} ± {score['standard_error']:.3f}"
        for name in ("context", "target")
        for score in (row["scores"][name], row["card"][name])
    ]
    own, published = row["scores"]["target"], row["card"]["target"]
    difference = own["mean"] - published["mean"]
    error = float(np.hypot(own["standard_error"], published["standard_error"]))
    return [f"`{row['model']}`", *shown, f"{difference:+.3f}", f"{difference / error:+.1f}"]


if __name__ == "__main__":
    main()
