"""Registry of the paper's tables and figures: the rows each one needs, and the files it writes."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from mpnp.errors import unknown_name
from mpnp.models.config import ModelSettings
from mpnp.models.registry import MODELS
from mpnp.reproduce import figures, pseudo_contexts, searches
from mpnp.reproduce.budgets import Budget
from mpnp.reproduce.campaign import Campaign
from mpnp.reproduce.model_groups import (
    DIRECT_MODELS,
    MARTINGALE_MODELS,
    PAPER_MODELS,
    TRANSFORMER_MODELS,
    matched_width,
)
from mpnp.reproduce.rows import ExperimentRow
from mpnp.reproduce.tables import TableView, write_tables

__all__ = ["EXPERIMENTS", "REGRESSION_TASKS", "Experiment", "find_experiment"]

REGRESSION_TASKS = ("rbf", "matern", "periodic", "t-noise")
NUM_PSEUDO = (1, 10, 50)

Rows = Callable[[Budget], list[ExperimentRow]]

Output = Callable[[Campaign, Sequence[ExperimentRow]], list[Path]]
"""Writes what the existing records and runs allow, and returns the paths of the files."""

Shown = Callable[[Sequence[ExperimentRow]], list[ExperimentRow]]
"""Of an experiment's rows, those whose trained models its figures show."""

Needs = Callable[[Campaign, Sequence[ExperimentRow]], list[ExperimentRow]]
"""Rows whose trained models are needed in addition to their records."""


def _no_models(campaign: Campaign, rows: Sequence[ExperimentRow]) -> list[ExperimentRow]:
    return []


def _all_models(campaign: Campaign, rows: Sequence[ExperimentRow]) -> list[ExperimentRow]:
    return list(rows)


def _no_rows(rows: Sequence[ExperimentRow]) -> list[ExperimentRow]:
    return []


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper, or a study of what it leaves open."""

    name: str
    title: str
    rows: Rows
    outputs: tuple[Output, ...]
    study: Callable[[Campaign, Sequence[ExperimentRow]], None] | None = None
    """Measurements on trained models beyond their test scores."""
    needs: Needs = _no_models
    shown: Shown = _no_rows


# Rows


def _rows(
    budget: Budget, models: Iterable[str], tasks: Iterable[str], group: str, *, num_tasks: int | None = None
) -> list[ExperimentRow]:
    settings = budget.settings_of(group)
    return [ExperimentRow(model, task, group, task, settings, num_tasks) for task in tasks for model in models]


def _by_backbone(budget: Budget, models: Iterable[str], tasks: Iterable[str]) -> list[ExperimentRow]:
    """Rows of one-dimensional regression, grouped by backbone."""
    return [row for task in tasks for model in models for row in _rows(budget, (model,), (task,), MODELS[model].backbone)]


def _regression(budget: Budget) -> list[ExperimentRow]:
    later = TRANSFORMER_MODELS if "transformer" in budget.efforts else ()
    return _by_backbone(budget, (*PAPER_MODELS, *later), REGRESSION_TASKS)


def _on_rbf(*models: str) -> Rows:
    return lambda budget: _by_backbone(budget, models, ("rbf",))


def _finite_data(budget: Budget) -> list[ExperimentRow]:
    return [
        row
        for size in budget.finite_sizes
        for row in _rows(budget, PAPER_MODELS, REGRESSION_TASKS, "finite-data", num_tasks=size)
    ]


def _size_matched(budget: Budget) -> list[ExperimentRow]:
    rows = _by_backbone(budget, PAPER_MODELS, ("rbf", "matern"))
    return [dataclasses.replace(row, settings=_matched(row)) for row in rows]


def _matched(row: ExperimentRow) -> ModelSettings:
    if row.model == MODELS[row.model].partner:
        return row.settings
    return dataclasses.replace(row.settings, encoder_width=matched_width(row.model, row.settings))


def _four_dimensional(budget: Budget) -> list[ExperimentRow]:
    return _rows(budget, PAPER_MODELS, ("rbf-4d",), "4d")


def _images(budget: Budget) -> list[ExperimentRow]:
    return [row for name in ("mnist", "svhn", "celeba") for row in _rows(budget, PAPER_MODELS, (name,), name)]


def _predator_prey(budget: Budget) -> list[ExperimentRow]:
    simulated = _rows(budget, PAPER_MODELS, ("lotka-volterra",), "predator-prey")
    return simulated + [dataclasses.replace(row, tested_on="hare-lynx") for row in simulated]


def _num_pseudo(budget: Budget) -> list[ExperimentRow]:
    (row,) = _rows(budget, ("mpnp",), ("rbf",), "num-pseudo")
    return [dataclasses.replace(row, settings=dataclasses.replace(budget.settings, num_pseudo=number)) for number in NUM_PSEUDO]


# Outputs

ABOVE_ITS_ORACLE = (
    "Our own protocol: x uniform in [-2, 2] in each of four dimensions, at most 50 points. No difference to the paper is "
    "given: its numbers lie above what exact inference reaches under the protocol it states."
)

OVERLAPPING = (
    "Tasks of hare-lynx are overlapping windows of one series of 91 years: standard errors and intervals hold for windows of "
    "this series, not for other series."
)


def _table(view: TableView, rows: Rows, *more: Output, shown: Shown = _no_rows) -> Experiment:
    """A table together with its learning curves."""
    outputs = (functools.partial(_write, view), functools.partial(figures.learning_curves, view.name), *more)
    return Experiment(view.name, view.title, rows, outputs, shown=shown)


def _write(view: TableView, campaign: Campaign, rows: Sequence[ExperimentRow]) -> list[Path]:
    return write_tables(campaign, view, rows)


_ALL = (
    _table(
        TableView("regression", "1-D regression", "regression", metrics=("context", "target")),
        _regression,
        functools.partial(figures.scores_figure, "regression"),
    ),
    _table(TableView("regression-full", "1-D regression with task log-likelihoods", "regression"), _regression),
    _table(TableView("finite-data", "1-D regression from finite training sets"), _finite_data, figures.finite_data_figure),
    _table(TableView("size-matched", "Baselines enlarged to the martingale models' size", "size-matched"), _size_matched),
    _table(TableView("4d", "4-D regression", "4d", differences=False, remark=ABOVE_ITS_ORACLE), _four_dimensional),
    _table(TableView("images", "Image completion", "images"), _images, figures.image_figures, shown=figures.completed_rows),
    _table(
        TableView("predator-prey", "Predators and prey", "predator-prey", remark=OVERLAPPING),
        _predator_prey,
        figures.population_figures,
        shown=figures.population_rows,
    ),
    Experiment(
        "bayesopt",
        "Bayesian optimisation",
        _on_rbf(*PAPER_MODELS),
        (searches.search_table, searches.search_figures),
        searches.run_searches,
        searches.unsearched,
    ),
    _table(
        TableView("direct", "Directly generating models", "direct"),
        _on_rbf(*DIRECT_MODELS),
        figures.direct_figures,
        shown=figures.direct_rows,
    ),
    Experiment(
        "posterior-samples",
        "Posterior samples of MPANP",
        _on_rbf("mpanp"),
        (figures.sample_figure,),
        needs=_all_models,
        shown=list,
    ),
    Experiment(
        "num-pseudo",
        "Number of pseudo points in training",
        _num_pseudo,
        (pseudo_contexts.num_pseudo_table, functools.partial(figures.learning_curves, "num-pseudo")),
    ),
    Experiment(
        "pseudo-use",
        "What pseudo contexts do in trained models",
        _on_rbf(*MARTINGALE_MODELS),
        (pseudo_contexts.pseudo_table, pseudo_contexts.pseudo_figure),
        pseudo_contexts.measure_pseudo_use,
        pseudo_contexts.unmeasured,
    ),
    Experiment(
        "learning-curves",
        "Validation against CPU time, 1-D regression",
        _regression,
        (functools.partial(figures.learning_curves, "regression"),),
    ),
)

EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _ALL}
"""In the order of the paper."""


def find_experiment(name: str) -> Experiment:
    """The table or figure of that name."""
    if name not in EXPERIMENTS:
        raise unknown_name("table or figure", name, EXPERIMENTS, "Run 'mpnp reproduce' to see them all.")
    return EXPERIMENTS[name]
