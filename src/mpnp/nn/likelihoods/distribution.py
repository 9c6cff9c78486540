"""The interface of a likelihood: a standard distribution, which the decoder shifts and scales."""

import abc
from types import ModuleType
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Array, PRNGKeyArray

__all__ = ["AbstractDistribution", "Values", "namespace", "special"]

if TYPE_CHECKING:
    Values = Any  # type checkers cannot follow formulas that serve two kinds of arrays
else:
    Values = Array | np.ndarray
"""JAX arrays inside a model, NumPy arrays of double precision in the user's units. Formulas are written once for both."""


def namespace(values: Values) -> ModuleType:
    """The module with functions for these values: `jax.numpy` or `numpy`."""
    return jnp if isinstance(values, jax.Array) else np


def special(values: Values) -> ModuleType:
    """The module with special functions for these values: `jax.scipy.special` or `scipy.special`."""
    return jax.scipy.special if isinstance(values, jax.Array) else scipy.special


class AbstractDistribution(abc.ABC):
    """A distribution that is symmetric around zero, with unit scale.

    Mixtures, quantiles, scores and everything else about predictions follow from these formulas. Subclasses have no state:
    instances of the same class are equal, so that they share compiled programs.
    """

    std: float
    """Standard deviation."""

    @abc.abstractmethod
    def log_density(self, z: Values) -> Values:
        """Log density."""

    @abc.abstractmethod
    def cdf(self, z: Values) -> Values:
        """Probability of a value below z."""

    @abc.abstractmethod
    def quantile(self, level: Values) -> Values:
        """The inverse of `cdf`."""

    @abc.abstractmethod
    def sample(self, shape: tuple[int, ...], dtype: jnp.dtype, *, key: PRNGKeyArray) -> Array:
        """Draw independent samples."""

    @abc.abstractmethod
    def mean_absolute(self, shift: Values, scale: Values) -> Values:
        """$E|m + s Z|$ for shift m and scale s: the mean distance between an observation and a prediction."""

    @abc.abstractmethod
    def mean_absolute_difference(self, shift: Values, scale: Values, other: Values) -> Values:
        """$E|m + s Z - s' Z'|$ for independent Z and Z': the mean distance between two predictions."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))
