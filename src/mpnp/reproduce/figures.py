"""Figures of the paper, drawn from records where they suffice and otherwise from trained models."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from mpnp.models.registry import MODELS
from mpnp.plotting.style import DRAW, MEAN, STYLE, save_figure
from mpnp.plotting.tasks import plot_posterior
from mpnp.reproduce.campaign import Campaign
from mpnp.reproduce.completions import completion_figures
from mpnp.reproduce.model_groups import ATTENTIVE_MODELS, POOLED_MODELS
from mpnp.reproduce.paper import paper_row
from mpnp.reproduce.reference_scores import find_ceiling
from mpnp.reproduce.rows import ExperimentRow
from mpnp.tasks.registry import find_problem
from mpnp.training.rundir import load_model

__all__ = [
    "completed_rows",
    "direct_figures",
    "direct_rows",
    "finite_data_figure",
    "image_figures",
    "learning_curves",
    "population_figures",
    "population_rows",
    "sample_figure",
    "save_figures",
    "scores_figure",
]

MULTIPLES = ("×1", "×2", "×5")
"""Training set sizes as multiples of the smallest, as on the axis of the paper's figure."""


def learning_curves(name: str, campaign: Campaign, rows: Sequence[ExperimentRow]) -> list[Path]:
    """Validation score against CPU time of training, one panel per task and backbone."""
    trained = [row for row in rows if row.task == row.tested_on and campaign.records(row)]
    if not trained:
        return []
    tasks = list(dict.fromkeys(row.task for row in trained))
    bases = list(dict.fromkeys(MODELS[row.model].base for row in trained))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(1 + 3.6 * len(tasks), 2.9 * len(bases) + 0.4), layout="constrained")
        axes = figure.subplots(len(bases), len(tasks), squeeze=False)
        for panels, base in zip(axes, bases, strict=True):
            for ax, task in zip(panels, tasks, strict=True):
                here = [row for row in trained if row.task == task and MODELS[row.model].base == base]
                ax.set_visible(_draw_curves(ax, campaign, here))
                ax.set(title=task, xlabel="CPU-seconds of training", xscale="log")
                ax.xaxis.set_major_formatter("{x:g}")
                ax.xaxis.set_minor_formatter(NullFormatter())
            panels[0].set_ylabel("validation target log-likelihood")
    drawn = any(ax.get_visible() for ax in figure.axes)
    return save_figures(campaign, {f"{name}-learning-curves": figure} if drawn else {})


def _draw_curves(ax: Axes, campaign: Campaign, rows: Sequence[ExperimentRow]) -> bool:
    """Draw each row's mean over seeds, and the ceiling. Returns whether anything was drawn."""
    found = {row: records for row in rows if (records := campaign.records(row))}
    lowest = []
    for row, records in found.items():
        # The first validation comes before any step: its CPU time of 0 cannot be on a logarithmic axis.
        curves = [[entry for entry in record.curve[1:] if entry["target"] is not None] for record in records]
        steps = set.intersection(*({entry["step"] for entry in curve} for curve in curves))
        kept = np.array([[(e["cpu_seconds"], e["target"]) for e in curve if e["step"] in steps] for curve in curves])
        if kept.size:
            seconds, target = kept.mean(axis=0).T
            ax.plot(seconds, target, lw=1.4, label=row.label)
            lowest.append(np.quantile(target, 0.25))
    for row, records in list(found.items())[:1]:
        if ceiling := find_ceiling(campaign.ceilings, row.tested_on, records):
            ax.axhline(ceiling.scores["target"], color="k", lw=0.8, ls="--", label="ceiling")
    if lowest:
        low, high = min(lowest), ax.get_ylim()[1]
        ax.set_ylim(low - 0.1 * max(high - low, 0.1), high)  # the steep start would flatten the rest
        ax.legend(fontsize="small")
    return bool(lowest)


def scores_figure(table: str, campaign: Campaign, rows: Sequence[ExperimentRow]) -> list[Path]:
    """Our test scores next to those that the paper prints in a table, and the ceiling, one panel per task."""
    tasks = list(dict.fromkeys(row.tested_on for row in rows if campaign.records(row)))
    if not tasks:
        return []
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(1 + 3.2 * len(tasks), 3.6), layout="constrained")
        for ax, task in zip(figure.subplots(1, len(tasks), squeeze=False)[0], tasks, strict=True):
            _draw_scores(ax, table, campaign, [row for row in rows if row.tested_on == task])
            ax.set(title=task, xlabel="test target log-likelihood")
        handles, labels = figure.axes[0].get_legend_handles_labels()
        by_label = dict(zip(labels, handles, strict=True))
        figure.legend(list(by_label.values()), list(by_label), loc="outside lower center", ncols=len(by_label))
    return save_figures(campaign, {f"{table}-scores": figure})


def _draw_scores(ax: Axes, table: str, campaign: Campaign, rows: Sequence[ExperimentRow]) -> None:
    """Draw means and standard deviations over seeds, two marks per model, and the ceiling as a line."""
    found = [campaign.records(row) for row in rows]
    for place, (row, records) in enumerate(zip(rows, found, strict=True)):
        if printed := paper_row(table, row.tested_on, row.model):
            score = printed.scores["target"]
            ax.errorbar(score.mean, place - 0.12, xerr=score.std, fmt="D", color=DRAW, ms=4, label="paper")
        if records:
            means = [record.mean("target") for record in records]
            ax.errorbar(np.mean(means), place + 0.12, xerr=np.std(means), fmt="o", color=MEAN, ms=4, label="ours")
    if ceiling := find_ceiling(campaign.ceilings, rows[0].tested_on, next(filter(None, found))):
        ax.axvline(ceiling.scores["target"], color="k", lw=0.8, ls="--", label="ceiling")
    ax.set_yticks(range(len(rows)), [row.label for row in rows])
    ax.invert_yaxis()


def finite_data_figure(campaign: Campaign, rows: Sequence[ExperimentRow]) -> list[Path]:
    """Target log-likelihood against training set size, one column per task and one line of panels per backbone."""
    tasks = list(dict.fromkeys(row.tested_on for row in rows))
    drawn = False
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(1 + 2.9 * len(tasks), 5.4), layout="constrained")
        axes = figure.subplots(2, len(tasks), squeeze=False)
        for panels, models in zip(axes, (POOLED_MODELS, ATTENTIVE_MODELS), strict=True):
            for ax, task in zip(panels, tasks, strict=True):
                for model in models:
                    drawn |= _draw_sizes(ax, campaign, [row for row in rows if (row.model, row.tested_on) == (model, task)])
                ax.set(title=task, xticks=range(len(MULTIPLES)), xticklabels=MULTIPLES)
            panels[0].set_ylabel("test target log-likelihood")
            handles, labels = panels[0].get_legend_handles_labels()
            if handles:
                panels[0].legend(handles, labels, fontsize="small")
        figure.supxlabel(f"training tasks, in multiples of {min(campaign.budget.finite_sizes):,}")
    return save_figures(campaign, {"finite-data": figure} if drawn else {})


def _draw_sizes(ax: Axes, campaign: Campaign, rows: Sequence[ExperimentRow]) -> bool:
    """Draw one model's scores against training set size, with their spread over seeds. Returns whether anything was drawn."""
    points = []
    for place, size in enumerate(campaign.budget.finite_sizes):
        for row in rows:
            if row.num_tasks == size and (records := campaign.records(row)):
                scores = [record.mean("target") for record in records]
                points.append((place, np.mean(scores), np.std(scores, ddof=1) if len(scores) > 1 else 0.0))
    if points:
        places, means, spread = zip(*points, strict=True)
        ax.errorbar(places, means, spread, marker="o", ms=4, capsize=2, label=rows[0].model)
    return bool(points)


def sample_figure(campaign: Campaign, rows: Sequence[ExperimentRow]) -> list[Path]:
    """Posterior samples, given context and pseudo context, and given the pseudo context alone."""
    return _posteriors(campaign, rows, "posterior-samples")


def direct_figures(campaign: Campaign, rows: Sequence[ExperimentRow]) -> list[Path]:
    """Posterior samples of the directly generating models, and the points they generate."""
    return _posteriors(campaign, direct_rows(rows), "direct")


def direct_rows(rows: Sequence[ExperimentRow]) -> list[ExperimentRow]:
    """Rows whose models `direct_figures` shows."""
    return [row for row in rows if row.model in ("mpanp-dsi", "mpanp-dse")]


def population_figures(campaign: Campaign, rows: Sequence[ExperimentRow]) -> list[Path]:
    """Predictions of MPANP on simulated and on real populations."""
    return _posteriors(campaign, population_rows(rows), "predator-prey")


def population_rows(rows: Sequence[ExperimentRow]) -> list[ExperimentRow]:
    """Rows whose models `population_figures` shows."""
    return [row for row in rows if row.model == "mpanp"]


def _posteriors(campaign: Campaign, rows: Sequence[ExperimentRow], name: str) -> list[Path]:
    figures = {}
    for row in rows:
        for label, directory in campaign.trained([row]).items():
            model, config, card = load_model(directory)
            family = find_problem(row.tested_on).test
            figure = plot_posterior(model, family, num_samples=campaign.effort(row).num_samples)
            step = f"step {card['progress']['best_step']:,} of {config.recipe.steps:,}"
            figure.suptitle(f"{label} trained on {row.task}, shown {row.tested_on}: {step}")
            figures[f"{name}-{row.model}-{row.tested_on}"] = figure
    return save_figures(campaign, figures)


def image_figures(campaign: Campaign, rows: Sequence[ExperimentRow]) -> list[Path]:
    """Digits and faces completed by every model trained on them.

    Faces are written beside the runs, not beside the records: their licence does not allow publishing them.
    """
    folders = {"mnist": campaign.folder, "celeba": campaign.runs / campaign.budget.name}
    paths = []
    for name, folder in folders.items():
        trained = campaign.trained([row for row in completed_rows(rows) if row.task == name and not campaign.obstacle(row)])
        models = {label: load_model(directory)[0] for label, directory in trained.items()}
        figures = completion_figures(name, models, campaign.budget.efforts[name].num_samples)
        prefix = "images" if name == "mnist" else f"images-{name}"
        paths += _write(folder, {f"{prefix}-{what}": figure for what, figure in figures.items()})
    return paths


def completed_rows(rows: Sequence[ExperimentRow]) -> list[ExperimentRow]:
    """Rows whose models `image_figures` shows."""
    return [row for row in rows if row.task in ("mnist", "celeba")]


def save_figures(campaign: Campaign, figures: Mapping[str, Figure]) -> list[Path]:
    """Write figures as PNG files under their names."""
    return _write(campaign.folder, figures)


def _write(folder: Path, figures: Mapping[str, Figure]) -> list[Path]:
    paths = [folder / "figures" / f"{name}.png" for name in figures]
    for path, figure in zip(paths, figures.values(), strict=True):
        save_figure(figure, path)
    return paths
