"""The broad prior over functions of one to six inputs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mpnp.tasks.protocol import MOST_SURFACE_INPUTS
from mpnp.tasks.surfaces import FARTHEST_OUTPUT, FEWEST, NUM_TARGETS, Surface, SurfacePrior

NUM_TASKS = 400


@pytest.fixture(scope="module")
def tasks():
    return jax.jit(jax.vmap(SurfacePrior().sample))(jax.random.split(jax.random.key(0), NUM_TASKS))


def test_outputs_are_standardised_by_the_context(tasks):
    mask, y = np.asarray(tasks.context_mask), np.asarray(tasks.y[..., 0], np.float64)
    seen = [y[task][mask[task]] for task in range(NUM_TASKS)]
    whole = [one for one in seen if np.abs(one).max() < 3]  # none was left out for being far away
    assert len(whole) > NUM_TASKS / 2
    np.testing.assert_allclose([(one.mean(), one.std()) for one in whole], [(0, 1)] * len(whole), atol=2e-3)


def test_every_number_of_inputs_is_equally_frequent_and_the_others_are_zero(tasks):
    used = np.asarray(tasks.x).any(axis=1)
    counts = used.sum(axis=1)
    assert (np.sort(used, axis=1)[:, ::-1] == used).all()  # the first inputs are used
    np.testing.assert_allclose(np.bincount(counts)[1:] / NUM_TASKS, 1 / MOST_SURFACE_INPUTS, atol=0.06)
    assert np.abs(tasks.x).max() <= 2


def test_sizes_are_those_of_a_search(tasks):
    sizes, targets = (np.asarray(mask.sum(axis=1)) for mask in (tasks.context_mask, tasks.target_mask))
    assert sizes.min() == FEWEST and sizes.max() == SurfacePrior().max_points - NUM_TARGETS[0]
    assert targets.max() == NUM_TARGETS[1] and np.mean(targets >= NUM_TARGETS[0]) > 0.9
    assert not np.any(np.asarray(tasks.context_mask & tasks.target_mask))
    assert np.isfinite(np.asarray(tasks.y)).all() and np.abs(np.asarray(tasks.y)).max() < FARTHEST_OUTPUT


def test_a_surface_does_not_depend_on_unused_inputs():
    used = jnp.arange(MOST_SURFACE_INPUTS) < 2
    x = jax.random.uniform(jax.random.key(1), (20, MOST_SURFACE_INPUTS), minval=-2, maxval=2)
    for seed in range(10):
        surface = Surface.draw(used, jax.random.key(seed))
        bent = np.asarray(surface.waves[:, 2:]).any() or np.asarray(surface.bowl[2:, 0]).any()
        assert not bent
        moved = x.at[:, 2:].set(0)
        np.testing.assert_allclose(surface(x), surface(moved), atol=2e-3)


def test_surfaces_differ_in_smoothness():
    used, x = jnp.arange(MOST_SURFACE_INPUTS) < 1, jnp.zeros((64, MOST_SURFACE_INPUTS)).at[:, 0].set(jnp.linspace(-2, 2, 64))
    values = np.stack([Surface.draw(used, jax.random.key(seed))(x) for seed in range(60)])
    values = (values - values.mean(axis=1, keepdims=True)) / values.std(axis=1, keepdims=True)
    roughness = np.square(np.diff(values, axis=1)).mean(axis=1)
    assert np.quantile(roughness, 0.9) > 10 * np.quantile(roughness, 0.1)


def test_some_searches_come_back_to_their_lowest_point(tasks):
    """Of large contexts, some have many points close to another one, and others have none."""
    large = np.flatnonzero(np.asarray(tasks.context_mask.sum(axis=1)) > 25)
    several = [task for task in large if np.asarray(tasks.x[task]).any(axis=0).sum() > 2]
    shares = []
    for task in several:
        x = np.asarray(tasks.x[task])[np.asarray(tasks.context_mask[task])]
        distances = np.linalg.norm(x[:, None] - x, axis=-1) + 10 * np.eye(len(x))
        shares.append(np.mean(distances.min(axis=1) < 0.1))
    assert np.quantile(shares, 0.3) == 0 and max(shares) > 0.2
