"""One step of training: its learning rate, and the bound it raises."""

import dataclasses
import math

import jax
import numpy as np
import pytest

from helpers.models import SETTINGS
from helpers.training import CONFIG, EASY, RECIPE
from mpnp.training.sharding import batch_mesh
from mpnp.training.step import initial_state, learning_rate, make_step

pytestmark = pytest.mark.usefixtures("programs")


def test_the_learning_rate_follows_a_cosine_to_zero():
    steps = np.arange(RECIPE.steps + 1)
    rates = [learning_rate(RECIPE, int(step)) for step in steps]
    np.testing.assert_allclose(rates, RECIPE.learning_rate * (1 + np.cos(math.pi * steps / RECIPE.steps)) / 2, atol=1e-12)
    assert rates[-1] == 0


def test_a_step_moves_by_the_learning_rate_of_that_step():
    state, step = initial_state(CONFIG, EASY), make_step(CONFIG, EASY, batch_mesh(RECIPE.batch_size))
    for number in (0, RECIPE.steps // 3, RECIPE.steps):
        moved, _ = step(state, np.arange(RECIPE.batch_size, dtype=np.uint32), number)
        changes = jax.tree.map(lambda a, b: np.abs(a - b).max(), moved.model, state.model)
        # Adam's first step moves a parameter by its learning rate, whatever the gradient.
        np.testing.assert_allclose(max(jax.tree.leaves(changes)), learning_rate(RECIPE, number), rtol=1e-3, atol=1e-8)


@pytest.mark.parametrize("bound", ["iwae", "elbo"])
def test_either_bound_trains_a_latent_model(bound):
    config = dataclasses.replace(CONFIG, settings=dataclasses.replace(SETTINGS, bound=bound))
    state, step = initial_state(config, EASY), make_step(config, EASY, batch_mesh(config.recipe.batch_size))
    losses = []
    for number in range(RECIPE.steps):
        state, stats = step(state, np.arange(4 * number, 4 * number + 4, dtype=np.uint32), number)
        assert stats["loss"] == stats["negative_bound"]
        losses.append(float(stats["loss"]))
    assert np.mean(losses[-20:]) < np.mean(losses[:20]) - 0.5
