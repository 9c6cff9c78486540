"""The gradient of every loss is that of finite differences, array by array, so that none leaks and none is cut off."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.models import NUM_SAMPLES, small_model, small_task
from mpnp.models.bootstrap import BootstrapNP
from mpnp.models.registry import MODELS

EPSILON = 1e-6


def in_doubles(tree):
    return jax.tree.map(lambda leaf: leaf.astype(float) if eqx.is_inexact_array(leaf) else leaf, tree)


def loss(model, task, noise, resampled):
    """The loss as a function of the weights. Contexts that a bootstrap resampled are data: its weights do not move them."""
    if resampled is None:
        return sum(model.loss_terms(task, noise).values())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BootstrapNP, "bootstrap", lambda *_: resampled)
        return sum(model.loss_terms(task, noise).values())


@eqx.filter_jit
def autodiff(model, task, noise):
    return eqx.filter_grad(lambda model: loss(model, task, noise, None))(model)


@eqx.filter_jit
def finite_differences(model, directions, task, noise, resampled):
    """Central differences, one for each array, along its direction."""
    leaves, structure = jax.tree.flatten(model)

    def moved(number, step):
        shifted = [
            leaf + jnp.where(number == i, step, 0) * d for i, (leaf, d) in enumerate(zip(leaves, directions, strict=True))
        ]
        return loss(jax.tree.unflatten(structure, shifted), task, noise, resampled)

    difference = lambda number: (moved(number, EPSILON) - moved(number, -EPSILON)) / (2 * EPSILON)  # noqa: E731
    return jax.lax.map(difference, jnp.arange(len(leaves)))


@pytest.mark.parametrize("name", MODELS)
def test_the_gradient_of_a_loss_is_that_of_finite_differences(name):
    with jax.enable_x64(True):
        model, task = in_doubles(small_model(name)), in_doubles(small_task())
        noise = model.draw_noise(task.context, NUM_SAMPLES, key=jax.random.key(3))
        features = model.backbone.encode_inputs(task.context.x)
        resampled = model.bootstrap(task.context, features, noise) if isinstance(model, BootstrapNP) else None
        rng = np.random.default_rng(4)
        directions = [jnp.asarray(rng.normal(size=leaf.shape)) for leaf in jax.tree.leaves(model)]
        gradient = jax.tree.leaves(autodiff(model, task, noise))
        along = [jnp.sum(slope * direction) for slope, direction in zip(gradient, directions, strict=True)]
        expected = finite_differences(model, directions, task, noise, resampled)
    np.testing.assert_allclose(along, expected, rtol=1e-5, atol=1e-8)
