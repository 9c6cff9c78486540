"""Images as functions that map pixel positions to colours."""

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Integer, PRNGKeyArray, UInt8

from mpnp.datasets.prepared import load_images
from mpnp.tasks.base import AbstractTaskFamily, Problem, leading_slots, sample_sizes
from mpnp.tasks.protocol import IMAGE_POINTS
from mpnp.tasks.task import Task

__all__ = ["CompletionFamily", "PixelFamily", "colours", "image_problem", "positions"]


class AbstractImageFamily(AbstractTaskFamily):
    """Stored images of equal shape. Positions and colours are scaled to [-0.5, 0.5]."""

    pixels: UInt8[Array, "image pixel channel"]
    height: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    y_dim: int = eqx.field(static=True)
    x_dim: int = eqx.field(static=True, default=2)


class PixelFamily(AbstractImageFamily):
    """Training tasks: 200 random pixels of a random image, split into context and target by the paper's protocol."""

    def sample(self, key: PRNGKeyArray) -> Task:
        image_key, order_key, size_key = jax.random.split(key, 3)
        image = jax.random.randint(image_key, (), 0, len(self.pixels))
        slots = min(IMAGE_POINTS, self.height * self.width)
        num_context, num_target = sample_sizes(slots, key=size_key)
        chosen = _random_order(self.height * self.width, order_key)[:slots]
        where = jnp.asarray(positions(self.height, self.width))[chosen]
        return Task(where, colours(self.pixels[image][chosen]), *leading_slots(slots, num_context, num_target))


class CompletionFamily(AbstractImageFamily):
    """Evaluation tasks: images in order, with a random context of the sizes seen in training and all other pixels as target."""

    def sample(self, key: PRNGKeyArray) -> Task:
        image_key, rest_key = jax.random.split(key)
        return self.numbered(jax.random.randint(image_key, (), 0, len(self.pixels)), rest_key)

    def numbered(self, index: Integer[Array, ""], key: PRNGKeyArray) -> Task:
        order_key, size_key = jax.random.split(key)
        num_pixels = self.height * self.width
        context_slots = min(IMAGE_POINTS, num_pixels)
        num_context, _ = sample_sizes(context_slots, key=size_key)
        order = _random_order(num_pixels, order_key)
        in_context = jnp.arange(num_pixels) < num_context
        where, pixels = jnp.asarray(positions(self.height, self.width)), self.pixels[index % len(self.pixels)]
        return Task(where[order], colours(pixels[order]), in_context, ~in_context, context_slots)


def positions(height: int, width: int) -> Float[np.ndarray, "pixel 2"]:
    """Pixel positions, row by row."""
    rows, columns = np.meshgrid(
        *(np.linspace(-0.5, 0.5, length, dtype=np.float32) for length in (height, width)), indexing="ij"
    )
    return np.stack([rows.ravel(), columns.ravel()], axis=-1)


def colours(pixels: UInt8[Array, "*shape channel"]) -> Float[Array, "*shape channel"]:
    """Scale bytes to [-0.5, 0.5]."""
    return pixels.astype(jnp.float32) / 255 - 0.5


def _random_order(count: int, key: PRNGKeyArray) -> Int[Array, " pixel"]:
    return jnp.argsort(jax.random.uniform(key, (count,)))


Family = TypeVar("Family", PixelFamily, CompletionFamily)


def image_problem(name: str) -> Problem:
    """The learning problem of a prepared image set."""
    arrays, about = load_images(name)
    height, width, channels = about["shape"]

    def family(kind: type[Family], part: str) -> Family:
        return kind(pixels=jnp.asarray(arrays[part]), height=height, width=width, y_dim=channels)

    counts = ", ".join(f"{count:,} {part}" for part, count in about["images"].items())
    return Problem(
        family(PixelFamily, "train"),
        family(CompletionFamily, "validation"),
        family(CompletionFamily, "test"),
        f"{'subset: ' if about['subset'] else ''}{counts}",
    )
