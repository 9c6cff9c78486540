"""Figures of a check: ECDFs with their bands, coverage by group, and what resampling does to predictions."""

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mpnp.diagnostics.estimate import Estimate
from mpnp.diagnostics.uniformity import Uniformity
from mpnp.plotting.style import BAND, DRAW, MEAN, STYLE

__all__ = ["coverage_figure", "ecdf_figure", "steps_figure"]

GREY = "#7f7f7f"

COLOURS = (MEAN, DRAW, GREY, "#238b45")
"""Colours of lines, in their order."""

COLOUR_OF = {"model": MEAN, "resampled": MEAN, "generated": DRAW, "exact GP": GREY}
"""Colours of ECDFs by their labels, the same in all figures."""

PANELS_PER_ROW = 2


def ecdf_figure(panels: Mapping[str, Mapping[str, Uniformity]], *, xlabel: str) -> Figure:
    """One panel per name: the difference between each ECDF and that of uniform values, and the band of the first."""
    figure, axes = _panels(len(panels))
    with matplotlib.rc_context(STYLE):
        for ax, (title, lines) in zip(axes, panels.items(), strict=True):
            for number, (label, values) in enumerate(lines.items()):
                points = np.append(0, values.points)
                if number == 0:
                    low, high = (np.append(0, limit) - points for limit in values.band)
                    ax.fill_between(points, low, high, color=BAND, alpha=0.5, lw=0, label="95% band")
                ax.plot(points, np.append(0, values.ecdf) - points, color=COLOUR_OF[label], lw=1.5, label=label)
            ax.axhline(0, color="black", lw=0.5)
            ax.set(title=title, xlabel=xlabel, ylabel="ECDF − uniform", xlim=(0, 1))
    return _with_legend(figure, axes[0])


def coverage_figure(panels: Mapping[str, Mapping[str, Mapping[int, Estimate]]]) -> Figure:
    """One panel per grouping: measured coverage of each group, with error bars, and dashed lines where it should be."""
    figure, axes = _panels(len(panels))
    with matplotlib.rc_context(STYLE):
        for ax, (title, groups) in zip(axes, panels.items(), strict=True):
            for number, level in enumerate(next(iter(groups.values()))):
                found = [group[level] for group in groups.values()]
                colour = COLOURS[number % len(COLOURS)]
                ax.axhline(level, color=colour, lw=0.8, ls="--")
                ax.errorbar(
                    range(len(groups)),
                    [100 * estimate.mean for estimate in found],
                    [100 * estimate.standard_error for estimate in found],
                    color=colour, fmt="o-", ms=4, lw=1.2, label=f"{level}%",
                )  # fmt: skip
            ax.set(title=f"by {title}", ylabel="covered, %")
            ax.set_xticks(range(len(groups)), list(groups), fontsize=7.5)
    return _with_legend(figure, axes[0])


Steps = tuple[Sequence[int], Mapping[str, Sequence[Estimate]], float | None]
"""Numbers of points, lines by name with an estimate for each number, and the ideal value if there is one."""


def steps_figure(panels: Mapping[str, Steps], *, xlabel: str) -> Figure:
    """One panel per quantity against a number of points, on a logarithmic axis, and a dashed line at the ideal value."""
    figure, axes = _panels(len(panels))
    with matplotlib.rc_context(STYLE):
        for ax, (title, (steps, lines, ideal)) in zip(axes, panels.items(), strict=True):
            for number, (label, found) in enumerate(lines.items()):
                mean, error = (np.asarray([getattr(part, name) for part in found]) for name in ("mean", "standard_error"))
                ax.errorbar(steps, mean, error, color=COLOURS[number], fmt="o-", ms=4, lw=1.2, label=label)
            if ideal is not None:
                ax.axhline(ideal, color="black", lw=0.8, ls="--", label="exact martingale")
            ax.set_xscale("log")
            ax.set_xticks(list(steps), [str(step) for step in steps])
            ax.minorticks_off()
            ax.set(title=title, xlabel=xlabel)
            ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]))
    return _with_legend(figure, axes[0])


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    columns = min(count, PANELS_PER_ROW)
    rows = -(-count // columns)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(3.4 * columns + 0.3, 2.6 * rows + 0.4), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax in axes[count:]:
        ax.remove()
    return figure, list(axes[:count])


def _with_legend(figure: Figure, ax: Axes) -> Figure:
    handles, labels = ax.get_legend_handles_labels()
    if labels:
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 4), frameon=False)
    return figure
