"""One step of training: draw tasks, compute the gradient on all devices, descend."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Float, Integer, Key, PyTree

from mpnp import devices
from mpnp.models.contract import AbstractNeuralProcess, LossTerms
from mpnp.optimizers import OPTIMIZERS
from mpnp.pieces import batch_gradient
from mpnp.runs import RunConfig
from mpnp.tasks.sources import TaskSource

__all__ = ["TrainState", "make_optimizer", "make_step"]


class TrainState(eqx.Module):
    """The arrays that a run continues from. Random keys are not among them: they follow from the seed and the step."""

    model: AbstractNeuralProcess
    optimizer: PyTree


StepStats = dict[str, Float[Array, ""]]
Step = Callable[[TrainState, Integer[Array, " batch"], Integer[Array, ""]], tuple[TrainState, StepStats]]


def make_optimizer(config: RunConfig) -> optax.GradientTransformation:
    """The recipe's optimiser with its learning rate falling to zero along a cosine."""
    return OPTIMIZERS[config.recipe.optimizer](optax.cosine_decay_schedule(config.recipe.learning_rate, config.recipe.steps))


def make_step(config: RunConfig, mesh: Mesh) -> Step:
    """The compiled training step: every device draws its share of the tasks, then all descend together."""
    optimizer, recipe = make_optimizer(config), config.recipe
    _, data_key, noise_key = jax.random.split(jax.random.key(config.seed), 3)
    source = TaskSource(config.family, data_key)

    @eqx.filter_jit
    def step(state: TrainState, indices: Integer[Array, " batch"], step: Integer[Array, ""]) -> tuple[TrainState, StepStats]:
        parameters, static = eqx.partition(state.model, eqx.is_inexact_array)

        def share(
            parameters: PyTree, indices: Integer[Array, " share"], keys: Key[Array, " share"]
        ) -> tuple[LossTerms, PyTree[Float[Array, "..."]]]:
            model, tasks = eqx.combine(parameters, static), source.batch(indices)
            return jax.lax.pmean(batch_gradient(model, tasks, keys, num_samples=recipe.num_samples), devices.TASKS)

        keys = jax.random.split(jax.random.fold_in(noise_key, step), recipe.batch_size)
        everywhere, spread = PartitionSpec(), PartitionSpec(devices.TASKS)
        terms, gradient = jax.shard_map(
            share, mesh=mesh, in_specs=(everywhere, spread, spread), out_specs=everywhere, check_vma=False
        )(parameters, indices, keys)
        updates, optimizer_state = optimizer.update(gradient, state.optimizer, parameters)
        model = eqx.apply_updates(state.model, updates)
        norms = {"gradient_norm": optax.tree.norm(gradient), "parameter_norm": optax.tree.norm(model)}
        return TrainState(model, optimizer_state), {"loss": jnp.sum(jnp.stack(list(terms.values()))), **terms, **norms}

    return step
