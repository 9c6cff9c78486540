"""Between the user's units and what a network reads and says."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from mpnp.data.curves import Columns
from mpnp.data.normaliser import Normaliser
from mpnp.errors import InputError
from mpnp.networks.predictive import Predictive
from mpnp.tasks.tables import separate_outputs
from mpnp.tasks.task import PointSet

__all__ = ["Units"]

Inputs = Float[np.ndarray, "row input"]
Outputs = Float[np.ndarray, "row output"]
Functions = Float[np.ndarray, "sample row output"]


@dataclasses.dataclass(frozen=True)
class Units:
    """Names and scales of the user's columns, and how many outputs the network predicts at once.

    A network of one output reads several outputs as points of their own, so any of them may be missing; a network of several
    reads them together, so none may.
    """

    columns: Columns
    normaliser: Normaliser
    network_outputs: int

    @property
    def num_outputs(self) -> int:
        """Outputs of a row."""
        return len(self.columns.outputs)

    def context(self, x: Inputs, y: Outputs) -> PointSet:
        """Observed rows as the network reads them."""
        observed = ~np.isnan(y)
        x, y = self.normaliser.x.apply(x), np.nan_to_num(self.normaliser.y.apply(y))
        if self.network_outputs == self.num_outputs:
            if not observed.all():
                raise InputError(
                    f"row {int(np.argmin(observed.all(axis=1)))} lacks an output, but this model reads the outputs of a row "
                    "together; drop such rows"
                )
            return _points(x, y)
        x, y, seen = (np.asarray(part) for part in separate_outputs(_float32(x), _float32(y), jnp.asarray(observed)))
        return _points(x[seen], y[seen])

    def targets(self, x: Inputs) -> Float[np.ndarray, "point x_dim"]:
        """Inputs to predict at, as the network reads them."""
        x = self.normaliser.x.apply(x)
        if self.network_outputs == self.num_outputs:
            return np.asarray(_float32(x))
        nothing = np.zeros((len(x), self.num_outputs))
        return np.asarray(separate_outputs(_float32(x), _float32(nothing), jnp.asarray(nothing, bool))[0])

    def rows(self, predictive: Predictive) -> tuple[Functions, Functions]:
        """Means and standard deviations of the network's answer by function, input and output, in the user's units."""
        loc, scale = (np.asarray(part, np.float64) for part in (predictive.loc, predictive.scale))
        if not (np.isfinite(loc).all() and np.isfinite(scale).all()):
            raise InputError(
                "the answer is no number: an input or an observed output is too far from those of training; check units"
            )
        shape = (len(loc), -1 if loc.size else 0, self.num_outputs)
        return self.normaliser.y.undo(loc.reshape(shape)), scale.reshape(shape) * self.normaliser.y.scale


def _points(x: Inputs, y: Outputs) -> PointSet:
    return PointSet(_float32(x), _float32(y), jnp.ones(len(x), bool))


def _float32(array: np.ndarray) -> jnp.ndarray:
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and the answer is refused
        return jnp.asarray(np.asarray(array, np.float32))
