"""The paper's study of Bayesian optimisation, with the models of the regression table."""

from collections.abc import Sequence
from pathlib import Path

from mpnp.bayesopt.figures import predicted_figure, regret_figure
from mpnp.bayesopt.objectives import OBJECTIVES
from mpnp.bayesopt.strategies import GAUSSIAN_PROCESS, RANDOM
from mpnp.bayesopt.study import Study, read_records, regret_quartiles, run_named
from mpnp.errors import RunError
from mpnp.reproduce.campaign import Campaign
from mpnp.reproduce.figures import save_figures
from mpnp.reproduce.lines import Line
from mpnp.reproduce.tables import Table, save_tables

__all__ = ["run_searches", "search_figures", "search_table"]


def run_searches(campaign: Campaign, lines: Sequence[Line]) -> None:
    """Search both functions with every model of seed 0, with a pre-trained Gaussian process and at random."""
    models = campaign.trained(lines)
    if absent := [line.label for line in lines if line.label not in models]:
        raise RunError(
            f"the searches need the runs of {', '.join(absent)}, but their directories are gone from {campaign.runs}; restore "
            "them, or delete their records to train them anew"
        )
    for study in _studies(campaign):
        run_named(study, {**models, GAUSSIAN_PROCESS: GAUSSIAN_PROCESS, RANDOM: RANDOM}, _folder(campaign), quiet=True)


def search_table(campaign: Campaign, lines: Sequence[Line]) -> list[Path]:
    """Regret at the end and its sum, median and quartiles over trials."""
    rows = []
    for study in _studies(campaign):
        for label, record in read_records(_folder(campaign), study).items():
            cells = [study.objective, label]
            for (low, median, high), digits in zip(regret_quartiles(record).values(), (5, 2), strict=True):
                cells += [f"{median:.{digits}f}", f"{low:.{digits}f} to {high:.{digits}f}"]
            rows.append([*cells, f"{record['settings']['num_trials']}", f"{record['cpu_seconds']:,.0f}"])
    caption = (
        f"Bayesian optimisation with expected improvement, budget '{campaign.budget.name}': normalised simple regret after "
        f"{campaign.budget.num_iterations} iterations, and its sum over them; medians and quartiles over trials."
    )
    header = ["function", "model", "regret", "quartiles", "sum", "quartiles", "trials", "CPU-s"]
    return save_tables(campaign, "bayesopt", [Table("bayesopt", caption, header, rows)]) if rows else []


def search_figures(campaign: Campaign, lines: Sequence[Line]) -> list[Path]:
    """Regret of all models, and the solutions that they predict."""
    figures = {}
    for study in _studies(campaign):
        if records := read_records(_folder(campaign), study):
            figures[f"bayesopt-{study.objective}-regret"] = regret_figure(records)
            if (predicted := predicted_figure(records)) is not None:
                figures[f"bayesopt-{study.objective}-predicted"] = predicted
    return save_figures(campaign, figures)


def _studies(campaign: Campaign) -> list[Study]:
    budget = campaign.budget
    return [Study(name, num_trials=budget.num_searches, num_iterations=budget.num_iterations) for name in OBJECTIVES]


def _folder(campaign: Campaign) -> Path:
    return campaign.folder / "bayesopt"
