"""Predictive resampling for fitted models: places future inputs and pads arrays to few compiled shapes."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, PyTree

from mpnp.errors import InputError, show
from mpnp.inference.card import TrainingDomain
from mpnp.inference.designs import AbstractDesign
from mpnp.inference.functions import Functions, find_imagined
from mpnp.inference.prediction import select
from mpnp.inference.predictor import pad_points, round_up
from mpnp.inference.regions import AbstractRegion, find_region
from mpnp.inference.resampling import chain_log_prob, complete_contexts, read_functions
from mpnp.models.base import AbstractNeuralProcess
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.tables.columns import Schema
from mpnp.tables.curves import as_matrix
from mpnp.tables.points import target_inputs
from mpnp.tasks.task import PointSet

__all__ = ["FutureInputs", "Resampler", "choose_num_future"]

FEWEST, MOST = 10, 30
"""Bounds on the default number of future observations. Fewer leave functions undecided; more take time and change little."""

FARTHEST = 4
"""A completed context may be at most this many times as large as the largest context in training."""

CHAIN_SAMPLES = 32
"""Sampled functions in each one-step prediction of the chain rule."""

FutureInputs = Callable[[np.random.Generator, int], Any]
"""Maps a random generator and a number of rows to the inputs of that many future observations, in the user's units."""

Rows = Float[np.ndarray, "row input"]
"""Inputs in the user's units."""


def choose_num_future(domain: TrainingDomain) -> int:
    """Number of future observations: as many as the largest context in training has, but from `FEWEST` to `MOST`.

    Large contexts need as many as small ones. With only as many as fit into the sizes of training, functions vary too little
    between the points of a large context.

    >>> from mpnp.inference.placement import Placement
    >>> domain = TrainingDomain(100, 5_000, np.zeros(1), np.ones(1), largest_context=24, placement=Placement.anywhere(1))
    >>> choose_num_future(domain)
    24
    """
    return min(MOST, max(FEWEST, domain.largest_context))


@functools.lru_cache(maxsize=64)
def _programs(static: AbstractNeuralProcess) -> tuple[Callable[..., tuple[Predictive, Array]], Callable[..., Array]]:
    """Compiled functions and chains, shared by all models that differ in their weights only."""

    def functions(
        parameters: PyTree,
        context: PointSet,
        inputs: Float[Array, "draw future x_dim"],
        num_points: Int[Array, ""],
        x_target: Float[Array, "target x_dim"],
        key: PRNGKeyArray,
    ) -> tuple[Predictive, Float[Array, "draw future y_dim"]]:
        model, (complete_key, read_key) = eqx.combine(parameters, static), jax.random.split(key)
        completed = complete_contexts(model, context, inputs, num_points, key=complete_key)
        imagined = completed.y[:, len(context.mask) :]
        return read_functions(model, completed, x_target, key=read_key), imagined

    def chains(
        parameters: PyTree,
        context: PointSet,
        points: PointSet,
        orders: Int[Array, "order point"],
        keys: Key[Array, " order"],
    ) -> Float[Array, " order"]:
        model = eqx.combine(parameters, static)

        def chain(arguments: tuple[Int[Array, " point"], PRNGKeyArray]) -> Float[Array, ""]:
            order, key = arguments
            return chain_log_prob(model, context, points, order, key=key, num_samples=CHAIN_SAMPLES)

        return jax.lax.map(chain, (orders, keys))

    return jax.jit(functions), jax.jit(chains)


class Resampler:
    """Completes contexts with a network and reads functions from them; compiled once per padded shape."""

    def __init__(self, network: AbstractNeuralProcess, columns: Schema, domain: TrainingDomain, design: AbstractDesign) -> None:
        self.columns, self.domain, self.design = columns, domain, design
        self._parameters, static = eqx.partition(network, eqx.is_array)
        self._functions, self._chains = _programs(static)

    def __call__(
        self,
        context: PointSet,
        x_context: Float[np.ndarray, "context input"],
        x: Rows,
        num_draws: int,
        *,
        seed: int,
        num_future: int,
        future_inputs: FutureInputs | None,
    ) -> Functions:
        """Draw functions at the rows of x. The same seed draws the same functions at any rows within the training range."""
        draw_key, rng = jax.random.key(seed), np.random.default_rng(seed)
        padded_draws = round_up(num_draws)
        if future_inputs is None:
            inputs = self.place(x_context, x, padded_draws, num_future, rng)
        elif not callable(future_inputs):
            raise InputError(f"future_inputs must be a function of a generator and a number of rows, got {show(future_inputs)}")
        else:
            rows = np.stack([self._read(future_inputs(rng, num_future), num_future) for _ in range(padded_draws)])
            inputs = self._arrange(rows, rng)
        num_points, targets = inputs.shape[1], target_inputs(self.columns, x)
        slots = round_up(num_future * self.columns.points_per_row)  # as many even if the grid has fewer, to compile once
        future = jnp.pad(inputs, [(0, 0), (0, slots - num_points), (0, 0)])
        filled = np.concatenate([targets, np.zeros((round_up(len(targets)) - len(targets), targets.shape[1]), targets.dtype)])
        padded = pad_points(context, round_up(len(context.mask)))
        answer = self._functions(self._parameters, padded, future, jnp.asarray(num_points), filled, draw_key)
        values, y_future = jax.tree.map(lambda leaf: leaf[:num_draws], jax.device_get(answer))
        imagined = find_imagined(np.asarray(inputs[:num_draws]), y_future[:, :num_points], targets)
        return Functions(select(values, slice(None, len(targets))), imagined)

    def place(
        self,
        x_context: Float[np.ndarray, "context input"],
        x: Rows,
        num_draws: int,
        num_future: int,
        rng: np.random.Generator,
    ) -> Float[Array, "draw future x_dim"]:
        """Inputs of future observations as the network reads them, in the ranges of training and of x."""
        given = x_context if len(x_context) else x
        fixed, region = np.asarray(self.domain.placement.fixed), self._find_region(given, x_context, x)
        rows = self.design.place(num_draws, num_future, x_context, region, rng)
        if fixed.any():
            rows[..., fixed] = given[rng.integers(len(given), size=(num_draws, 1))][..., fixed]
        return self._arrange(rows, rng)

    def chain_log_prob(self, context: PointSet, points: PointSet, *, num_orders: int, seed: int) -> float:
        """Joint log density of points by the chain rule, averaged over orders."""
        orders = self.design.orders(np.asarray(points.x), num_orders, np.random.default_rng(seed))
        num_points = orders.shape[1]
        padding = np.tile(np.arange(num_points, round_up(num_points)), (num_orders, 1))
        padded = (pad_points(part, round_up(len(part.mask))) for part in (context, points))
        keys = jax.random.split(jax.random.key(seed), num_orders)
        return float(self._chains(self._parameters, *padded, np.hstack([orders, padding]), keys).mean())

    def _arrange(
        self, rows: Float[np.ndarray, "draw row input"], rng: np.random.Generator
    ) -> Float[Array, "draw future x_dim"]:
        """The rows as network inputs, in the design's order. A row with several outputs may be several points."""
        points = target_inputs(self.columns, rows.reshape(-1, rows.shape[-1])).reshape(len(rows), -1, self.columns.dims[0])
        return jnp.asarray(self.design.arrange(points, rng))

    def _find_region(
        self,
        given: Float[np.ndarray, "given input"],
        x_context: Float[np.ndarray, "context input"],
        x: Float[np.ndarray, "row input"],
    ) -> AbstractRegion:
        """Where the curve may have more observations: on the grid of training, unless x leaves it, and in the range of both."""
        # A training domain may have no bounds; fmin and fmax ignore NaN, and comparisons with NaN are false.
        low, high = (np.where(np.isfinite(bound), bound, np.nan) for bound in (self.domain.low, self.domain.high))
        lowest, highest = x.min(axis=0), x.max(axis=0)
        placement = self.domain.placement.of_curve(given[0], (lowest < low) | (highest > high))
        return find_region(placement, np.fmin(low, lowest), np.fmax(high, highest), x_context)

    def _read(self, rows: Any, num_future: int) -> Rows:
        inputs = as_matrix("what future_inputs returned", rows, allow_missing=False)
        wanted = (num_future, len(self.columns.inputs))
        if inputs.shape != wanted:
            raise InputError(f"future_inputs must return finite numbers of shape {wanted}, got shape {np.shape(rows)}")
        return inputs
