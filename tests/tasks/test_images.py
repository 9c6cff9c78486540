"""Image tasks: points are pixels, cut from images as in the paper."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from helpers.image_files import NUMBERS
from mpnp.tasks.base import fixed_tasks
from mpnp.tasks.images import CompletionFamily, PixelFamily, positions


def some_family(kind):
    pixels = jnp.asarray(NUMBERS.reshape(len(NUMBERS), 1024, 3))
    return kind(pixels, height=32, width=32, y_dim=3)


@functools.cache
def training_tasks():
    return jax.jit(jax.vmap(some_family(PixelFamily).sample))(jax.random.split(jax.random.key(0), 2_000))


def test_a_training_task_is_200_pixels_under_the_papers_protocol():
    tasks = training_tasks()
    assert tasks.x.shape == (2_000, 200, 2) and tasks.y.shape == (2_000, 200, 3)
    context, target = (np.asarray(mask.sum(axis=-1)) for mask in (tasks.context_mask, tasks.target_mask))
    assert (context.min(), context.max()) == (3, 197) and target.min() == 3 and (context + target).max() == 200
    assert not (tasks.context_mask & tasks.target_mask).any()


def lookup(x) -> np.ndarray:
    """The numbers of the pixels at given positions."""
    return np.rint((np.asarray(x) + 0.5) * 31).astype(int) @ np.array([32, 1])


def test_a_point_is_a_pixel_of_one_image_at_its_place_and_in_its_colour():
    tasks = training_tasks()
    flat = NUMBERS.reshape(len(NUMBERS), 1024, 3)
    met = set()
    for task in range(50):
        mask = np.asarray(tasks.context_mask[task] | tasks.target_mask[task])
        numbers = lookup(tasks.x[task])[mask]
        assert len(set(numbers)) == mask.sum()  # no pixel twice
        bytes_ = np.rint((np.asarray(tasks.y[task])[mask] + 0.5) * 255)
        (image,) = [number for number in range(len(flat)) if (flat[number][numbers] == bytes_).all()]
        met.add(image)
    assert len(met) > 5


def test_evaluation_meets_every_image_once_and_asks_for_all_the_rest():
    tasks = fixed_tasks(some_family(CompletionFamily), 1).batch(jnp.arange(len(NUMBERS)))
    assert (np.asarray(tasks.context_mask | tasks.target_mask)).all()
    context = np.asarray(tasks.context_mask.sum(axis=-1))
    assert context.min() >= 3 and context.max() <= 197 and len(set(context)) > 5
    for number, image in enumerate(NUMBERS.reshape(len(NUMBERS), 1024, 3)):
        np.testing.assert_allclose(tasks.y[number], image[lookup(tasks.x[number])] / 255 - 0.5, atol=1e-6)


def test_positions_reach_from_corner_to_corner():
    where = positions(3, 2)
    assert where.tolist() == [[-0.5, -0.5], [-0.5, 0.5], [0, -0.5], [0, 0.5], [0.5, -0.5], [0.5, 0.5]]
