"""Exported models, and what JAX answers to the same questions."""

import jax
import jax.numpy as jnp
import numpy as np

from helpers.models import NUM_SAMPLES
from mpnp.inference.model import FittedModel
from mpnp.tasks.task import PointSet

NUM_TARGETS = 4


def question(model: FittedModel, num_points: int):
    """Points and targets as the network reads them, and the noise of the mechanism."""
    rng = np.random.default_rng(num_points)
    x, x_target = (rng.normal(size=(size, model.network.x_dim)).astype(np.float32) for size in (num_points, NUM_TARGETS))
    y = rng.normal(size=(num_points, model.network.y_dim)).astype(np.float32)
    noise = model.network.draw_noise(_points(x, y), NUM_SAMPLES, key=jax.random.key(num_points))
    return x, y, x_target, noise


def answer_of_jax(model: FittedModel, x, y, x_target, noise):
    answer = model.network.predict_given(_points(x, y), jnp.asarray(x_target), noise)
    return np.asarray(answer.loc), np.asarray(answer.scale)


def arguments_of_predict(run, x, y, x_target, noise):
    """The inputs of the program `predict`, for one context, by the programs that prepare them."""
    prepared = [*run["prepare"]([x, y]), x_target, *run["query"]([x_target]), *map(np.asarray, jax.tree.leaves(noise))]
    return [part[None] for part in prepared]


def _points(x, y) -> PointSet:
    return PointSet(jnp.asarray(x), jnp.asarray(y), jnp.ones(len(x), bool))
