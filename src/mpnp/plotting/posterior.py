"""Plots of a posterior: context, mean, band and function samples."""

import dataclasses
from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mpnp.plotting.style import BAND, DRAW, MEAN, STYLE

__all__ = ["PosteriorCurve", "draw_posterior", "draw_with_legend", "posterior_figure", "tasks_figure"]

Line = Float[np.ndarray, " point"]


@dataclasses.dataclass(frozen=True)
class PosteriorCurve:
    """Data of one panel: one output against one input, in the user's units."""

    x: Line
    mean: Line
    low: Line
    high: Line
    draws: Float[np.ndarray, "draw point"]
    context: tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"]]
    names: tuple[str, str]
    """Labels of the input and of the output."""


def draw_posterior(curve: PosteriorCurve, ax: Axes | None = None) -> Axes:
    """Draw context, mean, 90% band and function samples. Uses the current axes if none are given."""
    if ax is None:
        from matplotlib import pyplot as plt  # only here: importing pyplot chooses a display backend

        ax = plt.gca()
    ax.fill_between(curve.x, curve.low, curve.high, color=BAND, alpha=0.5, lw=0, label="90% of observations")
    for order, draw in enumerate(curve.draws):
        ax.plot(curve.x, draw, color=DRAW, lw=0.7, alpha=0.7, label="function draws" if order == 0 else None)
    ax.plot(curve.x, curve.mean, color=MEAN, lw=1.5, label="mean")
    ax.plot(*curve.context, "ko", ms=4.5, label="context")
    ax.set_xlabel(curve.names[0], parse_math=False)  # columns may have dollar signs in their names
    ax.set_ylabel(curve.names[1], parse_math=False)
    return ax


def draw_with_legend(curve: PosteriorCurve, ax: Axes | None = None) -> Axes:
    """The same with a legend of its own."""
    ax = draw_posterior(curve, ax)
    ax.legend(fontsize="small")
    return ax


def tasks_figure(curves: Mapping[str, Sequence[PosteriorCurve]]) -> Figure:
    """A figure with one panel per task and output, and one legend; three panels per row."""
    panels = [(name, curve) for name, of_task in curves.items() for curve in of_task]
    num_columns = min(3, len(panels))
    num_rows = -(-len(panels) // num_columns)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(4.2 * num_columns, 0.6 + 2.7 * num_rows), layout="constrained")
        axes = figure.subplots(num_rows, num_columns, squeeze=False).ravel()
        for ax, (name, curve) in zip(axes, panels, strict=False):
            draw_posterior(curve, ax).set_title(name)
        for ax in axes[len(panels) :]:
            ax.set_visible(False)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


def posterior_figure(curves: Sequence[PosteriorCurve], *, title: str | None = None) -> Figure:
    """A figure with one panel per curve."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 0.8 + 2.8 * len(curves)), layout="constrained")
        axes = figure.subplots(len(curves), 1, squeeze=False)[:, 0]
        for ax, curve in zip(axes, curves, strict=True):
            draw_posterior(curve, ax)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        if title:
            figure.suptitle(title)
    return figure
