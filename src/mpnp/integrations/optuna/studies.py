"""Finished Optuna studies as tasks that a neural process learns from."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from optuna.search_space import intersection_search_space  # pyright: ignore[reportMissingImports]
from optuna.study import Study, StudyDirection  # pyright: ignore[reportMissingImports]
from optuna.trial import FrozenTrial, TrialState  # pyright: ignore[reportMissingImports]

from mpnp.errors import InputError
from mpnp.integrations.optuna.space import Space
from mpnp.tables.columns import Schema
from mpnp.tables.curves import Curves

__all__ = ["COST", "STUDY", "cost", "is_finished", "require_one_objective", "tasks_from_studies"]

COST, STUDY = "cost", "study"
"""Names of the output column, which is always minimised, and of the task column."""


def tasks_from_studies(studies: Iterable[Study]) -> Curves:
    """One task per study: parameters are inputs, and values, negated if the study maximises, are the output.

    Values are not standardised per study, so that a model can learn how low they get. All studies must have the same numeric
    parameters; ranges may differ. Failed and pruned trials are left out.

        regressor = NeuralProcessRegressor().fit(tasks_from_studies(studies))
        sampler = NeuralProcessSampler(regressor.model_)
    """
    studies = list(studies)
    if not studies:
        raise InputError("there are no studies to learn from")
    pairs, names = [], []
    columns: tuple[str, ...] | None = None
    for study in studies:
        require_one_objective(study)
        trials = [trial for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)) if is_finished(trial)]
        if not trials:
            continue
        space = Space.of(intersection_search_space(trials))
        _require_same(study, space, columns)
        columns = space.columns
        pairs.append((space.places([trial.params for trial in trials]), np.asarray(_costs(study, trials))))
        names.append(study.study_name)
    if columns is None:
        raise InputError(f"none of the {len(studies)} studies has a finished trial; run them first")
    unique = names if len(set(names)) == len(names) else [f"{name} ({number})" for number, name in enumerate(names)]
    return Curves.from_pairs(pairs, names=unique, columns=Schema.named(columns, (COST,), STUDY))


def require_one_objective(study: Study) -> None:
    """Raise an error for a study with several objectives."""
    if len(study.directions) != 1:
        raise InputError(
            f"a study must have one objective, but this one has {len(study.directions)} objectives; combine them, or use "
            "optuna.samplers.NSGAIISampler"
        )


def is_finished(trial: FrozenTrial) -> bool:
    """Whether a trial is complete, with a finite value."""
    return trial.state == TrialState.COMPLETE and trial.value is not None and math.isfinite(trial.value)


def cost(study: Study, trial: FrozenTrial) -> float:
    """The value of a finished trial, negated if the study maximises: lower is better."""
    assert trial.value is not None
    return -trial.value if study.direction == StudyDirection.MAXIMIZE else trial.value


def _costs(study: Study, trials: Sequence[FrozenTrial]) -> list[float]:
    return [cost(study, trial) for trial in trials]


def _require_same(study: Study, space: Space, columns: tuple[str, ...] | None) -> None:
    if not space.names:
        raise InputError(
            f"the trials of study '{study.study_name}' have no parameter in common; every trial must suggest the same ones, "
            "within the same bounds"
        )
    if columns is not None and space.columns != columns:
        raise InputError(
            f"all studies must have the same parameters on the same scales, but study '{study.study_name}' has "
            f"{', '.join(space.columns)}, and others have {', '.join(columns)}"
        )
