"""Optimisers that a recipe can name; each takes a learning rate."""

from collections.abc import Callable

import optax
from optax import contrib

__all__ = ["OPTIMIZERS"]


def _muon(learning_rate: float) -> optax.GradientTransformation:
    """Momentum whose matrices are made orthogonal before they are added (Jordan et al., 2024); Adam for all vectors.

    Vectors take steps of a tenth the rate: the rates that suit Muon are far above those that suit Adam.
    """
    return contrib.muon(learning_rate, adam_learning_rate=learning_rate / 10)


OPTIMIZERS: dict[str, Callable[[float], optax.GradientTransformation]] = {
    "adam": optax.adam,
    "muon": _muon,
}
"""Adam without weight decay or clipping is the authors'."""
