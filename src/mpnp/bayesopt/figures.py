"""Figures of a study, drawn from its records alone."""

from collections.abc import Mapping
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from mpnp.bayesopt.objectives import find_objective
from mpnp.errors import InputError
from mpnp.pictures import DRAW, MEAN, STYLE

__all__ = ["predicted_figure", "regret_figure"]

SMALLEST = 1e-8
"""Regret that a logarithmic axis still shows."""


def regret_figure(records: Mapping[str, Any]) -> Figure:
    """Median over trials and the range from the first to the third quartile: simple regret left, its sum right."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        simple_axes, sum_axes = figure.subplots(1, 2)
        for label, record in records.items():
            simple = np.asarray(record["simple_regret"])
            for ax, values in ((simple_axes, np.maximum(simple, SMALLEST)), (sum_axes, simple.cumsum(axis=1))):
                low, median, high = np.quantile(values, [0.25, 0.5, 0.75], axis=0)
                iterations = np.arange(len(median))
                (line,) = ax.plot(iterations, median, lw=1.5, label=label)
                ax.fill_between(iterations, low, high, color=line.get_color(), alpha=0.15, lw=0)
        simple_axes.set(title="normalised simple regret", xlabel="iteration", yscale="log")
        sum_axes.set(title="cumulative regret", xlabel="iteration")
        handles, labels = simple_axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 6))
        figure.suptitle(f"{_title(records)}, {next(iter(records.values()))['settings']['num_trials']} trials")
    return figure


def predicted_figure(records: Mapping[str, Any]) -> Figure | None:
    """The candidates of which each model expects most, on top of the function; nothing if no strategy expects anything."""
    shown = {label: record for label, record in records.items() if record["predicted"]}
    if not shown:
        return None
    columns = max(len(record["predicted"]) for record in shown.values())
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(3.2 * columns, 2.4 * len(shown) + 0.6), layout="constrained")
        axes = figure.subplots(len(shown), columns, squeeze=False, sharex=True, sharey=True)
        for row, (label, record) in zip(axes, shown.items(), strict=True):
            objective = find_objective(record["settings"]["objective"])
            x = np.linspace(objective.low, objective.high, 500)
            for ax, moment in zip(row, record["predicted"], strict=True):
                ax.plot(x, objective(x), color="0.5", lw=1, label="function")
                ax.plot(moment["observed_x"], moment["observed_y"], "ko", ms=3.5, label="evaluated")
                ax.plot(moment["x"], moment["mean"], "x", color=DRAW, ms=5, label="10 best predicted")
                ax.axvline(record["minimum"]["x"], color=MEAN, lw=0.8, ls=":", label="minimum")
                ax.set_title("start" if moment["after"] == 0 else f"after {moment['after']} iterations")
            row[0].set_ylabel(label)
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        figure.suptitle(f"{_title(shown)}, first trial")
    return figure


def _title(records: Mapping[str, Any]) -> str:
    if not records:
        raise InputError("there are no records to draw")
    settings = next(iter(records.values()))["settings"]
    title = find_objective(settings["objective"]).title
    return f"{title}: {settings['acquisition'].replace('-', ' ')}"
