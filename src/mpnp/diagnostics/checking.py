"""Check a model: all sections on the same cases."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from mpnp.diagnostics.calibration import EXACT, calibration_sections, predict_targets
from mpnp.diagnostics.cases import Cases, cases_from_curves, cases_from_source
from mpnp.diagnostics.draws import generate_functions, resample_cases
from mpnp.diagnostics.exact import cases_from_gaussian_process
from mpnp.diagnostics.functionals import Functional, default_functionals, functionals_section
from mpnp.diagnostics.joint import joint_section
from mpnp.diagnostics.martingale import consistency_section, drift_section, spread_section
from mpnp.diagnostics.report import Report
from mpnp.diagnostics.sections import Section
from mpnp.errors import InputError
from mpnp.evaluation.oracle import has_oracle
from mpnp.inference.functions import DrawnFunctions
from mpnp.inference.leaderboard import NETWORK
from mpnp.inference.model import FittedModel
from mpnp.inference.prediction import Prediction
from mpnp.options import require_count, require_seed
from mpnp.tables.frames import read_curves
from mpnp.tasks.base import TEST_SEED, fixed_tasks
from mpnp.tasks.registry import find_problem

__all__ = ["NUM_TASKS", "check"]

NUM_TASKS = 80
"""Default number of tasks for which functions are drawn: about a minute of CPU time for a packaged CANP."""

MOST_TASKS = 100_000

TASKS_TO_PREDICT = 8
"""Predictions at single targets are cheap: so many times as many tasks are used for them."""


def check(
    model: FittedModel,
    curves: Any = None,
    *,
    task: str | None = None,
    functionals: Mapping[str, Functional] | None = None,
    num_tasks: int = NUM_TASKS,
    seed: int = 0,
    quiet: bool = False,
) -> Report:
    """Check how honest a model's predictions and drawn functions are.

    `curves` are held-out curves: a data frame with the model's columns, a list of pairs (X, y), or `Curves`. Without them,
    tasks are drawn from the family `task`, by default the one that the model was trained on. `functionals` are added to the
    default ones: each maps the inputs of some rows and the values of one output there to a number. Functions are drawn for at
    most `num_tasks` tasks. Of a model with rivals, it is the network that is checked.
    """
    model = model.use(NETWORK)
    require_seed(seed)
    require_count("num_tasks", num_tasks, least=2, most=MOST_TASKS)
    if curves is None:
        cases = _family_cases(model, task, num_tasks * TASKS_TO_PREDICT, seed)
    elif task is None:
        cases = cases_from_curves(model, read_curves(model.card.columns, curves), num_tasks * TASKS_TO_PREDICT, seed=seed)
    else:
        raise InputError("pass either curves or a task family to check the model on, not both")
    few = cases.first(num_tasks)
    sections = _sections(model, cases, few, functionals or {}, seed, quiet)
    description = f"{cases.description}; functions are drawn for {len(few):,} of them"
    return Report(_title(model), description, [section for section in sections if section is not None], seed)


def _family_cases(model: FittedModel, task: str | None, num_cases: int, seed: int) -> Cases:
    """Tasks drawn from a family, with the exact posterior where there is one."""
    trained_on, network, columns = model.card.about.get("task"), model.network, model.card.columns
    if trained_on is None:
        names = ", ".join((columns.task, *columns.inputs, *columns.outputs))
        raise InputError(
            "this model was fitted to curves, which its card does not hold: pass curves that it has not seen, with the columns "
            f"{names}"
        )
    name = task or trained_on
    family = find_problem(name).test
    if (family.x_dim, family.y_dim) != (network.x_dim, network.y_dim):
        raise InputError(
            f"the model reads {network.x_dim} input and {network.y_dim} output dimensions, but tasks of '{name}' have "
            f"{family.x_dim} and {family.y_dim}; choose another task"
        )
    # Hashed, so that no seed of a check gives the tasks of training.
    source = fixed_tasks(family, int(np.random.SeedSequence([TEST_SEED, seed]).generate_state(1)[0]))
    draw = cases_from_gaussian_process if has_oracle(family) else cases_from_source
    return draw(source, name, num_cases)


def _sections(
    model: FittedModel, cases: Cases, few: Cases, functionals: Mapping[str, Functional], seed: int, quiet: bool
) -> list[Section | None]:
    """All sections: predictions are checked on all cases, and functions on a few."""
    predictions, columns = predict_targets(model, cases), model.card.columns
    turns = resample_cases(model, few, seed=seed)
    resampled = list(tqdm(turns, "resampling", len(few), unit="task", disable=True if quiet else None))
    functions: dict[str, Sequence[DrawnFunctions | Prediction]] = {"resampled": [part.functions for part in resampled]}
    if model.network.num_components(2) > 1:
        functions["generated"] = generate_functions(model, few)
    wanted = default_functionals(len(columns.inputs)) | dict(functionals)
    return [
        *calibration_sections(model, cases, predictions, seed=seed),
        functionals_section(few, _draws(few, functions, seed), wanted, columns.outputs, seed=seed),
        None if columns.noise else joint_section(model, few, predictions[: len(few)], seed=seed, quiet=quiet),
        drift_section(few, resampled),
        spread_section(model, few),
        consistency_section(model, few, seed=seed),
    ]


def _draws(
    cases: Cases, functions: Mapping[str, Sequence[DrawnFunctions | Prediction]], seed: int
) -> dict[str, list[np.ndarray]]:
    """Values of drawn functions, or observations of them if the truth is known by its observations only."""
    rng = np.random.default_rng([seed, 1])
    draws = {
        way: [part.observe(rng) if cases.noisy else part.loc for part in predictions] for way, predictions in functions.items()
    }
    if cases.has_exact:
        num = len(draws["resampled"][0])
        draws[EXACT] = [case.exact.sample(num, rng) for case in cases if case.exact is not None]
    return draws


def _title(model: FittedModel) -> str:
    task = model.card.about.get("task")
    return model.card.model if task is None else f"{model.card.model} trained on '{task}'"
