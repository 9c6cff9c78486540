"""The paper's Bayesian optimisation study, with the models of the regression table."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mpnp.bayesopt.acquisition import ACQUISITIONS
from mpnp.bayesopt.benchmark import SUMMARY_HEADER, Study, read_acquisitions, read_records, run_named, summary_cells
from mpnp.bayesopt.figures import acquisitions_figure, predicted_figure, regret_figure
from mpnp.bayesopt.objectives import OBJECTIVES
from mpnp.bayesopt.registry import PRETRAINED_PROCESS
from mpnp.bayesopt.strategies import RANDOM
from mpnp.reproduce.campaign import Campaign
from mpnp.reproduce.figures import save_figures
from mpnp.reproduce.model_groups import MARTINGALE_MODELS
from mpnp.reproduce.rows import ExperimentRow
from mpnp.reproduce.tables import Table, save_tables

GAUSSIAN_PROCESS = "gp"
"""The pretrained process's name in records and tables."""

__all__ = ["run_searches", "search_figures", "search_table", "unsearched"]


def run_searches(campaign: Campaign, rows: Sequence[ExperimentRow]) -> None:
    """Search both functions with every model of seed 0, a pretrained Gaussian process, and random search.

    The martingale models and the Gaussian process are also run with all other acquisitions.
    """
    models: dict[str, str | Path] = {**campaign.trained(rows), GAUSSIAN_PROCESS: PRETRAINED_PROCESS, RANDOM: RANDOM}
    for study, labels in _strategies(campaign, [row.label for row in rows]).items():
        run_named(study, {label: models[label] for label in labels if label in models}, _folder(campaign), quiet=True)


def unsearched(campaign: Campaign, rows: Sequence[ExperimentRow]) -> list[ExperimentRow]:
    """Rows whose models still have searches to run."""
    lacking = {
        label
        for study, labels in _strategies(campaign, [row.label for row in rows]).items()
        for label in set(labels) - read_records(_folder(campaign), study).keys()
    }
    return [row for row in rows if row.label in lacking]


def search_table(campaign: Campaign, rows: Sequence[ExperimentRow]) -> list[Path]:
    """Table of the final and the summed regret: medians, quartiles and means over trials."""
    cells = []
    for study in _studies(campaign):
        for acquisition, records in _read(campaign, study, rows).items():
            cells += [
                [study.objective, acquisition.replace("-", " "), label, *summary_cells(record), *_cost(record)]
                for label, record in records.items()
            ]
    caption = (
        f"Bayesian optimisation, budget '{campaign.budget.name}': normalised simple regret after "
        f"{campaign.budget.num_iterations} iterations, and its sum over them; medians, quartiles and means over trials."
    )
    header = ["function", "acquisition", "model", *SUMMARY_HEADER, "trials", "CPU-s"]
    return save_tables(campaign, "bayesopt", [Table("bayesopt", caption, header, cells)]) if cells else []


def _cost(record: Mapping[str, Any]) -> list[str]:
    return [f"{record['settings']['num_trials']}", f"{record['cpu_seconds']:,.0f}"]


def search_figures(campaign: Campaign, rows: Sequence[ExperimentRow]) -> list[Path]:
    """Figures of regret, of predicted solutions, and of acquisitions compared."""
    figures = {}
    for study in _studies(campaign):
        by_acquisition = _read(campaign, study, rows)
        if records := by_acquisition.get(study.acquisition):
            figures[f"bayesopt-{study.objective}-regret"] = regret_figure(records)
            if (predicted := predicted_figure(records)) is not None:
                figures[f"bayesopt-{study.objective}-predicted"] = predicted
            if (acquisitions := acquisitions_figure(by_acquisition)) is not None:
                figures[f"bayesopt-{study.objective}-acquisitions"] = acquisitions
    return save_figures(campaign, figures)


def _read(campaign: Campaign, study: Study, rows: Sequence[ExperimentRow]) -> dict[str, dict[str, Any]]:
    """Records by acquisition and model, with models in the paper's order."""
    order = [*(row.label for row in rows), GAUSSIAN_PROCESS, RANDOM]
    return {
        acquisition: {label: records[label] for label in order if label in records}
        for acquisition, records in read_acquisitions(_folder(campaign), study).items()
    }


def _studies(campaign: Campaign) -> list[Study]:
    budget = campaign.budget
    return [Study(name, num_trials=budget.num_searches, num_iterations=budget.num_iterations) for name in OBJECTIVES]


def _strategies(campaign: Campaign, labels: Sequence[str]) -> dict[Study, list[str]]:
    """Strategies of each study, by label."""
    martingale = [label for label in MARTINGALE_MODELS if label in labels]
    strategies = {}
    for study in _studies(campaign):
        strategies[study] = [*labels, GAUSSIAN_PROCESS, RANDOM]
        others = [dataclasses.replace(study, acquisition=name) for name in ACQUISITIONS if name != study.acquisition]
        strategies |= {other: [*martingale, GAUSSIAN_PROCESS] for other in others}
    return strategies


def _folder(campaign: Campaign) -> Path:
    return campaign.folder / "bayesopt"
