"""Figures of a study, drawn from its records alone."""

from collections.abc import Mapping
from typing import Any

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mpnp.bayesopt.acquisition import ACQUISITIONS, find_acquisition
from mpnp.bayesopt.objectives import Objective, find_objective
from mpnp.bayesopt.strategies import RANDOM
from mpnp.errors import InputError
from mpnp.plotting.style import DRAW, LOG_STYLE, MEAN, STYLE, literal

__all__ = ["acquisitions_figure", "predicted_figure", "regret_figure"]

Regret = Float[np.ndarray, "trial iteration"]

SMALLEST = 1e-8
"""Smallest regret on the logarithmic axis."""

MOST_BANDS = 4
"""With more strategies than this, quartile bands would hide the lines."""


def regret_figure(records: Mapping[str, Any]) -> Figure:
    """Simple regret (left) and cumulative regret (right): medians over trials, with quartile bands if strategies are few."""
    with matplotlib.rc_context(LOG_STYLE):
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        simple_axes, sum_axes = figure.subplots(1, 2)
        for label, record in records.items():
            simple = np.asarray(record["simple_regret"])
            draw = _draw_quartiles if len(records) <= MOST_BANDS else _draw_median
            draw(simple_axes, np.maximum(simple, SMALLEST), label=literal(label))
            draw(sum_axes, simple.cumsum(axis=1), label=literal(label))
        simple_axes.set(title="normalised simple regret", xlabel="iteration", yscale="log")
        sum_axes.set(title="cumulative regret", xlabel="iteration")
        handles, labels = simple_axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 6))
        figure.suptitle(f"{_title(records)}, median of {_num_trials(records)} trials")
    return figure


def acquisitions_figure(by_acquisition: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """Simple regret of each model under every acquisition it was run with; None if no model has several."""
    models = {label: None for records in by_acquisition.values() for label in records if label != RANDOM}
    compared = [label for label in models if sum(label in records for records in by_acquisition.values()) > 1]
    if not compared:
        return None
    columns = min(len(compared), 3)
    rows = -(-len(compared) // columns)
    with matplotlib.rc_context(LOG_STYLE):
        figure = Figure(figsize=(3.2 * columns + 0.4, 2.6 * rows + 0.8), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel()
        for ax, label in zip(axes, compared, strict=False):
            for acquisition, records in by_acquisition.items():
                if label in records:
                    regret = np.maximum(records[label]["simple_regret"], SMALLEST)
                    _draw_quartiles(ax, regret, label=find_acquisition(acquisition).label, **_line(acquisition))
            ax.set(title=literal(label), xlabel="iteration", yscale="log")
        for ax in axes[len(compared) :]:
            ax.set_visible(False)
        handles = {name: handle for ax in axes for handle, name in zip(*ax.get_legend_handles_labels(), strict=True)}
        figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=len(handles))
        first = next(iter(by_acquisition.values()))
        figure.suptitle(f"{_objective(first).title}: normalised simple regret, {_num_trials(first)} trials")
    return figure


def predicted_figure(records: Mapping[str, Any]) -> Figure | None:
    """Best predicted candidates of each model, drawn over the function; None if no strategy predicts anything."""
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


def _line(acquisition: str) -> dict[str, Any]:
    """Line style of an acquisition. Colours repeat if there are more acquisitions than colours."""
    return {"color": f"C{list(ACQUISITIONS).index(acquisition)}", **find_acquisition(acquisition).line}


def _draw_median(ax: Axes, values: Regret, **style: Any) -> Line2D:
    (line,) = ax.plot(np.median(values, axis=0), **style)
    return line


def _draw_quartiles(ax: Axes, values: Regret, **style: Any) -> None:
    line = _draw_median(ax, values, **style)
    low, high = np.quantile(values, [0.25, 0.75], axis=0)
    ax.fill_between(np.arange(len(low)), low, high, color=line.get_color(), alpha=0.15, lw=0)


def _title(records: Mapping[str, Any]) -> str:
    return f"{_objective(records).title}: {find_acquisition(_settings(records)['acquisition']).label}"


def _objective(records: Mapping[str, Any]) -> Objective:
    return find_objective(_settings(records)["objective"])


def _num_trials(records: Mapping[str, Any]) -> int:
    return _settings(records)["num_trials"]


def _settings(records: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings that all records of a folder share."""
    if not records:
        raise InputError("there are no records to draw")
    return next(iter(records.values()))["settings"]
