"""Weights that training starts with: the authors', or such that networks tell inputs apart from the first step on."""

import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from mpnp.models.contract import AbstractNeuralProcess
from mpnp.networks.dense import MLP, Linear
from mpnp.tasks.task import Task

__all__ = ["INITIALISATIONS", "Initialisation", "as_built", "spread_kinks"]

Initialisation = Callable[[AbstractNeuralProcess, Task, PRNGKeyArray], AbstractNeuralProcess]
"""From a new model, a batch of tasks like those it will learn from, and a key, to the model that training starts with."""


def as_built(model: AbstractNeuralProcess, tasks: Task, key: PRNGKeyArray) -> AbstractNeuralProcess:
    """Xavier-normal weights and biases near zero, as in the authors' framework."""
    return model


def spread_kinks(model: AbstractNeuralProcess, tasks: Task, key: PRNGKeyArray) -> AbstractNeuralProcess:
    """Each first unit of a network bends where one of the tasks' points lies, in a random direction.

    With biases near zero all units bend at the origin: on either side of it a network of one input is then linear, and much of
    training goes by before it is not.
    """
    present = (tasks.context_mask | tasks.target_mask).reshape(-1)
    points = jnp.concatenate([tasks.x, tasks.y], axis=-1).reshape(len(present), -1)
    spread = jnp.std(points, axis=0, where=present[:, None])
    spread = jnp.where(spread > 0, spread, 1)
    num_networks = sum(map(_is_network, jax.tree.leaves(model, is_leaf=_is_network)))
    keys = iter(jax.random.split(key, num_networks))

    def spread_out(node: MLP | Array) -> MLP | Array:
        if not isinstance(node, MLP):
            return node
        # A decoder reads an input and then features; any other network reads the input, or input and output, of a point.
        num_read = model.x_dim if node is model.decoder.mlp else len(node.layers[0].weight)
        choice_key, direction_key = jax.random.split(next(keys))
        kinks = points[_choose(present, len(node.layers[0].bias), key=choice_key), :num_read]
        directions = jax.random.normal(direction_key, kinks.shape) / (spread[:num_read] * math.sqrt(num_read))
        return eqx.tree_at(lambda network: network.layers[0], node, _bend(node.layers[0], kinks, directions))

    return jax.tree.map(spread_out, model, is_leaf=_is_network)


def _is_network(node: object) -> bool:
    return isinstance(node, MLP)


def _choose(present: Bool[Array, " point"], num: int, *, key: PRNGKeyArray) -> Int[Array, " num"]:
    """Any of the points that are there."""
    return jax.random.choice(key, len(present), (num,), p=present / present.sum())


def _bend(layer: Linear, kinks: Float[Array, "unit read"], directions: Float[Array, "unit read"]) -> Linear:
    """The layer whose units are zero at these points; weights of what else it reads stay as they are."""
    weight = layer.weight.at[: kinks.shape[1]].set(directions.T)
    return Linear(weight, -jnp.sum(directions * kinks, axis=1))


INITIALISATIONS: dict[str, Initialisation] = {"authors": as_built, "spread": spread_kinks}
