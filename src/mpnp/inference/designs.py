"""Where future observations are placed, and in which order: the designs of predictive resampling."""

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from mpnp.datasets.prepared import SHAPES
from mpnp.inference.regions import AbstractRegion, Places

__all__ = ["DESIGNS", "AbstractDesign", "Forecast", "Pixels", "Scattered", "find_design"]


class AbstractDesign(abc.ABC):
    """Future observations should make contexts like those that the model was trained on."""

    @abc.abstractmethod
    def place(
        self,
        num_draws: int,
        num_rows: int,
        x_context: Float[np.ndarray, "context input"],
        region: AbstractRegion,
        rng: np.random.Generator,
    ) -> Float[np.ndarray, "draw row input"]:
        """Inputs of each draw's future observations, as far as the region has any that the context lacks."""

    @abc.abstractmethod
    def orders(
        self, x: Float[np.ndarray, "point x_dim"], num_orders: int, rng: np.random.Generator
    ) -> Int[np.ndarray, "order point"]:
        """Orders in which to observe points, given as network inputs: each a permutation of their numbers."""

    def arrange(
        self, x: Float[np.ndarray, "draw point x_dim"], rng: np.random.Generator
    ) -> Float[np.ndarray, "draw point x_dim"]:
        """The points of each draw, in its own order."""
        order = np.stack([self.orders(points, 1, rng)[0] for points in x])
        return np.take_along_axis(x, order[..., None], axis=1)


class Scattered(AbstractDesign):
    """Anywhere and in random order, for models trained on random contexts."""

    def place(
        self,
        num_draws: int,
        num_rows: int,
        x_context: Float[np.ndarray, "context input"],
        region: AbstractRegion,
        rng: np.random.Generator,
    ) -> Float[np.ndarray, "draw row input"]:
        return region.spread(num_draws, num_rows, rng)

    def orders(
        self, x: Float[np.ndarray, "point x_dim"], num_orders: int, rng: np.random.Generator
    ) -> Int[np.ndarray, "order point"]:
        return _random_orders(len(x), num_orders, rng)


class Forecast(AbstractDesign):
    """After the last observation and one after another, for models trained to continue the beginning of a curve."""

    def place(
        self,
        num_draws: int,
        num_rows: int,
        x_context: Float[np.ndarray, "context input"],
        region: AbstractRegion,
        rng: np.random.Generator,
    ) -> Float[np.ndarray, "draw row input"]:
        ahead = region.after(x_context[:, 0].max()) if len(x_context) else None
        return (ahead or region).spread(num_draws, num_rows, rng)

    def orders(
        self, x: Float[np.ndarray, "point x_dim"], num_orders: int, rng: np.random.Generator
    ) -> Int[np.ndarray, "order point"]:
        return np.tile(np.argsort(x[:, 0], kind="stable"), (num_orders, 1))


@dataclasses.dataclass(frozen=True)
class Pixels(AbstractDesign):
    """At different pixels and in random order, for models of images, which are defined nowhere else."""

    height: int
    width: int

    def place(
        self,
        num_draws: int,
        num_rows: int,
        x_context: Float[np.ndarray, "context input"],
        region: AbstractRegion,
        rng: np.random.Generator,
    ) -> Float[np.ndarray, "draw row input"]:
        from mpnp.tasks.images import positions  # here, because it needs JAX

        pixels = Places(positions(self.height, self.width).astype(np.float64))
        return (pixels.without(x_context) or pixels).spread(num_draws, num_rows, rng)

    def orders(
        self, x: Float[np.ndarray, "point x_dim"], num_orders: int, rng: np.random.Generator
    ) -> Int[np.ndarray, "order point"]:
        return _random_orders(len(x), num_orders, rng)


def _random_orders(num_points: int, num_orders: int, rng: np.random.Generator) -> Int[np.ndarray, "order point"]:
    return rng.permuted(np.tile(np.arange(num_points), (num_orders, 1)), axis=1)


DESIGNS: dict[str, AbstractDesign] = {"random": Scattered(), "prefix": Forecast()}
"""Designs by how contexts were cut in training."""


def find_design(about: Mapping[str, Any]) -> AbstractDesign:
    """The design for a model, given what its card says about its training; scattered if it says nothing known.

    >>> find_design({"task": "mnist"}), find_design({"context": "prefix"}) is DESIGNS["prefix"]
    (Pixels(height=28, width=28), True)
    """
    if (shape := SHAPES.get(str(about.get("task")))) is not None:
        return Pixels(*shape[:2])
    return DESIGNS.get(str(about.get("context")), DESIGNS["random"])
