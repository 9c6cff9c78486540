"""Drawn functions: their values, the noise of observations around them, and the observations that decided them."""

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from mpnp.inference.prediction import Prediction
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.tables.columns import Schema

__all__ = ["DrawnFunctions", "Functions", "find_imagined"]

SAME_INPUT = 1e-5
"""Inputs closer than this, in the network's units, are one input."""


class Functions(NamedTuple):
    """Drawn functions at some points, in the network's units."""

    values: Predictive
    """One component per function, whose scale is the noise of observations."""
    imagined: Float[np.ndarray, "draw point y_dim"]
    """The observation of each function that was imagined at a point; NaN where there was none."""

    @staticmethod
    def without_observations(values: Predictive) -> "Functions":
        """Functions that rest on no imagined observations."""
        return Functions(values, np.broadcast_to(np.nan, np.shape(values.loc)))


@dataclasses.dataclass(frozen=True)
class DrawnFunctions:
    """Drawn functions at the rows of a table, in the user's units."""

    values: Prediction
    imagined: Float[np.ndarray, "draw row output"]
    noise: Float[np.ndarray, "row output"] | None = None
    """The known noise of measurements at the rows, if there is any."""

    @staticmethod
    def decode(functions: Functions, columns: Schema) -> "DrawnFunctions":
        """Convert functions to the rows and units of the table."""
        values = Prediction.decode(functions.values, columns)
        imagined = np.asarray(functions.imagined, np.float64).reshape(values.mixture.loc.shape)
        return DrawnFunctions(values, columns.decode_outputs(imagined))

    def with_noise(self, noise: Float[np.ndarray, "row output"] | None) -> "DrawnFunctions":
        """The same functions, to be measured with this known noise."""
        return dataclasses.replace(self, noise=noise)

    @property
    def loc(self) -> Float[np.ndarray, "draw row output"]:
        """The functions themselves."""
        return self.values.loc

    def observe(self, rng: np.random.Generator) -> Float[np.ndarray, "draw row output"]:
        """One observation of each function at each row: the imagined one if there is one, else the value with new noise.

        An imagined observation is drawn from the prediction itself. A function is what the network makes of it, which may be
        smoother than curves are.
        """
        observed = np.where(np.isnan(self.imagined), self.values.observe(rng), self.imagined)
        return observed if self.noise is None else observed + self.noise * rng.standard_normal(observed.shape)


def find_imagined(
    x_future: Float[np.ndarray, "draw future x_dim"],
    y_future: Float[np.ndarray, "draw future y_dim"],
    x_target: Float[np.ndarray, "point x_dim"],
) -> Float[np.ndarray, "draw point y_dim"]:
    """The imagined observations at the targets, NaN where there is none. Of equal targets, the first one gets it.

    >>> x_future, y_future = np.array([[[0.0], [2.0]], [[2.0], [1.0]]]), np.array([[[5.0], [6.0]], [[7.0], [8.0]]])
    >>> find_imagined(x_future, y_future, np.array([[2.0], [1.0], [2.0]]))[..., 0]
    array([[ 6., nan, nan],
           [ 7.,  8., nan]])
    """
    (num_draws, num_future), shape = y_future.shape[:2], (len(y_future), len(x_target), y_future.shape[-1])
    everything = np.concatenate([x_future.reshape(-1, x_future.shape[-1]), x_target])
    _, number = np.unique(np.round(everything / SAME_INPUT), axis=0, return_inverse=True)
    number = number.reshape(-1)
    of_future, of_target = number[: num_draws * num_future].reshape(num_draws, num_future), number[num_draws * num_future :]
    found = np.broadcast_to(np.nan, shape)
    distinct, first = np.unique(of_target, return_index=True)
    first = first[np.isin(distinct, of_future)]
    if not len(first):
        return found
    slot = np.full((num_draws, number.max() + 1), -1, np.int32)
    np.put_along_axis(slot, of_future, np.arange(num_future, dtype=np.int32)[None], axis=1)
    chosen = slot[:, of_target[first], None]
    found = found.copy()
    found[:, first] = np.where(chosen >= 0, np.take_along_axis(y_future, np.maximum(chosen, 0), axis=1), np.nan)
    return found
