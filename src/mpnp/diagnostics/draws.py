"""Functions drawn for many cases at once: all cases are padded to one shape, so that one program serves them all."""

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from mpnp.diagnostics.cases import Case, Cases
from mpnp.inference.functions import DrawnFunctions, Functions, find_imagined
from mpnp.inference.model import FittedModel
from mpnp.inference.prediction import Prediction, select
from mpnp.inference.predictor import pad_points
from mpnp.inference.resampler import choose_num_future
from mpnp.inference.resampling import complete_contexts, read_functions
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.tables.points import context_points, target_inputs
from mpnp.tasks.task import PointSet

__all__ = ["NUM_DRAWS", "STEPS", "Moments", "Resampled", "generate_functions", "padded_points", "resample_cases"]

NUM_DRAWS = 64
"""Functions drawn per case."""

STEPS = (0, 1, 3, 10, 30)
"""Numbers of resampled points after which predictions are compared with those before."""


NUM_TARGETS = 12
"""Targets of each case at which predictions are compared."""


class Moments(NamedTuple):
    """Moments of predictions at some targets after each number of resampled points, in the network's units."""

    mean: Float[Array, "*step target y_dim"]
    between_std: Float[Array, "*step target y_dim"]
    within_std: Float[Array, "*step target y_dim"]


@dataclasses.dataclass(frozen=True)
class Resampled:
    """Functions of one case by predictive resampling, and predictions on the way to them."""

    functions: DrawnFunctions
    moments: Moments
    num_points: int
    """Resampled points behind each function. Moments at more points than these mean nothing."""


def resample_cases(model: FittedModel, cases: Cases, *, seed: int) -> Iterator[Resampled]:
    """Resample each case as `posterior.sample` does."""
    columns = model.card.columns
    parameters, static = eqx.partition(model.network, eqx.is_array)
    contexts = padded_points([context_points(columns, case.x_context, case.y_context) for case in cases])
    num_future = choose_num_future(model.card.seen)
    num_rows = max(len(case.x_function) for case in cases)
    most_points = num_future * columns.points_per_row

    @jax.jit
    def draw(parameters: PyTree, *arguments: PyTree) -> tuple[Predictive, Array, Moments]:
        return _draw(eqx.combine(parameters, static), *arguments)

    for number, (case, context) in enumerate(zip(cases, contexts, strict=True)):
        rng, key = np.random.default_rng([seed, number]), jax.random.fold_in(jax.random.key(seed), number)
        inputs = model.network_forecaster.completer.place(case.x_context, _all_inputs(case), NUM_DRAWS, num_future, rng)
        queries = (
            target_inputs(columns, np.resize(x, (count, x.shape[1])))
            for x, count in ((case.x_function, num_rows), (case.x_target, NUM_TARGETS))
        )
        future = jnp.pad(inputs, [(0, 0), (0, most_points - inputs.shape[1]), (0, 0)])
        answer = draw(parameters, context, future, jnp.asarray(inputs.shape[1]), *queries, key)
        values, y_future, moments = jax.device_get(answer)
        targets = target_inputs(columns, case.x_function)
        imagined = find_imagined(np.asarray(inputs), y_future[:, : inputs.shape[1]], targets)
        functions = Functions(select(values, slice(None, len(targets))), imagined)
        drawn = DrawnFunctions.decode(functions, columns).with_noise(case.noise_function)
        yield Resampled(drawn, moments, inputs.shape[1])


def _draw(
    network: PyTree,
    context: PointSet,
    inputs: Float[Array, "draw future x_dim"],
    num_points: Int[Array, ""],
    x_function: Float[Array, "row x_dim"],
    x_target: Float[Array, "target x_dim"],
    key: PRNGKeyArray,
) -> tuple[Predictive, Float[Array, "draw future y_dim"], Moments]:
    """Functions, the observations at the first `num_points` inputs that they rest on, and moments at the targets on the way."""
    complete_key, read_key = jax.random.split(key)
    completed = complete_contexts(network, context, inputs, num_points, key=complete_key)
    slot = jnp.arange(completed.mask.shape[1])

    def read(number: Int[Array, ""], x: Float[Array, "row x_dim"]) -> Predictive:
        kept = completed.mask & (slot < len(context.mask) + number)
        return read_functions(network, PointSet(completed.x, completed.y, kept), x, key=read_key)

    def moments(number: Int[Array, ""]) -> Moments:
        after = read(number, x_target)
        return Moments(after.mean, after.between_std, after.within_std)

    return read(num_points, x_function), completed.y[:, len(context.mask) :], jax.lax.map(moments, jnp.asarray(STEPS))


def generate_functions(model: FittedModel, cases: Cases) -> list[Prediction]:
    """Functions of each case from the model's own mechanism."""
    pairs = [(case.x_context, case.y_context) for case in cases]
    noise = [case.noise_function for case in cases]
    return model.predict_pairs(pairs, [case.x_function for case in cases], NUM_DRAWS, noise)


def padded_points(sets: list[PointSet]) -> list[PointSet]:
    """The point sets, all padded to the size of the largest."""
    most = max(len(points.mask) for points in sets)
    return [pad_points(points, most) for points in sets]


def _all_inputs(case: Case) -> Float[np.ndarray, "row input"]:
    return np.concatenate([case.x_function, case.x_target])
