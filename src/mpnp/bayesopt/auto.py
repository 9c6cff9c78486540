"""The default strategy: a learnt model as long as it predicts the search's own points better, then a Gaussian process."""

import functools
import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.bayesopt.acquisition import EXPECTED_IMPROVEMENT
from mpnp.bayesopt.history import History, Snap
from mpnp.bayesopt.process_search import ProcessSearch, process_of
from mpnp.bayesopt.resampling_surrogate import ResamplingSurrogate
from mpnp.bayesopt.space import OutputScale
from mpnp.bayesopt.strategies import AbstractStrategy, ModelBased
from mpnp.bayesopt.surrogates import AbstractSurrogate, Candidates, Inputs, Outputs, Scores, Seeds
from mpnp.inference.model import FittedModel, load

__all__ = ["LEARNT", "AutoSearch"]

LEARNT: Mapping[int, str] = {1: "tnp-rbf-low"}
"""Packaged models to start with, by the number of inputs. A model for several inputs is one more row."""

FIRST, WINDOW = 2, 4
"""Points that both see before their first prediction is scored, and the latest predictions that decide."""

LOGGER = logging.getLogger(__name__)


class AutoSearch(AbstractStrategy):
    """Starts with a learnt model, if there is one with as many inputs, and hands over to a Gaussian process for good.

    Both predict every evaluation from those before it. The process takes over once it has predicted the latest `WINDOW` of them
    better, in log density. `explanation` says who suggests, and why.
    """

    def __init__(
        self, acquisition: str = EXPECTED_IMPROVEMENT, *, model: FittedModel | AbstractSurrogate | None = None
    ) -> None:
        self.acquisition, self.process = acquisition, ProcessSearch(acquisition)
        self._given = ResamplingSurrogate(model) if isinstance(model, FittedModel) else model
        self._learnt: ModelBased | None = None
        self._explanation = "no model yet"

    def require_inputs(self, num_inputs: int) -> None:
        """Searches any box; a model that was given must have as many inputs."""
        self._learnt = None
        if self._given is not None:
            self._given.require_inputs(num_inputs)
            self._learnt = ModelBased(self._given, self.acquisition)
        elif num_inputs in LEARNT:
            self._learnt = ModelBased(_packaged(LEARNT[num_inputs]), self.acquisition)

    def suggest(self, history: History, snap: Snap, seed: int) -> Float[np.ndarray, " input"]:
        learnt = self._learnt
        if learnt is None:
            self._explain(f"the Gaussian process, because no learnt model has {history.x.shape[1]} inputs")
            return self.process.suggest(history, snap, seed)
        leads: list[float] = []
        for count in range(FIRST + 1, len(history.x) + 1):
            leads = [*leads, _lead(learnt.surrogate, history.before(count))][-WINDOW:]
            if len(leads) == WINDOW and sum(leads) < 0:
                self._explain(
                    f"the Gaussian process, because it predicted evaluations {count - WINDOW + 1} to {count} better than the "
                    f"learnt model (by {-sum(leads):.2g} in log density)"
                )
                return self.process.suggest(history, snap, seed)
        self._explain("the learnt model, because it predicts this search's latest evaluations as well as a Gaussian process")
        return learnt.suggest(history, snap, seed)

    @property
    def explanation(self) -> str:
        return self._explanation

    def best(self, history: History) -> int:
        return self.process.best(history)

    def scores(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> Scores:
        return self.process.scores(x, z, candidates, seeds)

    def expected(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> Scores:
        return self.process.expected(x, z, candidates, seeds)

    def describe(self) -> dict[str, Any]:
        return {"model": "auto", "learnt": None if self._learnt is None else self._learnt.describe(), "kernel": "matern-5/2"}

    def _explain(self, explanation: str) -> None:
        """Say who suggests, once for every change."""
        if explanation != self._explanation:
            self._explanation = explanation
            LOGGER.info("suggestions come from %s", explanation)


@functools.cache
def _packaged(name: str) -> ResamplingSurrogate:
    return ResamplingSurrogate(load(name))


def _lead(surrogate: AbstractSurrogate, history: History) -> float:
    """Log density of the last output given those before, under the surrogate, above that under the process."""
    x, y = np.ascontiguousarray(history.x), np.ascontiguousarray(history.y)
    return _lead_of(surrogate, x.shape[1], x.tobytes(), y.tobytes())


@functools.lru_cache(maxsize=512)
def _lead_of(surrogate: AbstractSurrogate, num_inputs: int, x_bytes: bytes, y_bytes: bytes) -> float:
    x, y = np.frombuffer(x_bytes).reshape(-1, num_inputs), np.frombuffer(y_bytes)
    before = History(x[:-1], y[:-1], x[:0], x[:0])
    scale = OutputScale.of(y[None, :-1])
    z = scale.apply(y[None])[0]
    known = x[:-1], z[:-1], x[-1], float(z[-1])
    return surrogate.log_density(*known) - process_of(before).log_density(*known)
