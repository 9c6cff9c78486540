"""Figures of the paper, from records where they suffice and from trained models where those are to be seen at work."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from mpnp.pictures import STYLE, save_figure
from mpnp.plot import plot_posterior
from mpnp.reproduce.campaign import Campaign
from mpnp.reproduce.completions import digit_figures
from mpnp.reproduce.limits import find_ceiling
from mpnp.reproduce.lines import Line
from mpnp.reproduce.plan import ATTENTIVE_MODELS, POOLED_MODELS, base_of
from mpnp.runs import load_model
from mpnp.tasks.catalogue import find_problem

__all__ = [
    "direct_figures",
    "finite_data_figure",
    "image_figures",
    "learning_curves",
    "population_figures",
    "sample_figure",
    "save_figures",
]

MULTIPLES = ("×1", "×2", "×5")
"""Of the smallest training set, as on the axis of the paper's figure."""


def learning_curves(name: str, campaign: Campaign, lines: Sequence[Line]) -> list[Path]:
    """Validation against the CPU time of training: how the numbers move with the budget. A panel a task and backbone."""
    trained = [line for line in lines if line.task == line.tested_on and campaign.records(line)]
    if not trained:
        return []
    tasks = list(dict.fromkeys(line.task for line in trained))
    bases = list(dict.fromkeys(base_of(line.model) for line in trained))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(1 + 3.6 * len(tasks), 2.9 * len(bases) + 0.4), layout="constrained")
        axes = figure.subplots(len(bases), len(tasks), squeeze=False)
        for row, base in zip(axes, bases, strict=True):
            for ax, task in zip(row, tasks, strict=True):
                here = [line for line in trained if line.task == task and base_of(line.model) == base]
                ax.set_visible(_draw_curves(ax, campaign, here))
                ax.set(title=task, xlabel="CPU-seconds of training", xscale="log")
                ax.xaxis.set_major_formatter("{x:g}")
                ax.xaxis.set_minor_formatter(NullFormatter())
            row[0].set_ylabel("validation target log-likelihood")
    drawn = any(ax.get_visible() for ax in figure.axes)
    return save_figures(campaign, {f"{name}-learning-curves": figure} if drawn else {})


def _draw_curves(ax: Axes, campaign: Campaign, lines: Sequence[Line]) -> bool:
    """The mean over seeds of each line, and the ceiling; whether there was anything to draw."""
    found = {line: records for line in lines if (records := campaign.records(line))}
    lowest = []
    for line, records in found.items():
        # The first validation, before any step, has cost nothing and has no place on a logarithmic axis.
        curves = [[row for row in record.curve[1:] if row["target"] is not None] for record in records]
        steps = set.intersection(*({row["step"] for row in curve} for curve in curves))
        kept = np.array([[(row["cpu_seconds"], row["target"]) for row in curve if row["step"] in steps] for curve in curves])
        if kept.size:
            seconds, target = kept.mean(axis=0).T
            ax.plot(seconds, target, lw=1.4, label=line.label)
            lowest.append(np.quantile(target, 0.25))
    for line, records in list(found.items())[:1]:
        if ceiling := find_ceiling(campaign.ceilings, line.tested_on, records):
            ax.axhline(ceiling.scores["target"], color="k", lw=0.8, ls="--", label="ceiling")
    if lowest:
        low, high = min(lowest), ax.get_ylim()[1]
        ax.set_ylim(low - 0.1 * max(high - low, 0.1), high)  # what comes before the first quarter would flatten the rest
        ax.legend(fontsize="small")
    return bool(lowest)


def finite_data_figure(campaign: Campaign, lines: Sequence[Line]) -> list[Path]:
    """Target log-likelihood against the size of the training set: a column a family, a row a backbone."""
    tasks = list(dict.fromkeys(line.tested_on for line in lines))
    drawn = False
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(1 + 2.9 * len(tasks), 5.4), layout="constrained")
        axes = figure.subplots(2, len(tasks), squeeze=False)
        for row, models in zip(axes, (POOLED_MODELS, ATTENTIVE_MODELS), strict=True):
            for ax, task in zip(row, tasks, strict=True):
                for model in models:
                    drawn |= _draw_sizes(
                        ax, campaign, [line for line in lines if (line.model, line.tested_on) == (model, task)]
                    )
                ax.set(title=task, xticks=range(len(MULTIPLES)), xticklabels=MULTIPLES)
            row[0].set_ylabel("test target log-likelihood")
            handles, labels = row[0].get_legend_handles_labels()
            if handles:
                row[0].legend(handles, labels, fontsize="small")
        figure.supxlabel(f"training tasks, in multiples of {min(campaign.budget.finite_sizes):,}")
    return save_figures(campaign, {"finite-data": figure} if drawn else {})


def _draw_sizes(ax: Axes, campaign: Campaign, lines: Sequence[Line]) -> bool:
    """One model's line over the sizes that were run, with its spread over seeds if there are several."""
    points = []
    for place, size in enumerate(campaign.budget.finite_sizes):
        for line in lines:
            if line.num_tasks == size and (records := campaign.records(line)):
                scores = [record.mean("target") for record in records]
                points.append((place, np.mean(scores), np.std(scores, ddof=1) if len(scores) > 1 else 0.0))
    if points:
        places, means, spread = zip(*points, strict=True)
        ax.errorbar(places, means, spread, marker="o", ms=4, capsize=2, label=lines[0].model)
    return bool(points)


def sample_figure(campaign: Campaign, lines: Sequence[Line]) -> list[Path]:
    """Posterior samples of the model, from context and pseudo context together and from the pseudo context alone."""
    return _posteriors(campaign, lines, "posterior-samples")


def direct_figures(campaign: Campaign, lines: Sequence[Line]) -> list[Path]:
    """Posterior samples of the models that generate points, and the points that they generate."""
    return _posteriors(campaign, [line for line in lines if line.model in ("mpanp-dsi", "mpanp-dse")], "direct")


def population_figures(campaign: Campaign, lines: Sequence[Line]) -> list[Path]:
    """MPANP on simulated and on real populations."""
    return _posteriors(campaign, [line for line in lines if line.model == "mpanp"], "predator-prey")


def _posteriors(campaign: Campaign, lines: Sequence[Line], name: str) -> list[Path]:
    figures = {}
    for line in lines:
        for label, directory in campaign.trained([line]).items():
            model, config, card = load_model(directory)
            family = find_problem(line.tested_on).test
            figure = plot_posterior(model, family, num_samples=campaign.effort(line).num_samples)
            step = f"step {card['progress']['best_step']:,} of {config.recipe.steps:,}"
            figure.suptitle(f"{label} trained on {line.task}, shown {line.tested_on}: {step}")
            figures[f"{name}-{line.model}-{line.tested_on}"] = figure
    return save_figures(campaign, figures)


def image_figures(campaign: Campaign, lines: Sequence[Line]) -> list[Path]:
    """Digits completed by every model that was trained on them."""
    folders = campaign.trained([line for line in lines if line.task == "mnist"])
    models = {label: load_model(folder)[0] for label, folder in folders.items()}
    figures = digit_figures(models, campaign.budget.efforts["mnist"].num_samples)
    return save_figures(campaign, {f"images-{name}": figure for name, figure in figures.items()})


def save_figures(campaign: Campaign, figures: Mapping[str, Figure]) -> list[Path]:
    """Write figures under their names."""
    paths = [campaign.folder / "figures" / f"{name}.png" for name in figures]
    for path, figure in zip(paths, figures.values(), strict=True):
        save_figure(figure, path)
    return paths
