"""Small models and tasks that many tests share."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mpnp.models.base import AbstractNeuralProcess
from mpnp.models.bootstrap import Resamples
from mpnp.models.build import build
from mpnp.models.config import ModelSettings
from mpnp.models.neural_bootstrap import NeuralBootstrapNP
from mpnp.tasks.task import PointSet, Task

SETTINGS = ModelSettings(
    width=8,
    num_heads=2,
    encoder_depth=1,
    latent_depth=1,
    decoder_depth=1,
    num_pseudo=3,
    num_layers=2,
    layer_width=8,
    num_periods=6,
)
NUM_SAMPLES = 3
NUM_SLOTS = 10
CONTEXT = np.array([0, 2, 3, 7])
TARGET = np.array([1, 5, 8])


def small_model(name: str, *, x_dim: int = 1, y_dim: int = 1, settings: ModelSettings = SETTINGS) -> AbstractNeuralProcess:
    """A tiny model with random weights throughout: zero biases and unit scales could hide a mistake."""
    # Only shapes are asked for: to draw initial weights would compile a program for each of them.
    model = eqx.filter_eval_shape(build, name, key=jax.random.key(0), x_dim=x_dim, y_dim=y_dim, settings=settings)
    leaves, structure = jax.tree.flatten(model)
    rng = np.random.default_rng(1)
    return jax.tree.unflatten(structure, [jnp.asarray(rng.normal(0, 0.5, leaf.shape), leaf.dtype) for leaf in leaves])


def slot_mask(slots: np.ndarray, num_slots: int = NUM_SLOTS) -> jax.Array:
    return jnp.zeros(num_slots, bool).at[slots].set(True)


def small_task(*, context: np.ndarray = CONTEXT, junk: float = 0.0, num_slots: int = NUM_SLOTS) -> Task:
    """Four context and three target points in scattered slots, with `junk` in the empty ones."""
    rng = np.random.default_rng(2)
    x, y = (np.full((num_slots, 1), junk, np.float32) for _ in range(2))
    x[:NUM_SLOTS], y[:NUM_SLOTS] = rng.normal(size=(2, NUM_SLOTS, 1))
    empty = np.setdiff1d(np.arange(num_slots), np.concatenate([context, TARGET]))
    x[empty] = y[empty] = junk
    return Task(jnp.asarray(x), jnp.asarray(y), slot_mask(context, num_slots), slot_mask(TARGET, num_slots))


def permute_points(points: PointSet | Task, order: np.ndarray):
    """The same points, with slot `order[j]` moved to slot j."""
    return jax.tree.map(lambda leaf: leaf[order], points)


def permute_noise(model: AbstractNeuralProcess, noise, order: np.ndarray):
    """The same draws for permuted points: only resampling attaches draws to points."""
    if isinstance(noise, Resamples):
        moved_to = jnp.asarray(np.argsort(order))
        return jax.tree.map(lambda slots: moved_to[slots[:, order]], noise)
    return noise[:, order] if isinstance(model, NeuralBootstrapNP) else noise


def loss_given(model: AbstractNeuralProcess, task: Task, noise) -> jax.Array:
    return sum(model.loss_terms(task, noise).values())


# Compiled once for each model and shape, and shared by all laws.
loss_and_gradient = eqx.filter_jit(eqx.filter_value_and_grad(loss_given))


@eqx.filter_jit
def predict_given(model: AbstractNeuralProcess, context: PointSet, x_target: jax.Array, noise):
    return model.predict_given(context, x_target, noise)


def assert_trees_close(got, wanted, **tolerance) -> None:
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, **tolerance)
