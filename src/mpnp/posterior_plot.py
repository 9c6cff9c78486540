"""A picture of one posterior: context, mean, band, functions."""

from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mpnp.data.questions import read_inputs
from mpnp.errors import InputError, unknown_name
from mpnp.pictures import BAND, DRAW, MEAN, STYLE

if TYPE_CHECKING:
    from mpnp.posterior import Posterior

__all__ = ["draw_posterior", "posterior_figure"]

NUM_POINTS = 200


def draw_posterior(
    posterior: "Posterior", X: Any = None, *, output: str | None = None, ax: Axes | None = None, num_draws: int = 10
) -> Axes:
    """One output against the one input, over the range of training unless X says where; on the current axes if none given."""
    columns = posterior.units.columns
    if len(columns.inputs) != 1:
        raise InputError(f"a posterior is drawn against one input, but this model has {len(columns.inputs)}; use predict")
    name = columns.outputs[0] if output is None else output
    if name not in columns.outputs:
        raise unknown_name("output", name, columns.outputs, f"The model predicts: {', '.join(columns.outputs)}.")
    if ax is None:
        from matplotlib import pyplot as plt  # only here, because it starts the user's own way of showing figures

        ax = plt.gca()
    number = columns.outputs.index(name)
    x = _line(posterior) if X is None else np.sort(read_inputs(columns, X), axis=0)
    prediction = posterior.prediction(x)
    low, high = np.moveaxis(prediction.quantiles([0.05, 0.95])[:, number], -1, 0)
    line = x[:, 0]
    ax.fill_between(line, low, high, color=BAND, alpha=0.5, lw=0, label="90% of observations")
    draws = posterior.sample(x, num_draws)
    for order, draw in enumerate(draws.reshape(num_draws, len(x), -1)[..., number]):
        ax.plot(line, draw, color=DRAW, lw=0.7, alpha=0.7, label="function draws" if order == 0 else None)
    ax.plot(line, prediction.mean[:, number], color=MEAN, lw=1.5, label="mean")
    ax.plot(posterior.x[:, 0], posterior.y[:, number], "ko", ms=4.5, label="context")
    ax.set_xlabel(columns.inputs[0])
    ax.set_ylabel(name)
    return ax


def posterior_figure(posterior: "Posterior", X: Any = None, *, title: str | None = None) -> Figure:
    """A figure with a panel for each output."""
    outputs = posterior.units.columns.outputs
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 0.8 + 2.8 * len(outputs)), layout="constrained")
        axes = figure.subplots(len(outputs), 1, squeeze=False)
        for ax, output in zip(axes[:, 0], outputs, strict=True):
            draw_posterior(posterior, X, output=output, ax=ax)
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        if title:
            figure.suptitle(title)
    return figure


def _line(posterior: "Posterior") -> np.ndarray:
    seen = posterior.model.card.seen
    low, high = (float(bound[0]) for bound in (seen.low, seen.high))
    return np.linspace(low, high, NUM_POINTS)[:, None]
