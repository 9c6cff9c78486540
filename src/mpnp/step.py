"""One step of training: draw tasks, compute the gradient on all devices, descend."""

import functools
import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Float, Integer, Key, PRNGKeyArray, PyTree, Shaped, UInt32

from mpnp import devices
from mpnp.models.contract import AbstractNeuralProcess, LossTerms
from mpnp.optimizers import OPTIMIZERS
from mpnp.pieces import batch_gradient
from mpnp.recipes import Recipe
from mpnp.runs import RunConfig, starting_model
from mpnp.tasks.families import AbstractTaskFamily
from mpnp.tasks.sources import TaskSource

__all__ = ["TrainState", "initial_state", "learning", "learning_rate", "make_optimizer", "make_step", "state_shapes"]


class TrainState(eqx.Module):
    """The arrays that a run continues from. Random keys are not among them: they follow from the seed and the step."""

    model: AbstractNeuralProcess
    optimizer: PyTree


def initial_state(config: RunConfig, family: AbstractTaskFamily) -> TrainState:
    """The weights to start with, and an optimiser that has seen nothing."""
    return eqx.filter_jit(_with_optimizer)(starting_model(config, family), config.recipe.optimizer)


def state_shapes(config: RunConfig) -> TrainState:
    """What a checkpoint of the run holds, as shapes."""
    return eqx.filter_eval_shape(lambda: _with_optimizer(config.build_model(), config.recipe.optimizer))


def _with_optimizer(model: AbstractNeuralProcess, optimizer: str) -> TrainState:
    return TrainState(model, make_optimizer(optimizer).init(eqx.filter(model, eqx.is_inexact_array)))


StepStats = dict[str, Float[Array, ""]]
Step = Callable[[TrainState, Integer[np.ndarray, " batch"], int], tuple[TrainState, StepStats]]


def make_optimizer(name: str) -> optax.GradientTransformation:
    """The optimiser for a learning rate of one; every step scales its update by the rate of that step."""
    return OPTIMIZERS[name](1.0)


def learning_rate(recipe: Recipe, step: int) -> float:
    """Half a cosine from the recipe's learning rate down to zero."""
    return recipe.learning_rate * (1 + math.cos(math.pi * min(step / recipe.steps, 1))) / 2


def learning(config: RunConfig, model: AbstractNeuralProcess, step: int) -> AbstractNeuralProcess:
    """What the step of that number trains: the whole model, or in the first ones its core."""
    return model.core if step < config.core_steps else model


def make_step(config: RunConfig, family: AbstractTaskFamily, mesh: Mesh) -> Step:
    """The compiled training step: every device draws its share of the tasks, then all descend together."""
    observed, drawn = eqx.partition(family, lambda leaf: isinstance(leaf, (jax.Array, np.ndarray)))
    _, *keys = config.keys()
    observed, key_data = devices.replicate(mesh, (observed, tuple(jax.random.key_data(key) for key in keys)))
    core, whole = (
        _program(learner, config.recipe.optimizer, config.recipe.num_samples, drawn, mesh) for learner in (_core, _whole)
    )

    def step(state: TrainState, indices: Integer[np.ndarray, " batch"], number: int) -> tuple[TrainState, StepStats]:
        rate = np.float32(learning_rate(config.recipe, number))
        when = devices.replicate(mesh, (np.uint32(number), rate))
        descend = whole if learning(config, state.model, number) is state.model else core
        return descend(state, observed, key_data, devices.spread(mesh, indices), *when)

    return step


Learner = Callable[[AbstractNeuralProcess], AbstractNeuralProcess]


def _whole(model: AbstractNeuralProcess) -> AbstractNeuralProcess:
    return model


def _core(model: AbstractNeuralProcess) -> AbstractNeuralProcess:
    return model.core


def _in_the_whole(learner: Learner, model: AbstractNeuralProcess) -> Callable[[PyTree], tuple[PyTree]]:
    """From a gradient of what learns to that of the whole model, which is zero elsewhere."""
    parameters, static = eqx.partition(model, eqx.is_inexact_array)
    return jax.vjp(lambda parameters: eqx.filter(learner(eqx.combine(parameters, static)), eqx.is_inexact_array), parameters)[1]


@functools.lru_cache(maxsize=8)
def _program(
    learner: Learner, optimizer_name: str, num_samples: int, drawn: AbstractTaskFamily, mesh: Mesh
) -> Callable[..., tuple[TrainState, StepStats]]:
    """The part of a step that is compiled, in which all of the model learns, or its core.

    Keys, step, learning rate and observed data are arguments, so one program serves runs of any seed, length, rate and values.
    """
    optimizer = make_optimizer(optimizer_name)
    everywhere, spread = PartitionSpec(), PartitionSpec(devices.TASKS)

    @jax.jit  # a step of a small model takes milliseconds, of which `eqx.filter_jit` would spend two sorting its arguments
    def descend(
        state: TrainState,
        observed: PyTree[Shaped[Array, "..."]],
        key_data: tuple[UInt32[Array, " word"], UInt32[Array, " word"]],
        indices: Integer[Array, " batch"],
        number: UInt32[Array, ""],
        rate: Float[Array, ""],
    ) -> tuple[TrainState, StepStats]:
        parameters, static = eqx.partition(state.model, eqx.is_inexact_array)
        data_key, noise_key = (jax.random.wrap_key_data(data) for data in key_data)

        def share(
            parameters: PyTree,
            observed: PyTree[Shaped[Array, "..."]],
            data_key: PRNGKeyArray,
            indices: Integer[Array, " share"],
            keys: Key[Array, " share"],
        ) -> tuple[LossTerms, PyTree[Float[Array, "..."]]]:
            model, source = eqx.combine(parameters, static), TaskSource(eqx.combine(observed, drawn), data_key)
            tasks = source.batch(indices)
            return jax.lax.pmean(batch_gradient(learner(model), tasks, keys, num_samples=num_samples), devices.TASKS)

        keys = jax.random.split(jax.random.fold_in(noise_key, number), len(indices))
        terms, gradient = jax.shard_map(
            share, mesh=mesh, in_specs=(everywhere,) * 3 + (spread,) * 2, out_specs=everywhere, check_vma=False
        )(parameters, observed, data_key, indices, keys)
        (gradient,) = _in_the_whole(learner, state.model)(gradient)
        direction, optimizer_state = optimizer.update(gradient, state.optimizer, parameters)
        model = eqx.apply_updates(state.model, jax.tree.map(lambda leaf: rate * leaf, direction))
        norms = {"gradient_norm": optax.tree.norm(gradient), "parameter_norm": optax.tree.norm(model)}
        return TrainState(model, optimizer_state), {"loss": jnp.sum(jnp.stack(list(terms.values()))), **terms, **norms}

    return descend
