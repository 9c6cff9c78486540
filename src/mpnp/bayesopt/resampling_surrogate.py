"""A neural process whose functions are drawn by predictive resampling."""

from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.bayesopt.surrogates import (
    AbstractSurrogate,
    Candidates,
    Inputs,
    NeuralProcessSurrogate,
    Outputs,
    Point,
    Points,
    Scores,
    Seeds,
    Values,
    context_slots,
)
from mpnp.inference.functions import DrawnFunctions
from mpnp.inference.model import NUM_SAMPLES, FittedModel
from mpnp.inference.predictor import pad_points
from mpnp.tables.points import context_points

__all__ = ["ResamplingSurrogate"]

NUM_FUTURE = 20
"""Future observations that complete a context. Always as many, so that a search needs one program for each context size."""


class ResamplingSurrogate(AbstractSurrogate):
    """Moments of the network, and functions of its martingale posterior (`mpnp.inference.resampling`).

    A network's own functions differ too little to explore: Thompson sampling with them stands still. Resampled ones differ as
    much as the network is uncertain, also those of models without functional uncertainty.
    """

    def __init__(self, model: FittedModel, *, num_samples: int = NUM_SAMPLES) -> None:
        self.model, self._inner = model, NeuralProcessSurrogate(model, num_samples=num_samples)

    def moments(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> tuple[Scores, Scores]:
        return self._inner.moments(x, z, candidates, seeds)

    def draw(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> Scores:
        loops = zip(x, z, seeds, strict=True)
        return np.stack([self._draw(points, outputs, candidates, int(seed)) for points, outputs, seed in loops])

    def log_density(self, x: Points, z: Values, point: Point, output: float) -> float:
        return self._inner.log_density(x, z, point, output)

    def require_inputs(self, num_inputs: int) -> None:
        self._inner.require_inputs(num_inputs)

    def describe(self) -> dict[str, Any]:
        return self._inner.describe()

    def _draw(
        self, x: Float[np.ndarray, "point input"], z: Float[np.ndarray, " point"], candidates: Candidates, seed: int
    ) -> Float[np.ndarray, " candidate"]:
        columns, places = self.model.card.columns, self._inner.in_domain(x)
        context = context_points(columns, places, columns.decode_outputs(z[:, None]))
        answer = self.model.network_forecaster.resampler(
            pad_points(context, context_slots(len(x))),
            places,
            self._inner.in_domain(candidates),
            1,
            seed=seed,
            num_future=NUM_FUTURE,
            future_inputs=None,
        )
        return columns.encode_outputs(DrawnFunctions.decode(answer, columns).loc[0])[:, 0]
