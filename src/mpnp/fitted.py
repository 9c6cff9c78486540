"""Models in the user's units: condition them, ask them about many tasks, save and load them."""

import dataclasses
import functools
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.card import ModelCard
from mpnp.data.curves import require_pairs
from mpnp.data.frames import Frame, is_frame, require_columns
from mpnp.data.questions import read_context, read_inputs
from mpnp.errors import InputError
from mpnp.model_files import load_model_files, save_model
from mpnp.models.contract import AbstractNeuralProcess
from mpnp.posterior import Posterior
from mpnp.prediction import DEFAULT_QUANTILES, Prediction
from mpnp.predictor import Predictor
from mpnp.typicality import half_scores
from mpnp.units import Units

__all__ = [
    "FittedModel",
    "ImplausibleContextWarning",
    "LargeContextWarning",
    "MissingContextWarning",
    "OutsideRangeWarning",
    "load",
]

NUM_SAMPLES = 32
"""Functions that stand for a posterior unless told otherwise."""

IMPLAUSIBLE = 0.01
"""A context with a p-value below this is worth a warning."""


class OutsideRangeWarning(UserWarning):
    """An input lies outside the range of the training data."""


class LargeContextWarning(UserWarning):
    """A context has more rows than any in training."""


class ImplausibleContextWarning(UserWarning):
    """A context does not look like the training data."""


class MissingContextWarning(UserWarning):
    """A task that is asked about has no context."""


Pair = tuple[np.ndarray, np.ndarray]
"""Rows of a context: inputs and outputs."""


def _which(pairs: Sequence[Pair], among_many: str, alone: str = "the context") -> str:
    return alone if len(pairs) == 1 else among_many


class FittedModel:
    """A trained network with the card that translates for it."""

    def __init__(self, network: AbstractNeuralProcess, card: ModelCard) -> None:
        self.network, self.card = network, card
        self.units = Units(card.columns, card.normaliser, card.dims[1])
        self.predictor: Callable[[int], Predictor] = functools.cache(lambda count: Predictor(network, num_samples=count))
        """The predictor of so many functions, compiled once."""

    def __reduce__(self) -> tuple[type["FittedModel"], tuple[AbstractNeuralProcess, ModelCard]]:
        """Pickled without its compiled predictors, as scikit-learn's tools do to send a model to another process."""
        return FittedModel, (self.network, self.card)

    def condition(self, X: Any = (), y: Any = None, *, num_samples: int = NUM_SAMPLES) -> Posterior:
        """The posterior given rows of X and y, or of one frame with the columns of both; given nothing, the prior.

        Warns if the rows are not like those of training, and says what that means for the band.
        """
        if num_samples < 1:
            raise InputError(f"num_samples must be at least 1, got {num_samples}")
        if y is None and not is_frame(X) and len(X) == 0:
            y = ()
        x, outputs = read_context(self.card.columns, X, y)
        self.warn_outside(x)
        self._warn_unlike([(x, outputs)])
        return Posterior(self, x, outputs, num_samples=num_samples)

    def plausibility(self, X: Any, y: Any = None) -> float | None:
        """The p-value of a context: the share of held-out contexts of its size that the model predicts no better.

        None if the context is empty, or if the model carries nothing to compare with.
        """
        x, outputs = read_context(self.card.columns, X, y)
        if self.card.reference is None or not len(x):
            return None
        return self._p_values([(x, outputs)])[0]

    def predict_tasks(
        self,
        contexts: Any,
        X: Any,
        output_type: str = "mean",
        *,
        quantiles: Sequence[float] = DEFAULT_QUANTILES,
        num_samples: int = NUM_SAMPLES,
    ) -> Any:
        """Predict many tasks at once.

        Either `contexts` is a list of pairs (X, y) and `X` a list of as many sets of rows, and the answer a list; or both are
        frames with the task column, and the answer is a frame with a row for each row of `X`.
        """
        if is_frame(X) != is_frame(contexts):
            raise InputError("contexts and X must both be frames with the task column, or both be lists")
        if is_frame(X):
            return self._predict_frame(contexts, X, output_type, quantiles, num_samples)
        pairs = [read_context(self.card.columns, *pair) for pair in require_pairs(contexts, "context")]
        if len(pairs) != len(X):
            raise InputError(f"every context needs its rows of X: got {len(pairs)} contexts and {len(X)} sets of rows")
        if not pairs:
            return []
        queries = [read_inputs(self.card.columns, rows) for rows in X]
        self._warn_unlike(pairs)
        self.warn_outside(np.concatenate([*(x for x, _ in pairs), *queries]))
        predictions = self.predict_pairs(pairs, queries, num_samples)
        return [
            prediction.frame(output_type, quantiles, rows) if is_frame(rows) else prediction.arrays(output_type, quantiles)
            for prediction, rows in zip(predictions, X, strict=True)
        ]

    def save(self, directory: str | Path, *, licence: str | None = None) -> None:
        """Write the weights and the card into a directory; `mpnp.load` reads it anywhere. A licence says who may use it how."""
        card = self.card if licence is None else dataclasses.replace(self.card, licence=licence)
        save_model(Path(directory), self.network, card)

    def warn_outside(self, x: Float[np.ndarray, "row input"]) -> None:
        """Warn of inputs beyond those of training."""
        seen, width = self.card.seen, self.card.seen.high - self.card.seen.low
        beyond = (x < seen.low - 1e-6 * width) | (x > seen.high + 1e-6 * width)
        if not beyond.any():
            return
        column = int(np.argmax(beyond.any(axis=0)))
        name, values = self.card.columns.inputs[column], x[beyond[:, column], column]
        warnings.warn(
            f"{int(beyond.any(axis=1).sum())} of {len(x)} rows lie outside the range of training: '{name}' is {values[0]:g}, "
            f"but training saw {seen.low[column]:g} to {seen.high[column]:g}. The model extrapolates there: neither mean nor "
            "band can be trusted",
            OutsideRangeWarning,
            stacklevel=3,
        )

    def _warn_unlike(self, pairs: Sequence[Pair]) -> None:
        """Warn of contexts unlike those of training: once for all that are too large, once for all that are implausible."""
        largest = max((len(x) for x, _ in pairs), default=0)
        if largest > self.card.seen.largest_context:
            warnings.warn(
                f"{_which(pairs, 'a context')} has {largest} rows, more than the {self.card.seen.largest_context} of any in "
                "training: the band may be too narrow or too wide. Thin the context out, or train on longer curves",
                LargeContextWarning,
                stacklevel=3,
            )
        low = [value for value in self._p_values([pair for pair in pairs if len(pair[0])]) if value < IMPLAUSIBLE]
        if low:
            many = f"{len(low)} of {len(pairs)} contexts (chance alone makes it about {IMPLAUSIBLE * len(pairs):.2g}) do"
            warnings.warn(
                f"{_which(pairs, many, 'the context does')} not look like the training data "
                f"(p = {min(low):.3f}: the model predicts its halves from each other worse than those of held-out curves). "
                "The band assumes a function like those of training, and is likely too narrow here",
                ImplausibleContextWarning,
                stacklevel=3,
            )

    def _warn_unknown(self, names: Sequence[Any]) -> None:
        if names:
            warnings.warn(
                f"{len(names)} tasks have no context, '{names[0]}' for one: they are answered from the training data alone. "
                "Check that both tables name their tasks alike",
                MissingContextWarning,
                stacklevel=4,
            )

    def _p_values(self, pairs: Sequence[Pair]) -> list[float]:
        """How plausible contexts of at least one row are; nothing if there is nothing to compare with."""
        if self.card.reference is None or not pairs:
            return []
        scores = half_scores(self.predictor(NUM_SAMPLES), self.units, pairs)
        return [self.card.reference.p_value(len(x), score) for (x, _), score in zip(pairs, scores, strict=True)]

    def predict_pairs(self, pairs: Sequence[Pair], queries: Sequence[np.ndarray], num_samples: int) -> list[Prediction]:
        """A prediction for each context at its own inputs, all given as matrices. Nothing is warned of."""
        contexts = [self.units.context(*pair) for pair in pairs]
        answers = self.predictor(num_samples).many(contexts, [self.units.targets(x) for x in queries])
        return [Prediction(*self.units.rows(answer), self.card.columns) for answer in answers]

    def _predict_frame(
        self, contexts: Frame, X: Frame, output_type: str, quantiles: Sequence[float], num_samples: int
    ) -> Frame:
        import pandas as pd

        task = self.card.columns.task
        for frame in (contexts, X):
            require_columns(frame, (task,))
            if frame[task].isna().any():
                raise InputError(f"the task column '{task}' is empty in a row; every row must say which task it is of")
        if not len(X):
            raise InputError("there are no rows to predict at")
        given, asked = (frame.groupby(task, sort=False).indices for frame in (contexts, X))
        pairs = [read_context(self.card.columns, contexts.iloc[given.get(name, [])], None) for name in asked]
        if len(contexts):
            self._warn_unknown([name for name, (x, _) in zip(asked, pairs, strict=True) if not len(x)])
        frames = [X.iloc[rows] for rows in asked.values()]
        queries = [read_inputs(self.card.columns, rows) for rows in frames]
        self._warn_unlike(pairs)
        self.warn_outside(np.concatenate([*(x for x, _ in pairs), *queries]))
        predictions = self.predict_pairs(pairs, queries, num_samples)
        parts = []
        for name, prediction, rows in zip(asked, predictions, frames, strict=True):
            part = prediction.frame(output_type, quantiles, rows)
            part = part.to_frame(output_type) if part.ndim == 1 else part
            part.insert(0, task, name)
            parts.append(part)
        as_asked = np.argsort(np.concatenate(list(asked.values())))
        return pd.concat(parts).iloc[as_asked]


def load(path_or_name: str | Path) -> FittedModel:
    """The model in a directory that `fit` or `save` wrote, of a training run, or one that comes with the package.

    Nothing in it is executed.
    """
    return FittedModel(*load_model_files(Path(path_or_name)))
