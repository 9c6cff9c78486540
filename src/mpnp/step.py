"""One step of training: draw tasks, compute the gradient on all devices, descend."""

import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Float, Integer, Key, PRNGKeyArray, PyTree, UInt32

from mpnp import devices
from mpnp.models.contract import AbstractNeuralProcess, LossTerms
from mpnp.optimizers import OPTIMIZERS
from mpnp.pieces import batch_gradient
from mpnp.recipes import Recipe
from mpnp.runs import RunConfig
from mpnp.tasks.sources import TaskSource

__all__ = ["TrainState", "initial_state", "learning_rate", "make_optimizer", "make_step"]


class TrainState(eqx.Module):
    """The arrays that a run continues from. Random keys are not among them: they follow from the seed and the step."""

    model: AbstractNeuralProcess
    optimizer: PyTree


def initial_state(config: RunConfig) -> TrainState:
    """New weights, and an optimiser that has seen nothing."""
    model = config.build_model()
    return TrainState(model, make_optimizer(config).init(eqx.filter(model, eqx.is_inexact_array)))


StepStats = dict[str, Float[Array, ""]]
Step = Callable[[TrainState, Integer[np.ndarray, " batch"], int], tuple[TrainState, StepStats]]


def make_optimizer(config: RunConfig) -> optax.GradientTransformation:
    """The recipe's optimiser for a learning rate of one; every step scales its update by the rate of that step."""
    return OPTIMIZERS[config.recipe.optimizer](1.0)


def learning_rate(recipe: Recipe, step: int) -> float:
    """Half a cosine from the recipe's learning rate down to zero."""
    return recipe.learning_rate * (1 + math.cos(math.pi * min(step / recipe.steps, 1))) / 2


def make_step(config: RunConfig, mesh: Mesh) -> Step:
    """The compiled training step: every device draws its share of the tasks, then all descend together."""
    optimizer, num_samples = make_optimizer(config), config.recipe.num_samples
    _, data_key, noise_key = jax.random.split(jax.random.key(config.seed), 3)
    everywhere, spread = PartitionSpec(), PartitionSpec(devices.TASKS)

    # Keys and learning rate are arguments: a program kept on disk serves runs of any seed, length and rate.
    @eqx.filter_jit
    def descend(
        state: TrainState,
        indices: Integer[Array, " batch"],
        key_data: tuple[UInt32[Array, " word"], UInt32[Array, " word"]],
        rate: Float[Array, ""],
    ) -> tuple[TrainState, StepStats]:
        parameters, static = eqx.partition(state.model, eqx.is_inexact_array)
        data_key, noise_key = (jax.random.wrap_key_data(data) for data in key_data)

        def share(
            parameters: PyTree, data_key: PRNGKeyArray, indices: Integer[Array, " share"], keys: Key[Array, " share"]
        ) -> tuple[LossTerms, PyTree[Float[Array, "..."]]]:
            model, tasks = eqx.combine(parameters, static), TaskSource(config.family, data_key).batch(indices)
            return jax.lax.pmean(batch_gradient(model, tasks, keys, num_samples=num_samples), devices.TASKS)

        keys = jax.random.split(noise_key, len(indices))
        terms, gradient = jax.shard_map(
            share, mesh=mesh, in_specs=(everywhere, everywhere, spread, spread), out_specs=everywhere, check_vma=False
        )(parameters, data_key, indices, keys)
        direction, optimizer_state = optimizer.update(gradient, state.optimizer, parameters)
        model = eqx.apply_updates(state.model, jax.tree.map(lambda leaf: rate * leaf, direction))
        norms = {"gradient_norm": optax.tree.norm(gradient), "parameter_norm": optax.tree.norm(model)}
        return TrainState(model, optimizer_state), {"loss": jnp.sum(jnp.stack(list(terms.values()))), **terms, **norms}

    def step(state: TrainState, indices: Integer[np.ndarray, " batch"], number: int) -> tuple[TrainState, StepStats]:
        keys = (data_key, jax.random.fold_in(noise_key, number))
        rate = np.float32(learning_rate(config.recipe, number))
        shared = devices.replicate(mesh, (tuple(jax.random.key_data(key) for key in keys), rate))
        return descend(state, devices.spread(mesh, indices), *shared)

    return step
