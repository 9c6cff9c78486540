"""Image completion figures, as in the paper's appendix."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from mpnp.datasets.prepared import image_shape
from mpnp.inference.completion import choose_pixels, complete, completion_figure
from mpnp.models.base import AbstractNeuralProcess
from mpnp.tasks.images import CompletionFamily
from mpnp.tasks.registry import find_problem

__all__ = ["digit_figures"]

SHOWN = (78, 196)
"""Numbers of context pixels: a tenth and a quarter of a digit."""


def digit_figures(models: Mapping[str, AbstractNeuralProcess], num_samples: int) -> dict[str, Figure]:
    """An MNIST test digit completed by every model from few and from more pixels, and two digits completed by MPANP.

    Only digits are shown: the licence of the face data set does not allow publishing its images.
    """
    if not models:
        return {}
    height, width, _ = shape = image_shape("mnist")
    family = find_problem("mnist").test
    assert isinstance(family, CompletionFamily)
    digits = np.asarray(family.pixels[:2]).reshape(2, *shape)
    figures = {}
    for count in SHOWN:
        shown = choose_pixels(height, width, count, seed=0)
        rows = {name.upper(): complete(model, digits[0], shown, num_samples=num_samples) for name, model in models.items()}
        figures[f"models-{count}"] = completion_figure(rows)
    if "mpanp" in models:
        rows = {
            f"{count} pixels": complete(
                models["mpanp"], digit, choose_pixels(height, width, count, seed=number), num_samples=num_samples
            )
            for number, (digit, count) in enumerate(zip(digits, SHOWN, strict=True))
        }
        figures["mpanp"] = completion_figure(rows)
    return figures
