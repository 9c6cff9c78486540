"""Does a context look like the curves that the model was trained on?

The test statistic of a context is the mean log density per point with which the model predicts each half from the other. Its
p-value is the share of held-out contexts of similar size that are predicted no better.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from mpnp.inference.prediction import Prediction, join
from mpnp.inference.predictor import Predictor
from mpnp.tables.columns import Schema
from mpnp.tables.points import many_contexts, many_targets

__all__ = ["half_scores"]


def half_scores(
    predictor: Predictor, columns: Schema, contexts: Sequence[tuple[np.ndarray, np.ndarray]]
) -> Float[np.ndarray, " context"]:
    """The test statistic of each context; none may be empty."""
    given: list[tuple[np.ndarray, np.ndarray]] = []
    asked: list[np.ndarray] = []
    answers: list[np.ndarray] = []
    owner: list[int] = []
    for number, (x, y) in enumerate(contexts):
        order = np.lexsort(x.T[::-1])  # the halves must not depend on the order of the rows
        for rows, others in ((order[::2], order[1::2]), (order[1::2], order[::2])):
            if len(others):  # a single row is predicted from an empty context
                given.append((x[rows], y[rows]))
                asked.append(x[others])
                answers.append(y[others])
                owner.append(number)
    if not given:
        return np.zeros(len(contexts))
    predictive = join(predictor.many(many_contexts(columns, given), many_targets(columns, asked)))
    log_density = Prediction.decode(predictive, columns).marginal_log_prob(np.concatenate(answers))
    of_row = np.repeat(owner, [len(y) for y in answers])
    total = np.bincount(of_row, np.nansum(log_density, axis=1), minlength=len(contexts))
    count = np.bincount(of_row, (~np.isnan(log_density)).sum(axis=1), minlength=len(contexts))
    return total / np.maximum(count, 1)
