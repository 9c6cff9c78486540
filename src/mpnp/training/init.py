"""Initial weights: the authors', or weights with which networks distinguish inputs from the first step."""

import math
from collections.abc import Callable
from typing import TypeGuard

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from mpnp.errors import InputError, RunError
from mpnp.models.base import AbstractNeuralProcess
from mpnp.nn.linear import MLP, Linear
from mpnp.tasks.base import AbstractTaskFamily, TaskSource, training_indices
from mpnp.tasks.task import Task
from mpnp.training import checkpoint
from mpnp.training.config import RunConfig
from mpnp.training.rundir import load_model

__all__ = ["INITIALISATIONS", "Initialisation", "as_built", "spread_kinks", "starting_model"]

Initialisation = Callable[[AbstractNeuralProcess, Task, PRNGKeyArray], AbstractNeuralProcess]
"""From a new model, a batch of tasks like those it will learn from, and a key, to the model that training starts with."""


def as_built(model: AbstractNeuralProcess, tasks: Task, key: PRNGKeyArray) -> AbstractNeuralProcess:
    """Xavier-normal weights and biases near zero, as in the authors' framework."""
    return model


def spread_kinks(model: AbstractNeuralProcess, tasks: Task, key: PRNGKeyArray) -> AbstractNeuralProcess:
    """Place the kinks of first-layer units that read points at points of the tasks, in random directions.

    With biases near zero all units bend at the origin: on either side of it a network of one input is then linear, and much of
    training goes by before it is not.
    """
    present = (tasks.context_mask | tasks.target_mask).reshape(-1)
    points = jnp.concatenate([tasks.x, tasks.y], axis=-1).reshape(len(present), -1)
    spread = jnp.std(points, axis=0, where=present[:, None])
    spread = jnp.where(spread > 0, spread, 1)
    num_networks = sum(map(_reads_points, jax.tree.leaves(model, is_leaf=_reads_points)))
    keys = iter(jax.random.split(key, num_networks))

    def spread_out(node: MLP | Array) -> MLP | Array:
        if not _reads_points(node):
            return node
        read = slice(*node.columns)
        choice_key, direction_key = jax.random.split(next(keys))
        kinks = points[_choose(present, len(node.layers[0].bias), key=choice_key), read]
        directions = jax.random.normal(direction_key, kinks.shape) / (spread[read] * math.sqrt(kinks.shape[1]))
        return eqx.tree_at(lambda network: network.layers[0], node, _bend(node.layers[0], kinks, directions))

    return jax.tree.map(spread_out, model, is_leaf=_reads_points)


def _reads_points(node: object) -> TypeGuard[MLP]:
    return isinstance(node, MLP) and node.columns[1] > node.columns[0]


def _choose(present: Bool[Array, " point"], num: int, *, key: PRNGKeyArray) -> Int[Array, " num"]:
    """Random points of those in the mask."""
    return jax.random.choice(key, len(present), (num,), p=present / present.sum())


def _bend(layer: Linear, kinks: Float[Array, "unit read"], directions: Float[Array, "unit read"]) -> Linear:
    """The layer whose units have their kinks at these points; weights of its other inputs stay as they are."""
    weight = layer.weight.at[: kinks.shape[1]].set(directions.T)
    return Linear(weight, -jnp.sum(directions * kinks, axis=1))


INITIALISATIONS: dict[str, Initialisation] = {"authors": as_built, "spread": spread_kinks}


def starting_model(config: RunConfig, training: AbstractTaskFamily) -> AbstractNeuralProcess:
    """The model before its first step: new weights, overwritten by those of the run it starts from."""
    model = eqx.filter_jit(_new_model)(config, training)
    if config.start_from is None:
        return model
    trained, other, _ = load_model(config.start_from)
    try:
        return checkpoint.load_matching(trained, model)
    except RunError as error:
        raise InputError(f"{config.model} cannot start from {config.start_from}, which is {other.model}: {error}") from None


def _new_model(config: RunConfig, training: AbstractTaskFamily) -> AbstractNeuralProcess:
    """New weights. Initialisations may depend on the tasks of the first step."""
    recipe, (key, data_key, _) = config.recipe, config.keys()
    indices = training_indices(0, recipe.batch_size, num_tasks=config.num_tasks, seed=config.seed)
    initialise = INITIALISATIONS[recipe.initialisation]
    tasks = TaskSource(training, data_key).batch(jnp.asarray(indices))
    return initialise(config.build_model(), tasks, jax.random.fold_in(key, 1))
