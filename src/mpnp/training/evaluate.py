"""Score a trained run on fixed test tasks, next to the exact oracle."""

import dataclasses
import time
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.errors import DivergedError, InputError
from mpnp.evaluation.metrics import Summary, summarise
from mpnp.evaluation.oracle import has_oracle, oracle_scores
from mpnp.evaluation.scoring import make_scorer
from mpnp.io.files import environment, read_json
from mpnp.models.base import AbstractNeuralProcess
from mpnp.models.build import num_parameters
from mpnp.models.martingale import AbstractMartingaleNP
from mpnp.options import MOST_SAMPLES, require_count
from mpnp.tasks.base import TEST_SEED, Problem, TaskSource, fixed_tasks
from mpnp.tasks.registry import find_problem, task_dims
from mpnp.training.config import TEST_TASKS, RunConfig
from mpnp.training.rundir import PRETRAINED, RunDirectory, find_run, load_model

__all__ = ["TaskScores", "evaluate_run", "problem_for", "score_run", "with_num_pseudo"]

TaskScores = dict[str, Float[np.ndarray, " task"]]
"""Values of each metric, one per test task."""


def evaluate_run(
    directory: str | Path,
    *,
    task: str | None = None,
    num_tasks: int = TEST_TASKS,
    num_samples: int | None = None,
    num_pseudo: int | None = None,
) -> dict[str, Any]:
    """Scores of a run on the first `num_tasks` test tasks, as one JSON-serialisable record.

    By default the test tasks come from the family the run was trained on, and `num_samples` and `num_pseudo` are those of
    training. For a model that comes with mpnp, `num_samples` is that of its published scores.
    """
    record, _ = score_run(directory, task=task, num_tasks=num_tasks, num_samples=num_samples, num_pseudo=num_pseudo)
    return record


def score_run(
    directory: str | Path,
    *,
    task: str | None = None,
    num_tasks: int = TEST_TASKS,
    num_samples: int | None = None,
    num_pseudo: int | None = None,
) -> tuple[dict[str, Any], TaskScores]:
    """The record of `evaluate_run`, and the scores of every single task, for paired comparisons."""
    require_count("num_tasks", num_tasks)
    model, config, card = load_model(directory)
    model = with_num_pseudo(model, num_pseudo)
    run = RunDirectory(find_run(directory))
    task_name, num_samples = task or config.task, _usual_num_samples(run, config) if num_samples is None else num_samples
    require_count("num_samples", num_samples, most=MOST_SAMPLES)
    problem = problem_for(model, task_name)
    source = fixed_tasks(problem.test, TEST_SEED)
    started = time.process_time()
    scores = make_scorer(source, num_samples=num_samples)(model, num_tasks)
    cpu_seconds = time.process_time() - started
    broken = int((~np.isfinite(scores["task"])).sum())
    if broken:
        raise DivergedError(f"{directory} predicts non-finite numbers on {broken} of {num_tasks} test tasks; train it again")
    record = {
        "kind": "score",
        "model": config.model,
        "parameters": num_parameters(model),
        "task": task_name,
        "data": problem.data,
        "scores": summarise(scores),
        "oracle": _oracle(source, num_tasks, config.settings.sigma_min),
        "evaluation": {
            "test_seed": TEST_SEED,
            "num_tasks": num_tasks,
            "num_samples": num_samples,
            "num_pseudo": getattr(model, "num_pseudo", None),
            "cpu_seconds": round(cpu_seconds, 3),
            "environment": environment(),
        },
        "training": _training(config, card, run.cpu_seconds()),
    }
    return record, scores


def _usual_num_samples(run: RunDirectory, config: RunConfig) -> int:
    """The number used in training or, for a model that comes with mpnp, in its published scores, to check them."""
    published = run.scores(config.task)
    if run.path.parent == PRETRAINED and published.exists():
        return read_json(published)["evaluation"]["num_samples"]
    return config.recipe.num_samples


def problem_for(model: AbstractNeuralProcess, task: str) -> Problem:
    """The problem of that name, if its dimensions match the model's."""
    x_dim, y_dim = task_dims(task)
    if (x_dim, y_dim) != (model.x_dim, model.y_dim):
        raise InputError(
            f"the task '{task}' has {x_dim} input and {y_dim} output dimensions, but this model was trained "
            f"on {model.x_dim} and {model.y_dim}; choose a task with the same dimensions ('mpnp tasks' lists them)"
        )
    return find_problem(task)


def with_num_pseudo(model: AbstractNeuralProcess, num_pseudo: int | None) -> AbstractNeuralProcess:
    """The model with another number of pseudo points; unchanged if None."""
    if num_pseudo is None:
        return model
    if not isinstance(model, AbstractMartingaleNP):
        raise InputError("num_pseudo applies to martingale models only; this model has no pseudo context")
    return model.with_num_pseudo(num_pseudo)


def _oracle(source: TaskSource, num_tasks: int, sigma_min: float) -> dict[str, Any]:
    """Scores of the exact posterior on the same tasks, with and without the models' floor on the standard deviation."""
    if not has_oracle(source.family):
        return {"available": False, "reason": "the exact posterior of this task has no closed form"}
    indices = np.arange(num_tasks, dtype=np.uint32)
    floored = summarise(oracle_scores(source, indices, sigma_min=sigma_min))
    del floored["joint"]  # the exact joint density has no floor
    exact: Summary = summarise(oracle_scores(source, indices))
    return {"available": True, "sigma_min": sigma_min, "exact": exact, "floored": floored}


def _training(config: RunConfig, card: dict[str, Any], cpu_seconds: float | None) -> dict[str, Any]:
    return {
        "task": config.task,
        "seed": config.seed,
        "num_tasks": config.num_tasks,
        "recipe": dataclasses.asdict(config.recipe),
        "settings": dataclasses.asdict(config.settings),
        "best_step": card["progress"]["best_step"],
        "cpu_seconds": card["progress"]["cpu_seconds"] if cpu_seconds is None else cpu_seconds,
        "environment": card["environment"],
    }
