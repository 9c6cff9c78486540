"""Groups of models that the paper compares, and encoder widths that match a baseline's size to its martingale partner."""

import dataclasses
import functools

import jax

from mpnp.models.build import build, num_parameters
from mpnp.models.config import ModelSettings
from mpnp.models.registry import MODELS

__all__ = [
    "ATTENTIVE_MODELS",
    "DIRECT_MODELS",
    "MARTINGALE_MODELS",
    "PAPER_MODELS",
    "POOLED_MODELS",
    "TRANSFORMER_MODELS",
    "matched_width",
]

POOLED_MODELS = ("cnp", "np", "bnp", "mpnp")
ATTENTIVE_MODELS = ("canp", "anp", "banp", "mpanp")
PAPER_MODELS = (*POOLED_MODELS, *ATTENTIVE_MODELS)
MARTINGALE_MODELS = ("mpnp", "mpanp")
TRANSFORMER_MODELS = ("tnp", "ltnp", "mptnp")
"""Later than the paper."""
DIRECT_MODELS = (*POOLED_MODELS, "mpnp-dsi", "mpnp-dse", *ATTENTIVE_MODELS, "mpanp-dsi", "mpanp-dse")
"""The paper's models and their directly generating variants."""


@functools.cache
def matched_width(model: str, settings: ModelSettings) -> int:
    """The smallest encoder width at which a baseline has at least as many parameters as its martingale partner."""
    wanted, low, high = _count(MODELS[model].partner, settings), settings.width, 2 * settings.width
    enlarged = functools.partial(dataclasses.replace, settings)
    while _count(model, enlarged(encoder_width=high)) < wanted:
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        if _count(model, enlarged(encoder_width=middle)) < wanted:
            low = middle + 1
        else:
            high = middle
    return low


def _count(model: str, settings: ModelSettings) -> int:
    return num_parameters(jax.eval_shape(functools.partial(build, model, settings=settings), key=jax.random.key(0)))
