"""Warnings about data unlike the training data: inputs out of range, and contexts that are large, implausible or missing.

The test statistic of a context is the mean log density per point with which the model predicts each half from the other. Its
p-value is the share of held-out contexts of similar size that are predicted no better.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.inference.card import ModelCard
from mpnp.inference.prediction import Prediction, join
from mpnp.inference.predictor import Predictor
from mpnp.tables.columns import Schema
from mpnp.tables.points import many_contexts, many_targets

__all__ = [
    "ImplausibleContextWarning",
    "LargeContextWarning",
    "MissingContextWarning",
    "OutsideRangeWarning",
    "Pair",
    "half_scores",
    "p_values",
    "warn_any_outside",
    "warn_outside",
    "warn_unknown",
    "warn_unlike",
]

IMPLAUSIBLE = 0.01
"""p-value of a context below which a warning is emitted."""


class OutsideRangeWarning(UserWarning):
    """An input lies outside the range of the training data."""


class LargeContextWarning(UserWarning):
    """A context has more rows than any in training."""


class ImplausibleContextWarning(UserWarning):
    """A context does not look like the training data."""


class MissingContextWarning(UserWarning):
    """A task to predict has no context."""


Pair = tuple[np.ndarray, np.ndarray]
"""Rows of a context: inputs and outputs."""


def warn_outside(card: ModelCard, x: Float[np.ndarray, "row input"]) -> None:
    """Warn if inputs lie outside the training range."""
    seen, width = card.seen, card.seen.high - card.seen.low
    beyond = (x < seen.low - 1e-6 * width) | (x > seen.high + 1e-6 * width)
    if not beyond.any():
        return
    column = int(np.argmax(beyond.any(axis=0)))
    name, values = card.columns.inputs[column], x[beyond[:, column], column]
    shown, low, high = map(card.columns.input_columns[column].encoder.show, (values[0], seen.low[column], seen.high[column]))
    warnings.warn(
        f"{int(beyond.any(axis=1).sum())} of {len(x)} rows lie outside the training range: '{name}' is {shown}, but "
        f"the training data range from {low} to {high}. The model extrapolates there: trust "
        "neither mean nor band",
        OutsideRangeWarning,
        stacklevel=3,
    )


def warn_any_outside(card: ModelCard, pairs: Sequence[Pair], queries: Sequence[np.ndarray]) -> None:
    """Warn if inputs of contexts or queries lie outside the training range, which may be that of each task."""
    if not card.scaled_by_context:
        warn_outside(card, np.concatenate([*(x for x, _ in pairs), *queries]))
        return
    for (x, y), query in zip(pairs, queries, strict=True):
        warn_outside(card.scaled_to(x, y), np.concatenate([x, query]))


def warn_unlike(card: ModelCard, predictor: Predictor, pairs: Sequence[Pair]) -> None:
    """Warn once if any context is too large, and once if any is implausible."""
    largest = max((len(x) for x, _ in pairs), default=0)
    if largest > card.seen.largest_context:
        warnings.warn(
            f"{_which(pairs, 'a context')} has {largest} rows, more than the {card.seen.largest_context} of any in "
            "training: the band may be too narrow or too wide. Thin the context out, or train on longer curves",
            LargeContextWarning,
            stacklevel=3,
        )
    low = [value for value in p_values(card, predictor, [pair for pair in pairs if len(pair[0])]) if value < IMPLAUSIBLE]
    if low:
        many = f"{len(low)} of {len(pairs)} contexts (about {IMPLAUSIBLE * len(pairs):.2g} are expected by chance) do"
        warnings.warn(
            f"{_which(pairs, many, 'the context does')} not look like the training data "
            f"(p = {min(low):.3f}: the model predicts its halves from each other worse than those of held-out curves). "
            "The band is likely too narrow here",
            ImplausibleContextWarning,
            stacklevel=3,
        )


def warn_unknown(names: Sequence[Any]) -> None:
    """Warn if tasks to predict have no context."""
    if names:
        warnings.warn(
            f"{len(names)} tasks have no context, such as '{names[0]}': their predictions rest on the training data alone. "
            "Check that task names are the same in both tables",
            MissingContextWarning,
            stacklevel=4,
        )


def p_values(card: ModelCard, predictor: Predictor, pairs: Sequence[Pair]) -> list[float]:
    """p-values of contexts, none of them empty; an empty list if the model has no reference scores."""
    if card.reference is None or not pairs:
        return []
    scores = half_scores(predictor, card.columns, pairs)
    return [card.reference.p_value(len(x), score) for (x, _), score in zip(pairs, scores, strict=True)]


def half_scores(predictor: Predictor, columns: Schema, contexts: Sequence[Pair]) -> Float[np.ndarray, " context"]:
    """The test statistic of each context; none may be empty."""
    given: list[Pair] = []
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


def _which(pairs: Sequence[Pair], among_many: str, alone: str = "the context") -> str:
    return alone if len(pairs) == 1 else among_many
