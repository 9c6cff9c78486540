"""Curves with a split and a rule for choosing contexts: a problem that a model can be trained on."""

import dataclasses
import functools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from mpnp.errors import InputError, unknown_name
from mpnp.tables.augment import can_mix, mix_curves
from mpnp.tables.columns import Schema
from mpnp.tables.curves import Curves
from mpnp.tables.split import split_curves
from mpnp.tasks.base import Problem
from mpnp.tasks.tables import CONTEXTS, TableFamily

__all__ = ["MAX_POINTS", "CurveDataset"]

MAX_POINTS = 128
"""Maximum number of points in a training task. From longer curves, each task draws a new random subset."""

SMALLEST, LARGEST = 1e-100, 1e100
"""Bounds within which sums of squares neither underflow nor overflow."""


@dataclasses.dataclass(frozen=True)
class CurveDataset:
    """Curves to learn from. The split, the learnt schema and the problem follow from the fields."""

    curves: Curves
    context: str = "random"
    validation: float = 0.15
    test: float = 0.0
    seed: int = 0
    mixing: float = 0.0
    """Fraction of the training tasks that are blends of two training curves."""
    scaled: bool = False
    """Whether the columns already have learnt encoders, those of a model that is to be updated."""

    def __post_init__(self) -> None:
        if self.context not in CONTEXTS:
            raise unknown_name("context", str(self.context), CONTEXTS, f"Choose one of: {', '.join(CONTEXTS)}.")
        if not 0 <= self.mixing < 1:
            raise InputError(f"mixing must be at least 0 and below 1, got {self.mixing}")
        names = (*self.curves.columns.inputs, *self.curves.columns.outputs)
        for name, values in zip(names, np.hstack([self.curves.x, self.curves.y]).T, strict=True):
            size = np.nanmax(np.abs(values), initial=0.0)
            if size and not SMALLEST <= size <= LARGEST:
                raise InputError(
                    f"the column '{name}' reaches {size:g}, too far from 1 for floating-point arithmetic; choose other units"
                )
        for name, values in zip(self.curves.columns.outputs, self.parts["train"].y.T, strict=True):
            if np.isnan(values).all():
                raise InputError(f"the output '{name}' is empty in all training tasks; leave it out, or add tasks that have it")
        for part, curves in self.parts.items():
            if curves.weights is not None and len(curves) and not curves.weights.any():
                raise InputError(f"all rows of the {part} tasks have weight 0; some rows of every part of the split must count")

    @functools.cached_property
    def parts(self) -> dict[str, Curves]:
        """The curves of training, validation and test."""
        return split_curves(self.curves, validation=self.validation, test=self.test, seed=self.seed)

    @functools.cached_property
    def columns(self) -> Schema:
        """The schema, with encoders learnt from the training curves only, unless they are given."""
        if self.scaled:
            return self.curves.columns
        training = self.parts["train"]
        return self.curves.columns.learn(training.x, training.y, training.noise)

    @property
    def max_rows(self) -> int:
        """Maximum number of rows in a training task."""
        return min(int(self.parts["train"].counts.max()), max(2, MAX_POINTS // self.curves.y.shape[1]))

    def problem(self) -> Problem:
        """Training, validation and test tasks. Without test curves, the validation curves are used for testing."""
        training, validation = self._family(self._training_curves()), self._family(self.parts["validation"])
        return Problem(training, validation, self._family(self.parts["test"]) if len(self.parts["test"]) else validation)

    def _training_curves(self) -> Curves:
        curves = self.parts["train"]
        if not self.mixing or not can_mix(curves):
            return curves
        return mix_curves(curves, round(len(curves) * self.mixing / (1 - self.mixing)), seed=self.seed)

    def _family(self, curves: Curves) -> TableFamily:
        curve = np.repeat(np.arange(len(curves)), curves.counts)
        order = np.lexsort((*curves.x.T[::-1], curve))
        x, y = self.columns.encode_inputs(curves.x[order]), self.columns.encode_outputs(curves.y[order])
        x_dim, y_dim = self.columns.dims
        noise = None if curves.noise is None else np.nan_to_num(self.columns.encode_noise(curves.noise[order]), nan=0.0)
        weights = None if curves.weights is None else curves.weights[order] / curves.weights.max()
        return TableFamily(
            x=jnp.asarray(x, jnp.float32),
            y=jnp.asarray(np.nan_to_num(y, nan=0.0), jnp.float32),
            observed=jnp.asarray(~np.isnan(y)),
            starts=jnp.asarray(curves.starts, jnp.int32),
            counts=jnp.asarray(curves.counts, jnp.int32),
            max_rows=self.max_rows,
            longest=max(int(curves.counts.max()), self.max_rows),
            context=self.context,
            x_dim=x_dim,
            y_dim=y_dim,
            weights=None if weights is None else jnp.asarray(weights, jnp.float32),
            shares=None if weights is None else jnp.asarray(_shares(weights, curves), jnp.float32),
            noise=None if noise is None else jnp.asarray(noise, jnp.float32),
        )


def _shares(weights: Float[np.ndarray, " row"], curves: Curves) -> Float[np.ndarray, " curve"]:
    """How often each curve is drawn, relative to the others: by the mean weight of its rows."""
    return np.add.reduceat(weights, curves.starts) / curves.counts
