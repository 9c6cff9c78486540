"""Weights that training starts with."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models import small_model
from mpnp.models.catalogue import MODELS
from mpnp.models.initialisations import as_built, spread_kinks
from mpnp.networks.dense import MLP
from mpnp.tasks.catalogue import find_family
from mpnp.tasks.sources import TaskSource
from mpnp.tasks.task import Task

TASKS = TaskSource(find_family("rbf"), jax.random.key(0)).batch(jnp.arange(4))
KEY = jax.random.key(1)


def networks(model):
    nodes = jax.tree.leaves(model, is_leaf=lambda node: isinstance(node, MLP))
    return [node for node in nodes if isinstance(node, MLP)]


def present_points(tasks):
    """Inputs and outputs of all points of the tasks, one a row."""
    rows = np.concatenate([tasks.x, tasks.y], axis=-1)
    return rows[np.asarray(tasks.context_mask | tasks.target_mask)]


@pytest.mark.parametrize("name", list(MODELS))
def test_every_first_unit_bends_at_a_point_of_the_tasks(name):
    before = small_model(name)
    after = spread_kinks(before, TASKS, KEY)
    assert jax.tree.structure(after) == jax.tree.structure(before)
    for old, new in zip(networks(before), networks(after), strict=True):
        num_read = 1 if new is after.decoder.mlp else len(new.layers[0].weight)
        weight, bias = new.layers[0].weight, new.layers[0].bias
        heights = present_points(TASKS)[:, :num_read] @ weight[:num_read] + bias
        np.testing.assert_allclose(np.abs(heights).min(axis=0), 0, atol=1e-5)
        assert not np.array_equal(weight[:num_read], old.layers[0].weight[:num_read])
        # What a decoder reads beside the input, and all layers after the first, are left alone.
        assert eqx.tree_equal(old.layers[1:], new.layers[1:])
        np.testing.assert_array_equal(weight[num_read:], old.layers[0].weight[num_read:])


def test_kinks_are_spread_over_the_inputs():
    kinks = (
        -(layer := spread_kinks(small_model("canp"), TASKS, KEY).backbone.coordinate_encoder.layers[0]).bias / layer.weight[0]
    )
    assert len(np.unique(kinks)) == len(kinks)
    assert np.ptp(kinks) > 1 and np.abs(kinks).max() <= 2


def test_empty_slots_and_units_of_the_data_do_not_matter():
    far = Task(jnp.full((3, 1), 5.0), jnp.full((3, 1), -7.0), *jnp.asarray([[True, False, False], [False, True, False]]))
    tasks = jax.tree.map(lambda leaf: leaf[None], far)
    layer = spread_kinks(small_model("cnp"), tasks, KEY).backbone.encoder.mlp.layers[0]
    # All points are the same one, so all units bend there; the spread of such data is nothing to divide by.
    np.testing.assert_allclose(jnp.asarray([5.0, -7.0]) @ layer.weight + layer.bias, 0, atol=1e-5)

    scaled = Task(10 * TASKS.x[0], 3 * TASKS.y[0], TASKS.context_mask[0], TASKS.target_mask[0])
    plain, stretched = (
        spread_kinks(small_model("cnp"), jax.tree.map(lambda leaf: leaf[None], task), KEY).backbone.encoder.mlp.layers[0]
        for task in (Task(TASKS.x[0], TASKS.y[0], TASKS.context_mask[0], TASKS.target_mask[0]), scaled)
    )
    np.testing.assert_allclose(stretched.weight * np.asarray([[10.0], [3.0]]), plain.weight, rtol=1e-4)
    np.testing.assert_allclose(stretched.bias, plain.bias, rtol=1e-3, atol=1e-5)


def test_the_authors_weights_are_those_the_model_was_built_with():
    model = small_model("mpanp")
    assert as_built(model, TASKS, KEY) is model
