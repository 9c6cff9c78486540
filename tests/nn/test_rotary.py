"""Rotary attention: it sees inputs only through their differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.models import assert_trees_close, small_model
from mpnp.errors import InputError
from mpnp.nn.rotary import HIGHEST, LOWEST, RotaryAttention, frequencies, phases
from mpnp.tasks.task import PointSet

RNG = np.random.default_rng(0)


def points(count, *, x_dim=1):
    x, y = RNG.normal(size=(count, x_dim)), RNG.normal(size=(count, 1))
    return PointSet(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32), jnp.arange(count) < count - 2)


@pytest.mark.parametrize("x_dim", [1, 2])
def test_moving_all_points_moves_the_prediction_with_them(x_dim):
    model, context = small_model("tnp", x_dim=x_dim), points(7, x_dim=x_dim)
    x = jnp.asarray(RNG.normal(size=(5, x_dim)), jnp.float32)
    shift = jnp.linspace(1.5, -0.5, x_dim)
    moved = PointSet(context.x + shift, context.y, context.mask)
    here, there = (model.predict(c, at, key=jax.random.key(0)) for c, at in ((context, x), (moved, x + shift)))
    assert_trees_close(there, here, rtol=1e-3, atol=1e-4)


def test_predictions_depend_on_where_points_lie_relative_to_each_other():
    model, context = small_model("tnp"), points(7)
    x = jnp.zeros((1, 1))
    stretched = PointSet(1.1 * context.x, context.y, context.mask)
    here, there = (model.predict(c, x, key=jax.random.key(0)).loc for c in (context, stretched))
    assert abs(here - there).item() > 1e-3


def test_frequencies_fill_the_range_evenly_and_differ_between_heads():
    waves = frequencies(1, 4, 8)
    magnitudes = np.sort(np.abs(waves).ravel())
    np.testing.assert_allclose(magnitudes[[0, -1]], [LOWEST, HIGHEST], rtol=1e-6)
    np.testing.assert_allclose(np.diff(np.log(magnitudes)), np.log(HIGHEST / LOWEST) / 31, rtol=1e-4)
    assert np.all(waves[:, 0].max() < waves[:, 1].min())  # every head has long and short waves
    norms = np.linalg.norm(frequencies(3, 4, 8), axis=-1)
    np.testing.assert_allclose(norms, np.abs(waves[..., 0]), rtol=1e-5)


def test_phases_are_cosines_and_sines_of_each_head():
    x = jnp.asarray([[0.3]])
    cosine, sine = np.split(np.asarray(phases(x, 8, 2)).reshape(2, 4), 2, axis=1)
    np.testing.assert_allclose(cosine, np.cos(0.3 * frequencies(1, 2, 2)[..., 0]), rtol=1e-5)
    np.testing.assert_allclose(sine, np.sin(0.3 * frequencies(1, 2, 2)[..., 0]), rtol=1e-5)


def test_a_layer_width_that_cannot_be_paired_is_rejected():
    with pytest.raises(InputError, match="twice num_heads must divide the layer width 12, got num_heads=4"):
        RotaryAttention(12, num_heads=4, key=jax.random.key(0))
