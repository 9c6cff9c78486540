"""Fitted models with random weights, for tests that need no training."""

import dataclasses

import numpy as np

from helpers.models import SETTINGS, small_model
from mpnp.inference.card import ModelCard, Reference, TrainingDomain
from mpnp.inference.model import FittedModel
from mpnp.tables.columns import Schema
from mpnp.tables.curves import Curves
from mpnp.tasks.protocol import FUNCTION_RANGE, MOST_SURFACE_INPUTS


def some_curves(num_curves: int = 6, *, inputs: int = 1, outputs: int = 1, missing: bool = False, seed: int = 0) -> Curves:
    """Random walks at random inputs, in units far from normalised ones; every second output may be missing."""
    rng = np.random.default_rng(seed)
    pairs = []
    for number in range(num_curves):
        x = rng.uniform(10, 50, size=(4 + number, inputs))
        y = 300 + 7 * rng.normal(size=(4 + number, outputs)).cumsum(axis=0)
        if missing:
            y[rng.random(y.shape) < 0.4] = np.nan
            y[0] = 300.0
        pairs.append((x, y))
    return Curves.from_pairs(pairs)


def fitted(name: str = "mpanp", curves: Curves | None = None, *, reference: Reference | None = None) -> FittedModel:
    """A tiny network of random weights, in the units of the curves."""
    curves = some_curves() if curves is None else curves
    x_dim, y_dim = curves.columns.dims
    network = small_model(name, x_dim=x_dim, y_dim=y_dim)
    card = ModelCard(
        model=name,
        settings=SETTINGS,
        columns=curves.columns.learn(curves.x, curves.y),
        seen=TrainingDomain.learn(curves, 10),
        reference=reference,
        about={"progress": {"best_step": 0, "cpu_seconds": 0.0}, "environment": {"mpnp": "0"}},
    )
    return FittedModel(network, card)


def of_images(task: str = "mnist") -> FittedModel:
    """A tiny network of random weights that passes for a model of grey images."""
    model = fitted("mpnp", some_curves(inputs=2))
    return FittedModel(model.network, dataclasses.replace(model.card, about=model.card.about | {"task": task}))


def of_surfaces() -> FittedModel:
    """A tiny network of random weights that passes for a model of the tasks `surfaces`."""
    model = fitted("canp", some_curves(inputs=MOST_SURFACE_INPUTS))
    low, high = (np.full(MOST_SURFACE_INPUTS, bound) for bound in FUNCTION_RANGE)
    card = dataclasses.replace(
        model.card,
        columns=dataclasses.replace(Schema.numbered(MOST_SURFACE_INPUTS, 1), y_dim=1),
        seen=dataclasses.replace(model.card.seen, low=low, high=high),
        about=model.card.about | {"task": "surfaces"},
    )
    return FittedModel(model.network, card)


def in_units(curves: Curves, *, x_shift: float, x_scale: float, y_shift: float, y_scale: float) -> Curves:
    """The same curves as another instrument would write them down."""
    return dataclasses.replace(curves, x=curves.x * x_scale + x_shift, y=curves.y * y_scale + y_shift)


def renamed(curves: Curves, inputs: tuple[str, ...], outputs: tuple[str, ...], task: str = "task") -> Curves:
    """The same curves with other column names."""
    return dataclasses.replace(curves, columns=Schema.named(inputs, outputs, task))
