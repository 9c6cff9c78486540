"""Weights that training starts with."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.models import small_model
from mpnp.models.registry import MODELS
from mpnp.nn.encoders import AbstractSetEncoder
from mpnp.nn.linear import MLP
from mpnp.tasks.base import TaskSource
from mpnp.tasks.registry import find_family
from mpnp.tasks.task import Task
from mpnp.training.init import as_built, spread_kinks

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
        num_read = new.columns[1] - new.columns[0]
        weight, bias = new.layers[0].weight, new.layers[0].bias
        if not num_read:  # it reads hidden features only, and is left alone
            np.testing.assert_array_equal(weight, old.layers[0].weight)
            continue
        heights = present_points(TASKS)[:, slice(*new.columns)] @ weight[:num_read] + bias
        np.testing.assert_allclose(np.abs(heights).min(axis=0), 0, atol=1e-5)
        assert not np.array_equal(weight[:num_read], old.layers[0].weight[:num_read])
        # What a decoder reads beside the input, and all layers after the first, are left alone.
        assert eqx.tree_equal(old.layers[1:], new.layers[1:])
        np.testing.assert_array_equal(weight[num_read:], old.layers[0].weight[num_read:])


class TwoStageEncoder(AbstractSetEncoder):
    """Reads each point with one network, and what that says with another."""

    reading: MLP
    hidden: MLP

    def prepare(self, points):
        return self.hidden(self.reading(points.x, points.y))

    def relate(self, alone, counts):
        return alone


def test_networks_of_hidden_features_stay_as_they_were():
    plain = small_model("cnp")
    reading, hidden = plain.backbone.encoder.mlp, MLP(8, 8, 8, depth=1, key=KEY)
    before = eqx.tree_at(lambda model: model.backbone.encoder, plain, TwoStageEncoder(reading, hidden))
    after = spread_kinks(before, TASKS, KEY)
    assert eqx.tree_equal(after.backbone.encoder.hidden, hidden)
    # Nor does such a network change what the others get.
    usual = spread_kinks(plain, TASKS, KEY)
    assert eqx.tree_equal(after.backbone.encoder.reading, usual.backbone.encoder.mlp)
    assert eqx.tree_equal(after.decoder, usual.decoder)


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
