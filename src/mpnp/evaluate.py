"""Score a trained run on fixed test tasks, beside the exact oracle, as one record."""

import dataclasses
import time
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.errors import DivergedError, InputError
from mpnp.metrics import Summary, summarise
from mpnp.models.catalogue import num_parameters
from mpnp.models.contract import AbstractNeuralProcess
from mpnp.models.martingale import AbstractMartingaleNP
from mpnp.oracle import has_oracle, oracle_scores
from mpnp.records import environment
from mpnp.runs import RunConfig, RunDirectory, find_run, load_model
from mpnp.scoring import make_scorer
from mpnp.tasks.catalogue import find_problem, task_dims
from mpnp.tasks.sources import TEST_SEED, Problem, TaskSource, fixed_tasks

__all__ = ["TaskScores", "evaluate_run", "problem_for", "score_run", "with_num_pseudo"]

TaskScores = dict[str, Float[np.ndarray, " task"]]
"""Each metric of each test task."""


def evaluate_run(
    directory: str | Path,
    *,
    task: str | None = None,
    num_tasks: int = 2_560,
    num_samples: int | None = None,
    num_pseudo: int | None = None,
) -> dict[str, Any]:
    """The record of a run's scores on the first `num_tasks` test tasks of its own family, or of another."""
    record, _ = score_run(directory, task=task, num_tasks=num_tasks, num_samples=num_samples, num_pseudo=num_pseudo)
    return record


def score_run(
    directory: str | Path,
    *,
    task: str | None = None,
    num_tasks: int = 2_560,
    num_samples: int | None = None,
    num_pseudo: int | None = None,
) -> tuple[dict[str, Any], TaskScores]:
    """The same record, and the scores of each task that it sums up: models are compared task by task."""
    if num_tasks < 1:
        raise InputError(f"num_tasks must be at least 1, got {num_tasks}")
    model, config, card = load_model(directory)
    model = with_num_pseudo(model, num_pseudo)
    task_name, num_samples = task or config.task, config.recipe.num_samples if num_samples is None else num_samples
    problem = problem_for(model, task_name)
    source = fixed_tasks(problem.test, TEST_SEED)
    started = time.process_time()
    scores = make_scorer(source, num_samples=num_samples)(model, num_tasks)
    cpu_seconds = time.process_time() - started
    broken = int((~np.isfinite(scores["task"])).sum())
    if broken:
        raise DivergedError(
            f"{directory} predicts numbers that are not finite on {broken} of {num_tasks} test tasks; train it anew"
        )
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
        "training": _training(config, card, RunDirectory(find_run(directory)).cpu_seconds()),
    }
    return record, scores


def problem_for(model: AbstractNeuralProcess, task: str) -> Problem:
    """The tasks of that name, if the model can read them."""
    x_dim, y_dim = task_dims(task)
    if (x_dim, y_dim) != (model.x_dim, model.y_dim):
        raise InputError(
            f"the task '{task}' has {x_dim} input and {y_dim} output dimensions, but this model was trained "
            f"on {model.x_dim} and {model.y_dim}; choose a task of the same dimensions ('mpnp tasks' lists them)"
        )
    return find_problem(task)


def with_num_pseudo(model: AbstractNeuralProcess, num_pseudo: int | None) -> AbstractNeuralProcess:
    """The model with another number of pseudo points, if one is asked for."""
    if num_pseudo is None:
        return model
    if not isinstance(model, AbstractMartingaleNP):
        raise InputError("num_pseudo applies to martingale models only; this model has no pseudo context")
    return model.with_num_pseudo(num_pseudo)


def _oracle(source: TaskSource, num_tasks: int, sigma_min: float) -> dict[str, Any]:
    """Exact posterior scores on the same tasks: as they are, and under the models' floor on the standard deviation."""
    if not has_oracle(source.family):
        return {"available": False, "reason": "the exact posterior of this task has no closed form"}
    indices = np.arange(num_tasks, dtype=np.uint32)
    floored = summarise(oracle_scores(source, indices, sigma_min=sigma_min))
    del floored["joint"]  # the exact joint density knows no floor
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
