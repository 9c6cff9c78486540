"""The models on a page: which of them share axes, and the points that one can start with."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from mpnp.errors import InputError
from mpnp.inference.model import FittedModel
from mpnp.tables.curves import Curves
from mpnp.tables.frames import curves_from_frame, read_table
from mpnp.tasks.base import FunctionFamily
from mpnp.tasks.registry import TASKS

__all__ = ["Gallery", "as_numbers", "exact_prior", "make_gallery"]

HEIGHT = 2.4
"""Standard deviations of the outputs that an axis spans on each side of their mean."""

START_SIZES = (3, 6, 12)
"""Points of a drawn function to start with."""

START_SEED = 1

SHARES_OF_CURVE = (1 / 3, 1.0)
MOST_CURVES = 8

TRUTH_POINTS = 128

DIGITS = 5

Start = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Gallery:
    """Models by name, all with one input; `curves` are real ones to start with."""

    models: Mapping[str, FittedModel]
    curves: Curves | None = None

    def __post_init__(self) -> None:
        for name, model in self.models.items():
            if len(inputs := model.card.columns.inputs) != 1:
                raise InputError(f"only models with one input can be explored, but {name} has {len(inputs)}")
            if not model.card.columns.is_numeric:
                raise InputError(f"only models whose columns are all numeric can be explored, but not all of {name} are")

    def describe(self) -> dict[str, Any]:
        """What the page must know: groups of models with the same axes, and the models."""
        axes: dict[Any, int] = {}
        groups, models = [], []
        for name, model in self.models.items():
            key = _axes(model)
            if key not in axes:
                axes[key] = len(axes)
                groups.append(self._group(model))
            models.append(_describe(name, model, axes[key]))
        return {"groups": groups, "models": models}

    def _group(self, model: FittedModel) -> dict[str, Any]:
        columns = model.card.columns
        low, high = trained_range(model)
        output = columns.output_scale
        # One begins with some points of a drawn function, or with the beginning of a real curve.
        if self.curves is None:
            starts, first, truth = _drawn_starts(model), 1, "the true function"
        else:
            starts, first, truth = _real_starts(self.curves), 0, "the whole curve"
        return {
            "name": str(model.card.about.get("task") or f"{columns.outputs[0]} by {columns.inputs[0]}"),
            "input": columns.inputs[0],
            "outputs": list(columns.outputs),
            "together": not columns.separates_outputs and len(columns.outputs) > 1,
            "x": [low, high],
            "y": [[shift - HEIGHT * scale, shift + HEIGHT * scale] for shift, scale in zip(*output, strict=True)],
            "starts": starts,
            "first": first,
            "truth": truth,
        }


def make_gallery(models: Mapping[str, FittedModel], data: Path | None = None) -> Gallery:
    """A gallery that starts from the curves of a table, which has the columns of the first model."""
    if data is None:
        return Gallery(models)
    return Gallery(models, curves_from_frame(read_table(data), next(iter(models.values())).card.columns))


def trained_range(model: FittedModel) -> tuple[float, float]:
    """The range of inputs seen in training; that of the network's units if it had no bounds."""
    seen = model.card.seen
    if math.isfinite(seen.low[0]) and seen.low[0] < seen.high[0] < math.inf:
        return float(seen.low[0]), float(seen.high[0])
    shift, scale = (float(values[0]) for values in model.card.columns.input_scale)
    return shift - 2 * scale, shift + 2 * scale


def exact_prior(model: FittedModel) -> FunctionFamily | None:
    """The family whose exact posterior can be shown beside a model; None if there is none."""
    from mpnp.evaluation.ceilings.gaussian import uniform_gaussian_process

    entry = TASKS.get(str(model.card.about.get("task")))
    if entry is None or not isinstance(entry.family, FunctionFamily) or entry.dims != (1, 1):
        return None
    try:
        uniform_gaussian_process(entry.family)
    except InputError:
        return None
    return entry.family


def _axes(model: FittedModel) -> tuple[Any, ...]:
    columns, about = model.card.columns, model.card.about
    # Models of one task stand side by side; so do models fitted to the same columns.
    return columns.inputs, columns.outputs, str(about.get("task")), trained_range(model), columns.separates_outputs


def _describe(name: str, model: FittedModel, group: int) -> dict[str, Any]:
    from mpnp.models.martingale import AbstractMartingaleNP
    from mpnp.models.registry import find_model

    return {
        "name": name,
        "about": find_model(model.card.model).title,
        "group": group,
        "trained": None if model.card.scaled_by_context else list(trained_range(model)),  # else it moves with the points
        "exact": exact_prior(model) is not None,
        "generates": model.network.num_components(2) > 1,
        "pseudo": isinstance(model.network, AbstractMartingaleNP),
    }


def _drawn_starts(model: FittedModel) -> list[Start]:
    """Points of a function drawn from the family that the model was trained on, if that can be simulated."""
    entry = TASKS.get(str(model.card.about.get("task")))
    if entry is None or not isinstance(entry.family, FunctionFamily) or entry.family.x_dim != 1:
        return []
    x, y = (np.asarray(part, float) for part in _draw_function(entry.family, *trained_range(model)))
    most = max(START_SIZES)
    return [_start(f"{size} points of a function", x[:size], y[:size], x[most:], y[most:]) for size in START_SIZES]


@eqx.filter_jit
def _draw_function(family: FunctionFamily, low: float, high: float) -> tuple[Array, Array]:
    """A function at random inputs and on a grid."""
    x_key, key = jax.random.split(jax.random.key(START_SEED))
    x = jax.random.uniform(x_key, (max(START_SIZES), 1), minval=low, maxval=high)
    x = jnp.concatenate([x, jnp.linspace(low, high, TRUTH_POINTS)[:, None]])
    return x, family.process(x, key)


def _real_starts(curves: Curves) -> list[Start]:
    starts = []
    for number in range(min(len(curves), MOST_CURVES)):
        x, y = curves.pair(number)
        order = np.argsort(x[:, 0], kind="stable")
        x, y = x[order], y[order]
        for share in SHARES_OF_CURVE:
            count = max(1, round(share * len(x)))
            what = f"{curves.names[number]}" if share == 1 else f"{curves.names[number]}, its first {count}"
            starts.append(_start(what, x[:count], y[:count], x, y))
    return starts


def _start(
    name: str,
    x: Float[np.ndarray, "row 1"],
    y: Float[np.ndarray, "row output"],
    x_truth: Float[np.ndarray, "point 1"],
    y_truth: Float[np.ndarray, "point output"],
) -> Start:
    truth = {"x": as_numbers(x_truth[:, 0]), "y": as_numbers(y_truth)}
    return {"name": name, "x": as_numbers(x[:, 0]), "y": as_numbers(y), "truth": truth}


def as_numbers(values: Sequence[Any] | np.ndarray) -> list[Any]:
    """Nested lists for JSON, to five digits; NaN becomes null."""
    if np.ndim(values) > 1:
        return [as_numbers(row) for row in values]
    return [None if np.isnan(value) else float(f"{value:.{DIGITS}g}") for value in np.asarray(values, float)]
