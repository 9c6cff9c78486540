"""Image completion figures, as in the paper's appendix."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from mpnp.datasets.prepared import image_shape
from mpnp.inference.completion import choose_pixels, complete, completion_figure
from mpnp.models.base import AbstractNeuralProcess
from mpnp.tasks.images import CompletionFamily
from mpnp.tasks.registry import find_problem

__all__ = ["completion_figures"]

SHARES = (10, 4)
"""A tenth and a quarter of the pixels are shown."""


def completion_figures(name: str, models: Mapping[str, AbstractNeuralProcess], num_samples: int) -> dict[str, Figure]:
    """A test image of a set completed by every model from few and from more pixels, and two images completed by MPANP."""
    if not models:
        return {}
    height, width, _ = shape = image_shape(name)
    family = find_problem(name).test
    assert isinstance(family, CompletionFamily)
    images = np.asarray(family.pixels[:2]).reshape(-1, *shape)
    counts = [height * width // share for share in SHARES]
    figures = {}
    for count in counts:
        shown = choose_pixels(height, width, count, seed=0)
        rows = {label.upper(): complete(model, images[0], shown, num_samples=num_samples) for label, model in models.items()}
        figures[f"models-{count}"] = completion_figure(rows)
    if "mpanp" in models:
        rows = {
            f"{count} pixels": complete(
                models["mpanp"], image, choose_pixels(height, width, count, seed=number), num_samples=num_samples
            )
            for number, (image, count) in enumerate(zip(images, counts, strict=False))
        }
        figures["mpanp"] = completion_figure(rows)
    return figures
