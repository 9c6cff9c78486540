"""Complete an image from some of its pixels, and plot the result."""

import dataclasses

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from jaxtyping import Bool, Float, UInt8
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mpnp.errors import InputError
from mpnp.inference.predictor import Predictor
from mpnp.models.base import AbstractNeuralProcess
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.options import require_count, require_seed
from mpnp.plotting.style import STYLE
from mpnp.tasks.images import colours, positions
from mpnp.tasks.task import PointSet

__all__ = ["Completion", "choose_pixels", "complete", "completion_figure", "read_keep"]

UNKNOWN = np.array([0.35, 0.45, 0.65])
"""Colour of the pixels that the model did not see."""

PANEL = 1.3
"""Width of a figure's columns in inches."""

NUM_DRAWS = 4
"""Default number of sampled images in a figure."""


@dataclasses.dataclass(frozen=True)
class Completion:
    """An image, the mask of the pixels shown to the model, and the prediction of all pixels."""

    image: UInt8[np.ndarray, "height width channel"]
    shown: Bool[np.ndarray, "height width"]
    predictive: Predictive

    @property
    def mean(self) -> Float[np.ndarray, "height width channel"]:
        """Mean colours."""
        return self._picture(self.predictive.mean)

    @property
    def std(self) -> Float[np.ndarray, "height width"]:
        """Standard deviation of each pixel, root mean square over channels."""
        return np.sqrt((np.asarray(self.predictive.std) ** 2).mean(axis=-1)).reshape(self.shown.shape)

    @property
    def draws(self) -> Float[np.ndarray, "sample height width channel"]:
        """Sampled images."""
        return np.stack([self._picture(draw) for draw in self.predictive.loc])

    @property
    def log_likelihood(self) -> float:
        """Mean log-likelihood per shown pixel. Colours have a range of length one, so uniformly random colours score 0."""
        return float(self.predictive.log_prob(_values(self.image))[jnp.asarray(self.shown.ravel())].mean())

    def _picture(self, values: Float[jax.Array, "pixel channel"]) -> Float[np.ndarray, "height width channel"]:
        return np.clip(np.asarray(values).reshape(self.image.shape) + 0.5, 0, 1)


def read_keep(text: str, num_pixels: int) -> int:
    """Parse a share such as 10% or a count such as 80 into a number of pixels.

    >>> read_keep("10%", 784), read_keep("80", 784)
    (78, 80)
    """
    try:
        keep = round(float(text[:-1]) / 100 * num_pixels) if text.endswith("%") else int(text)
    except (ValueError, OverflowError):
        raise InputError(f"--keep must be a share such as 10% or a number of pixels such as 80, got '{text}'") from None
    if not 0 < keep < num_pixels:
        raise InputError(f"--keep must leave between 1 and {num_pixels - 1} pixels, but {text} is {keep}")
    return keep


def choose_pixels(height: int, width: int, count: int, seed: int) -> Bool[np.ndarray, "height width"]:
    """A mask of `count` random pixels."""
    require_count("count", count, most=height * width)
    require_seed(seed)
    shown = np.zeros(height * width, bool)
    shown[np.random.default_rng(seed).permutation(height * width)[:count]] = True
    return shown.reshape(height, width)


def complete(
    model: AbstractNeuralProcess,
    image: UInt8[np.ndarray, "height width channel"],
    shown: Bool[np.ndarray, "height width"],
    *,
    num_samples: int = 10,
) -> Completion:
    """Predict all pixels of an image from those in the mask `shown`."""
    if (model.x_dim, model.y_dim) != (2, image.shape[-1]):
        raise InputError(f"this model reads {model.x_dim} inputs and {model.y_dim} channels; the image has {image.shape[-1]}")
    where, pixels = positions(*shown.shape), np.asarray(_values(image))
    context = PointSet.observed(where[shown.ravel()], pixels[shown.ravel()])
    return Completion(image, shown, Predictor(model, num_samples=num_samples)(context, where))


def completion_figure(rows: dict[str, Completion], *, num_draws: int = NUM_DRAWS) -> Figure:
    """One row per completion, labelled by its key: original, context, mean, standard deviation and sampled images."""
    most = max(min(num_draws, len(row.predictive.loc)) if len(row.predictive.loc) > 1 else 0 for row in rows.values())
    titles = ["original", "context", "mean", "standard deviation", *(f"draw {number + 1}" for number in range(most))]
    with matplotlib.rc_context(STYLE):
        height = sum(PANEL * row.image.shape[0] / row.image.shape[1] for row in rows.values())
        figure = Figure(figsize=(PANEL * len(titles) + 0.5, height + 0.3), layout="constrained")
        axes = figure.subplots(len(rows), len(titles), squeeze=False)
        for ax, title in zip(axes[0], titles, strict=True):
            ax.set_title(title, fontsize="small")
        widest = max(row.std.max() for row in rows.values())
        for line, (label, row) in zip(axes, rows.items(), strict=True):
            line[0].set_ylabel(label)
            seen = np.where(row.shown[..., None], np.broadcast_to(row.image / 255, (*row.shown.shape, 3)), UNKNOWN)
            _show(line[0], row.image / 255)
            _show(line[1], seen)
            _show(line[2], row.mean)
            line[3].imshow(row.std, cmap="magma", vmin=0, vmax=widest)
            draws = row.draws[:most] if len(row.predictive.loc) > 1 else []
            for ax, draw in zip(line[4:], draws, strict=False):
                _show(ax, draw)
            for ax in line:
                ax.set(xticks=[], yticks=[], box_aspect=row.image.shape[0] / row.image.shape[1])  # also for empty panels
                ax.spines[:].set(visible=ax.has_data(), color="0.8", linewidth=0.5)  # white images have no visible edge
    return figure


def _values(image: UInt8[np.ndarray, "height width channel"]) -> Float[jax.Array, "pixel channel"]:
    return colours(jnp.asarray(image.reshape(-1, image.shape[-1])))


def _show(ax: Axes, picture: Float[np.ndarray, "height width channel"]) -> None:
    ax.imshow(np.broadcast_to(picture, (*picture.shape[:2], 3)), vmin=0, vmax=1)
