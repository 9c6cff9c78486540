"""Does a context look like the curves that the model was trained on?

The test statistic of a context is the mean log density per point with which the model predicts each half from the other. Its
p-value is the share of held-out contexts of similar size that are predicted no better.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from mpnp.inference.prediction import Prediction
from mpnp.inference.predictor import Predictor
from mpnp.tables.columns import Schema
from mpnp.tables.points import context_points, target_inputs
from mpnp.tasks.task import PointSet

__all__ = ["half_scores"]


def half_scores(
    predictor: Predictor, columns: Schema, contexts: Sequence[tuple[np.ndarray, np.ndarray]]
) -> Float[np.ndarray, " context"]:
    """The test statistic of each context; none may be empty."""
    given: list[PointSet] = []
    asked: list[np.ndarray] = []
    answers: list[np.ndarray] = []
    owner: list[int] = []
    for number, (x, y) in enumerate(contexts):
        order = np.lexsort(x.T[::-1])  # the halves must not depend on the order of the rows
        for rows, others in ((order[::2], order[1::2]), (order[1::2], order[::2])):
            if len(others):  # a single row is predicted from an empty context
                given.append(context_points(columns, x[rows], y[rows]))
                asked.append(target_inputs(columns, x[others]))
                answers.append(y[others])
                owner.append(number)
    total, count = np.zeros(len(contexts)), np.zeros(len(contexts))
    for number, predictive, y in zip(owner, predictor.many(given, asked), answers, strict=True):
        log_density = Prediction.decode(predictive, columns).marginal_log_prob(y)
        total[number] += np.nansum(log_density)
        count[number] += np.sum(~np.isnan(log_density))
    return total / np.maximum(count, 1)
