"""Plots of a model's predictions on test tasks, as in the paper's figure "Posterior samples of MPANP"."""

import dataclasses
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mpnp.models.base import AbstractNeuralProcess
from mpnp.models.direct import DirectMartingaleNP
from mpnp.models.martingale import AbstractMartingaleNP
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.options import require_seed
from mpnp.plotting.style import BAND, DRAW, MEAN, STYLE
from mpnp.tasks.base import TEST_SEED, AbstractTaskFamily, FunctionFamily, fixed_tasks
from mpnp.tasks.task import PointSet

__all__ = ["plot_posterior"]

CONTEXT_SIZES = (4, 10, 25)
"""Context sizes, one per row of a figure."""


@dataclasses.dataclass(frozen=True)
class Scene:
    """A context, and true values of the function elsewhere."""

    context: PointSet
    x_true: Float[Array, "point x_dim"]
    y_true: Float[Array, "point y_dim"]


Draw = Callable[[Axes, Scene, int], None]


def plot_posterior(model: AbstractNeuralProcess, family: AbstractTaskFamily, *, num_samples: int = 10, seed: int = 0) -> Figure:
    """Plot context, mean, band and function samples on test functions, with growing context sizes.

    Martingale models also show predictions from the pseudo context alone, and direct ones the points they generate. With more
    than one input dimension, predictions are plotted against the truth.
    """
    require_seed(seed)
    panels = _panels(model, num_samples, jax.random.key(seed))
    scenes = [_scene(family, row, size, seed) for row, size in enumerate(CONTEXT_SIZES)]
    rows = [(scene, output) for scene in scenes for output in range(family.y_dim)]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(1.5 + 4.2 * len(panels), 2.4 * len(rows)), layout="constrained")
        axes = figure.subplots(len(rows), len(panels), squeeze=False)
        for ax, title in zip(axes[0], panels, strict=True):
            ax.set_title(title)
        for line, (scene, output) in zip(axes, rows, strict=True):
            for ax, draw in zip(line, panels.values(), strict=True):
                draw(ax, scene, output)
            points = f"{int(scene.context.mask.sum())} context points"
            line[0].set_ylabel(points if family.y_dim == 1 else f"{points}\noutput {output + 1}")
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


def _panels(model: AbstractNeuralProcess, num_samples: int, key: PRNGKeyArray) -> dict[str, Draw]:
    def prediction_panel(predict: Callable[..., Predictive]) -> Draw:
        compiled = eqx.filter_jit(predict)

        def at(scene: Scene, x: Float[Array, "point x_dim"]) -> Predictive:
            return compiled(scene.context, x, key=key, num_samples=num_samples)

        if model.x_dim == 1:
            return lambda ax, scene, output: _draw_functions(ax, scene, output, at)
        return lambda ax, scene, output: _draw_against_truth(ax, scene, output, at(scene, scene.x_true))

    panels = {"posterior": prediction_panel(model.predict)}
    if isinstance(model, AbstractMartingaleNP):
        panels["from the pseudo context alone"] = prediction_panel(model.predict_pseudo_only)
    if isinstance(model, DirectMartingaleNP):

        def draw_points(ax: Axes, scene: Scene, output: int) -> None:
            pseudo = model.generate(scene.context, model.draw_noise(scene.context, num_samples, key=key))
            _draw_pseudo_points(ax, scene, pseudo, output)

        panels["generated points (x′, y′)"] = draw_points
    return panels


def _scene(family: AbstractTaskFamily, row: int, num_context: int, seed: int) -> Scene:
    source = fixed_tasks(family, TEST_SEED)
    if isinstance(family, FunctionFamily):
        # The test functions, observed at many more points than a task has. All contexts are padded to the size of the
        # largest, so that one compiled prediction serves them all.
        key = jax.random.fold_in(source.task_key(jnp.asarray(row)), seed)
        slots = max(CONTEXT_SIZES)
        x, y = _observe(family, slots + (200 if family.x_dim == 1 else 50), key)
        return Scene(PointSet(x[:slots], y[:slots], jnp.arange(slots) < num_context), x[slots:], y[slots:])
    task = jax.tree.map(lambda leaf: leaf[0], source.batch(jnp.asarray([row + len(CONTEXT_SIZES) * seed])))
    return Scene(task.context, task.x[task.target_mask], task.y[task.target_mask])


@eqx.filter_jit
def _observe(
    family: FunctionFamily, num_points: int, key: PRNGKeyArray
) -> tuple[Float[Array, "point x_dim"], Float[Array, "point y_dim"]]:
    x = jax.random.uniform(key, (num_points, family.x_dim), minval=family.low, maxval=family.high)
    return x, family.process(x, family.process_key(key))


def _draw_functions(ax: Axes, scene: Scene, output: int, at: Callable[..., Predictive]) -> None:
    everything = np.concatenate([scene.x_true[:, 0], scene.context.x[scene.context.mask][:, 0]])
    x = jnp.linspace(everything.min(), everything.max(), 256)[:, None]
    predictive, line = at(scene, x), np.asarray(x[:, 0])
    mean, std = (np.asarray(values[:, output]) for values in (predictive.mean, predictive.std))
    ax.fill_between(line, mean - 2 * std, mean + 2 * std, color=BAND, alpha=0.5, lw=0, label="mean ± 2 std")
    if predictive.loc.shape[0] > 1:
        for number, draw in enumerate(np.asarray(predictive.loc[..., output])):
            ax.plot(line, draw, color=DRAW, lw=0.7, alpha=0.7, label="function draws" if number == 0 else None)
    ax.plot(line, mean, color=MEAN, lw=1.5, label="mean")
    ax.plot(scene.x_true[:, 0], scene.y_true[:, output], "k.", ms=1.5, alpha=0.6, label="truth")
    ax.plot(*_context_line(scene, output), "ko", ms=4.5, label="context")
    low, high = np.percentile(np.asarray(scene.y_true[:, output]), [0.5, 99.5])
    margin = max(high - low, 1.0)
    ax.set_ylim(low - margin / 2, high + margin / 2)


def _draw_against_truth(ax: Axes, scene: Scene, output: int, predictive: Predictive) -> None:
    truth = np.asarray(scene.y_true[:, output])
    mean, std = (np.asarray(values[:, output]) for values in (predictive.mean, predictive.std))
    ax.errorbar(truth, mean, 2 * std, fmt="o", ms=3, color=MEAN, ecolor=BAND, label="mean ± 2 std")
    ax.axline((0, 0), slope=1, color="k", lw=0.8, ls="--", label="equal")
    ax.set_xlabel("truth")


def _draw_pseudo_points(ax: Axes, scene: Scene, pseudo: PointSet, output: int) -> None:
    x, y = (np.asarray(values).reshape(-1, values.shape[-1]) for values in (pseudo.x, pseudo.y))
    ax.plot(x[:, 0], y[:, output], "o", color=DRAW, ms=3, alpha=0.6, label="generated")
    ax.plot(*_context_line(scene, output), "ko", ms=4.5)


def _context_line(scene: Scene, output: int) -> tuple[np.ndarray, np.ndarray]:
    shown = np.asarray(scene.context.mask)
    return np.asarray(scene.context.x)[shown, 0], np.asarray(scene.context.y)[shown, output]
