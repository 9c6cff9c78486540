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
        x, y, seen = (np.asarray(part) for part in separate_outputs(*_float32(x, y), jnp.asarray(observed)))
        return _points(x[seen], y[seen])

    def targets(self, x: Inputs) -> Float[np.ndarray, "point x_dim"]:
        """Inputs to predict at, as the network reads them."""
        x = self.normaliser.x.apply(x)
        if self.network_outputs == self.num_outputs:
            return np.asarray(x, np.float32)
        nothing = np.zeros((len(x), self.num_outputs))
        return np.asarray(separate_outputs(*_float32(x, nothing), jnp.asarray(nothing, bool))[0])

    def rows(self, predictive: Predictive) -> Predictive:
        """The network's answer with a row an input and a column an output, still normalised."""
        shape = (len(predictive.loc), -1, self.num_outputs)
        return Predictive(predictive.loc.reshape(shape), predictive.scale.reshape(shape))

    @property
    def log_volume(self) -> Float[np.ndarray, " output"]:
        """Log of the user's unit in the network's: what a log density loses on the way back."""
        return np.log(self.normaliser.y.scale)


def _points(x: Inputs, y: Outputs) -> PointSet:
    x, y = _float32(x, y)
    return PointSet(x, y, jnp.ones(len(x), bool))


def _float32(*arrays: np.ndarray) -> tuple[jnp.ndarray, ...]:
    return tuple(jnp.asarray(array, jnp.float32) for array in arrays)
