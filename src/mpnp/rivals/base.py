"""The contract of a rival: a simple forecast, learnt from the same curves as a network, that any model has to beat.

Rivals read what the network reads: encoded points, each an input, the number of its output and a value. So any output of a
row may be missing, and columns of any kind work, without a word about it in any rival.
"""

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from mpnp.errors import InputError
from mpnp.nn.likelihoods.predictive import Predictive

__all__ = ["AbstractGaussianRival", "AbstractRival", "Arrays", "Joint", "Places", "Points", "Unsuitable", "as_row"]

Arrays = dict[str, np.ndarray]
"""The parameters of a rival, by name: all that is stored of it."""

JITTER = 1e-8
"""Relative jitter that keeps covariances of functions positive definite despite rounding."""


class Unsuitable(InputError):
    """The curves do not have what a rival needs, such as a shared grid."""


class Places(NamedTuple):
    """Where to predict: inputs as the network reads them, and the number of the output."""

    x: Float[np.ndarray, "point feature"]
    output: Int[np.ndarray, " point"]


class Points(NamedTuple):
    """Observed values and where they were observed."""

    x: Float[np.ndarray, "point feature"]
    output: Int[np.ndarray, " point"]
    y: Float[np.ndarray, " point"]

    @property
    def places(self) -> Places:
        """Without the values."""
        return Places(self.x, self.output)

    def select(self, rows: Any) -> "Points":
        """Some of the points."""
        return Points(self.x[rows], self.output[rows], self.y[rows])


@dataclasses.dataclass(frozen=True)
class Joint:
    """A normal distribution of the function at several places, and the noise of observations there."""

    mean: Float[np.ndarray, " point"]
    covariance: Float[np.ndarray, "point point"]
    noise: Float[np.ndarray, " point"]

    def functions(self, num: int, rng: np.random.Generator) -> Predictive:
        """Draw functions, as components whose scale is the noise."""
        weights, vectors = np.linalg.eigh(self.covariance)
        root = vectors * np.sqrt(np.maximum(weights, 0))
        draws = self.mean + rng.standard_normal((num, len(root))) @ root.T
        return Predictive(draws[..., None], np.broadcast_to(self.noise[:, None], (num, len(root), 1)))

    def log_prob(self, y: Float[np.ndarray, " point"]) -> float:
        """Joint log density of observations at all places."""
        covariance = self.covariance + np.diag(self.noise**2)
        factor = np.linalg.cholesky(covariance + JITTER * np.trace(covariance) / len(covariance) * np.eye(len(covariance)))
        white = np.linalg.solve(factor, y - self.mean)
        return float(-white @ white / 2 - np.log(np.diag(factor)).sum() - len(y) * np.log(2 * np.pi) / 2)


class AbstractRival(abc.ABC):
    """A forecast of the values at some places of a curve, given some of its points. Rivals are immutable."""

    kind: ClassVar[str]
    """The rival's name in `RIVALS`, on the command line and in files."""
    title: ClassVar[str]
    """What it is, in a few words."""
    reads_context: ClassVar[bool] = True
    """Whether it conditions on the context. Others are references only and join no stack."""

    @classmethod
    @abc.abstractmethod
    def learn(cls, curves: Sequence[Points], *, context: str, seed: int) -> "AbstractRival":
        """The rival after training. `context` is how contexts are chosen. Raises `Unsuitable` if the curves do not allow it."""

    @abc.abstractmethod
    def predict(self, context: Points, places: Places) -> Predictive:
        """A mixture at each place, of shape (component, place, 1), noise included."""

    @abc.abstractmethod
    def to_arrays(self) -> Arrays:
        """All parameters."""

    @classmethod
    @abc.abstractmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "AbstractRival":
        """From what `to_arrays` made. Raises ValueError, TypeError or KeyError for anything else."""


class AbstractGaussianRival(AbstractRival):
    """A rival with a joint normal distribution, so that it has functions and functionals, too."""

    @abc.abstractmethod
    def joint(self, context: Points, places: Places) -> Joint:
        """The distribution of the function at the places, given the context."""

    def predict(self, context: Points, places: Places) -> Predictive:
        joint = self.joint(context, places)
        variance = np.maximum(np.diag(joint.covariance), 0) + joint.noise**2
        return as_row(joint.mean, np.sqrt(variance))


def as_row(mean: Float[np.ndarray, " point"], std: Float[np.ndarray, " point"]) -> Predictive:
    """One normal distribution at each place."""
    return Predictive(mean[None, :, None], std[None, :, None])
