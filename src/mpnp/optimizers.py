"""Optimisers that a recipe can name; each takes a learning rate or its schedule."""

from collections.abc import Callable

import optax
from optax import contrib

__all__ = ["OPTIMIZERS"]


def _muon(learning_rate: optax.ScalarOrSchedule) -> optax.GradientTransformation:
    """Momentum whose matrices are made orthogonal before they are added (Jordan et al., 2024); Adam for all vectors."""
    return contrib.muon(learning_rate)


OPTIMIZERS: dict[str, Callable[[optax.ScalarOrSchedule], optax.GradientTransformation]] = {
    "adam": optax.adam,
    "muon": _muon,
}
"""Adam without weight decay or clipping is the authors'."""
