"""The paper's study of Bayesian optimisation, with the models of the regression table."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mpnp.bayesopt.figures import acquisitions_figure, predicted_figure, regret_figure
from mpnp.bayesopt.objectives import OBJECTIVES
from mpnp.bayesopt.strategies import ACQUISITIONS, GAUSSIAN_PROCESS, RANDOM
from mpnp.bayesopt.study import Study, read_acquisitions, read_records, regret_quartiles, run_named
from mpnp.reproduce.campaign import Campaign
from mpnp.reproduce.figures import save_figures
from mpnp.reproduce.lines import Line
from mpnp.reproduce.tables import Table, save_tables

__all__ = ["run_searches", "search_figures", "search_table", "unsearched"]

MARTINGALE = ("mpnp", "mpanp")


def run_searches(campaign: Campaign, lines: Sequence[Line]) -> None:
    """Search both functions with every model of seed 0, with a pre-trained Gaussian process and at random.

    The martingale models and the Gaussian process search with every other acquisition too.
    """
    models: dict[str, str | Path] = {**campaign.trained(lines), GAUSSIAN_PROCESS: GAUSSIAN_PROCESS, RANDOM: RANDOM}
    for study, labels in _strategies(campaign, [line.label for line in lines]).items():
        run_named(study, {label: models[label] for label in labels if label in models}, _folder(campaign), quiet=True)


def unsearched(campaign: Campaign, lines: Sequence[Line]) -> list[Line]:
    """Lines whose models have searches to make."""
    lacking = {
        label
        for study, labels in _strategies(campaign, [line.label for line in lines]).items()
        for label in set(labels) - read_records(_folder(campaign), study).keys()
    }
    return [line for line in lines if line.label in lacking]


def search_table(campaign: Campaign, lines: Sequence[Line]) -> list[Path]:
    """Regret at the end and its sum, median and quartiles over trials."""
    rows = []
    for study in _studies(campaign):
        for acquisition, records in _read(campaign, study, lines).items():
            rows += [
                [study.objective, acquisition.replace("-", " "), *_cells(label, record)] for label, record in records.items()
            ]
    caption = (
        f"Bayesian optimisation, budget '{campaign.budget.name}': normalised simple regret after "
        f"{campaign.budget.num_iterations} iterations, and its sum over them; medians and quartiles over trials."
    )
    header = ["function", "acquisition", "model", "regret", "quartiles", "sum", "quartiles", "trials", "CPU-s"]
    return save_tables(campaign, "bayesopt", [Table("bayesopt", caption, header, rows)]) if rows else []


def _cells(label: str, record: Mapping[str, Any]) -> list[str]:
    cells = [label]
    for (low, median, high), digits in zip(regret_quartiles(record).values(), (5, 2), strict=True):
        cells += [f"{median:.{digits}f}", f"{low:.{digits}f} to {high:.{digits}f}"]
    return [*cells, f"{record['settings']['num_trials']}", f"{record['cpu_seconds']:,.0f}"]


def search_figures(campaign: Campaign, lines: Sequence[Line]) -> list[Path]:
    """Regret of all models, and the solutions that they predict."""
    figures = {}
    for study in _studies(campaign):
        by_acquisition = _read(campaign, study, lines)
        if records := by_acquisition.get(study.acquisition):
            figures[f"bayesopt-{study.objective}-regret"] = regret_figure(records)
            if (predicted := predicted_figure(records)) is not None:
                figures[f"bayesopt-{study.objective}-predicted"] = predicted
            if (acquisitions := acquisitions_figure(by_acquisition)) is not None:
                figures[f"bayesopt-{study.objective}-acquisitions"] = acquisitions
    return save_figures(campaign, figures)


def _read(campaign: Campaign, study: Study, lines: Sequence[Line]) -> dict[str, dict[str, Any]]:
    """Records by acquisition and model, models in the order of the paper."""
    order = [*(line.label for line in lines), GAUSSIAN_PROCESS, RANDOM]
    return {
        acquisition: {label: records[label] for label in order if label in records}
        for acquisition, records in read_acquisitions(_folder(campaign), study).items()
    }


def _studies(campaign: Campaign) -> list[Study]:
    budget = campaign.budget
    return [Study(name, num_trials=budget.num_searches, num_iterations=budget.num_iterations) for name in OBJECTIVES]


def _strategies(campaign: Campaign, labels: Sequence[str]) -> dict[Study, list[str]]:
    """Who searches in each study."""
    martingale = [label for label in MARTINGALE if label in labels]
    strategies = {}
    for study in _studies(campaign):
        strategies[study] = [*labels, GAUSSIAN_PROCESS, RANDOM]
        others = [dataclasses.replace(study, acquisition=name) for name in ACQUISITIONS if name != study.acquisition]
        strategies |= {other: [*martingale, GAUSSIAN_PROCESS] for other in others}
    return strategies


def _folder(campaign: Campaign) -> Path:
    return campaign.folder / "bayesopt"
