"""The picture in the README: functions drawn by predictive resampling, more and more alike as observations come in.

    python benchmarks/readme_figure.py

Writes `docs/posterior.png`. The function comes from the RBF prior that the model was trained on; the model has not seen it.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from mpnp.inference.model import load
from mpnp.plotting.style import STYLE, save_figure

OUT = Path(__file__).parents[1] / "docs" / "posterior.png"
MODEL, SEED, NUM_CONTEXT, NUM_DRAWS = "tnp-rbf-low", 5, (3, 6, 12), 20
GRID, NOISE = np.linspace(-2, 2, 101), 0.02


def main() -> None:
    """Plot the posterior of one function after 3, 6 and 12 observations."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    model = load(MODEL)
    x, y, truth = draw_function(np.random.default_rng(SEED))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(11, 3.4), layout="constrained")
        axes = figure.subplots(1, len(NUM_CONTEXT), sharey=True)
        for ax, count in zip(axes, NUM_CONTEXT, strict=True):
            ax.plot(GRID, truth, color="black", ls="--", lw=1, label="true function", zorder=5)
            model.condition(x[:count], y[:count]).plot(GRID, ax=ax, num_draws=NUM_DRAWS)
            ax.get_legend().remove()  # one below all panels is enough
            ax.set_title(f"{count} observations")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    save_figure(figure, OUT)


def draw_function(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Noisy points of a function, and the function on the grid."""
    length, scale = rng.uniform(0.1, 0.6), rng.uniform(0.1, 1.0)
    x = rng.uniform(-2, 2, rng.integers(3, 30))
    everywhere = np.concatenate([x, GRID])
    weights, vectors = np.linalg.eigh(scale**2 * np.exp(-((everywhere[:, None] - everywhere) ** 2) / (2 * length**2)))
    values = vectors @ (np.sqrt(np.maximum(weights, 0)) * rng.standard_normal(len(everywhere)))
    return x, values[: len(x)] + NOISE * rng.standard_normal(len(x)), values[len(x) :]


if __name__ == "__main__":
    main()
