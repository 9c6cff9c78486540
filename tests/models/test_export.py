"""Models export as programs that take contexts and targets of any size."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.models import NUM_SAMPLES, assert_trees_close, predict_given, small_model
from helpers.shapes import without_shape_checks
from mpnp.models.registry import MODELS
from mpnp.tasks.task import PointSet


@pytest.fixture(autouse=True)
def symbolic_sizes():
    with without_shape_checks():
        yield


def noise_for(model, num_points):
    """Noise for a context of this size."""
    points = PointSet.observed(np.zeros((num_points, 1)), np.zeros((num_points, 1)))
    return model.draw_noise(points, NUM_SAMPLES, key=jax.random.key(num_points))


def export(model):
    """The prediction as a function of the context, the targets and the noise, with symbolic numbers of points and targets."""
    points, targets = jax.export.symbolic_shape("points, targets")

    def predict(x, y, mask, x_target, noise):
        answer = model.predict_given(PointSet(x, y, mask), x_target, noise)
        return answer.loc, answer.scale

    def symbolic(leaf, other):
        """The shape of noise, in which sizes that follow the context are symbolic."""
        shape = (points if size != other_size else size for size, other_size in zip(leaf.shape, other.shape, strict=True))
        return jax.ShapeDtypeStruct(tuple(shape), leaf.dtype)

    column, mask, x_target = ((points, 1), jnp.float32), ((points,), bool), ((targets, 1), jnp.float32)
    arrays = [jax.ShapeDtypeStruct(*shape) for shape in (column, column, mask, x_target)]
    noise = jax.tree.map(symbolic, noise_for(model, 5), noise_for(model, 7))
    return jax.export.export(jax.jit(predict))(*arrays, noise)


@pytest.mark.parametrize("name", MODELS)
def test_one_exported_program_predicts_for_all_sizes(name):
    model, rng = small_model(name), np.random.default_rng(0)
    program = export(model)
    for num_points, num_targets in ((5, 3), (40, 17)):
        x, y = rng.normal(size=(2, num_points, 1)).astype(np.float32)
        x_target, mask = rng.normal(size=(num_targets, 1)).astype(np.float32), np.arange(num_points) % 4 != 3
        noise = noise_for(model, num_points)
        got = program.call(x, y, mask, x_target, noise)
        context = PointSet(jnp.asarray(x), jnp.asarray(y), jnp.asarray(mask))
        wanted = predict_given(model, context, x_target, noise)
        assert_trees_close(got, (wanted.loc, wanted.scale), rtol=1e-5, atol=5e-6)
