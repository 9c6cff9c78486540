"""The training step: draw tasks, compute the gradient on all devices, update the weights."""

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

from mpnp.models.base import AbstractNeuralProcess, LossTerms
from mpnp.models.microbatch import batch_gradient
from mpnp.tasks.base import AbstractTaskFamily, TaskSource
from mpnp.training import sharding
from mpnp.training.config import Recipe, RunConfig
from mpnp.training.init import starting_model
from mpnp.training.optimizers import OPTIMIZERS

__all__ = ["TrainState", "initial_state", "learning", "learning_rate", "make_optimizer", "make_step", "state_shapes"]


class TrainState(eqx.Module):
    """Model and optimiser state. Random keys are not part of it: they follow from the seed and the step."""

    model: AbstractNeuralProcess
    optimizer: PyTree


def initial_state(config: RunConfig, family: AbstractTaskFamily) -> TrainState:
    """The initial weights and optimiser state."""
    return eqx.filter_jit(_with_optimizer)(starting_model(config, family), config.recipe.optimizer)


def state_shapes(config: RunConfig) -> TrainState:
    """Shapes of the arrays in a checkpoint of the run."""
    return eqx.filter_eval_shape(lambda: _with_optimizer(config.build_model(), config.recipe.optimizer))


def _with_optimizer(model: AbstractNeuralProcess, optimizer: str) -> TrainState:
    return TrainState(model, make_optimizer(optimizer).init(eqx.filter(model, eqx.is_inexact_array)))


StepStats = dict[str, Float[Array, ""]]
Step = Callable[[TrainState, Integer[np.ndarray, " batch"], int], tuple[TrainState, StepStats]]


def make_optimizer(name: str) -> optax.GradientTransformation:
    """The optimiser with learning rate 1; each step scales the update by its own rate."""
    return OPTIMIZERS[name](1.0)


def learning_rate(recipe: Recipe, step: int) -> float:
    """Cosine decay from the recipe's learning rate to 0.

    >>> [learning_rate(Recipe(steps=100, learning_rate=1e-3), step) for step in (0, 100)]
    [0.001, 0.0]
    """
    return recipe.learning_rate * (1 + math.cos(math.pi * min(step / recipe.steps, 1))) / 2


def learning(config: RunConfig, model: AbstractNeuralProcess, step: int) -> AbstractNeuralProcess:
    """The part of the model that a step trains: its core in the first steps, then the whole model."""
    return model.core if step < config.core_steps else model


def make_step(config: RunConfig, family: AbstractTaskFamily, mesh: Mesh) -> Step:
    """The training step: every device draws its share of the tasks, and all apply the same mean gradient."""
    observed, drawn = eqx.partition(family, lambda leaf: isinstance(leaf, (jax.Array, np.ndarray)))
    _, *keys = config.keys()
    observed, key_data = sharding.replicate(mesh, (observed, tuple(jax.random.key_data(key) for key in keys)))
    core, whole = (
        _program(learner, config.recipe.optimizer, config.recipe.num_samples, drawn, mesh) for learner in (_core, _whole)
    )

    def step(state: TrainState, indices: Integer[np.ndarray, " batch"], number: int) -> tuple[TrainState, StepStats]:
        rate = np.float32(learning_rate(config.recipe, number))
        when = sharding.replicate(mesh, (np.uint32(number), rate, np.float32(config.recipe.target_weight)))
        descend = whole if learning(config, state.model, number) is state.model else core
        return descend(state, observed, key_data, sharding.spread(mesh, indices), *when)

    return step


Learner = Callable[[AbstractNeuralProcess], AbstractNeuralProcess]


def _whole(model: AbstractNeuralProcess) -> AbstractNeuralProcess:
    return model


def _core(model: AbstractNeuralProcess) -> AbstractNeuralProcess:
    return model.core


def _whole_gradient(learner: Learner, model: AbstractNeuralProcess) -> Callable[[PyTree], tuple[PyTree]]:
    """Map the gradient of the trained part to the whole model, with zeros elsewhere."""
    parameters, static = eqx.partition(model, eqx.is_inexact_array)
    return jax.vjp(lambda parameters: eqx.filter(learner(eqx.combine(parameters, static)), eqx.is_inexact_array), parameters)[1]


@functools.lru_cache(maxsize=8)
def _program(
    learner: Learner, optimizer_name: str, num_samples: int, drawn: AbstractTaskFamily, mesh: Mesh
) -> Callable[..., tuple[TrainState, StepStats]]:
    """The compiled part of a step. `learner` selects the part of the model to train.

    Keys, step, learning rate, target weight and stored data are arguments, so one program serves all seeds, lengths, rates
    and data values.
    """
    optimizer = make_optimizer(optimizer_name)
    everywhere, spread = PartitionSpec(), PartitionSpec(sharding.TASKS)

    @jax.jit  # small steps take milliseconds, and `eqx.filter_jit` would add two to sort its arguments
    def descend(
        state: TrainState,
        observed: PyTree[Shaped[Array, "..."]],
        key_data: tuple[UInt32[Array, " word"], UInt32[Array, " word"]],
        indices: Integer[Array, " batch"],
        number: UInt32[Array, ""],
        rate: Float[Array, ""],
        target_weight: Float[Array, ""],
    ) -> tuple[TrainState, StepStats]:
        parameters, static = eqx.partition(state.model, eqx.is_inexact_array)
        data_key, noise_key = (jax.random.wrap_key_data(data) for data in key_data)

        def share(
            parameters: PyTree,
            observed: PyTree[Shaped[Array, "..."]],
            data_key: PRNGKeyArray,
            target_weight: Float[Array, ""],
            indices: Integer[Array, " share"],
            keys: Key[Array, " share"],
        ) -> tuple[LossTerms, PyTree[Float[Array, "..."]]]:
            model, source = eqx.combine(parameters, static), TaskSource(eqx.combine(observed, drawn), data_key)
            tasks = jax.vmap(lambda task: task.weigh_targets(target_weight))(source.batch(indices))
            return jax.lax.pmean(batch_gradient(learner(model), tasks, keys, num_samples=num_samples), sharding.TASKS)

        keys = jax.random.split(jax.random.fold_in(noise_key, number), len(indices))
        terms, gradient = jax.shard_map(
            share, mesh=mesh, in_specs=(everywhere,) * 4 + (spread,) * 2, out_specs=everywhere, check_vma=False
        )(parameters, observed, data_key, target_weight, indices, keys)
        (gradient,) = _whole_gradient(learner, state.model)(gradient)
        direction, optimizer_state = optimizer.update(gradient, state.optimizer, parameters)
        model = eqx.apply_updates(state.model, jax.tree.map(lambda leaf: rate * leaf, direction))
        norms = {"gradient_norm": optax.tree.norm(gradient), "parameter_norm": optax.tree.norm(model)}
        return TrainState(model, optimizer_state), {"loss": jnp.sum(jnp.stack(list(terms.values()))), **terms, **norms}

    return descend
