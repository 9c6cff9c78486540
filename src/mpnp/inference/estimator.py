"""A scikit-learn regressor for many small related data sets."""

import numbers
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from mpnp.errors import InputError
from mpnp.inference.assess import cut_curves
from mpnp.inference.fit import SETTINGS, FitOptions, fit_curves
from mpnp.inference.leaderboard import Leaderboard
from mpnp.inference.model import NUM_SAMPLES, FittedModel
from mpnp.inference.posterior import Posterior
from mpnp.models.config import ModelSettings
from mpnp.tables.columns import Schema
from mpnp.tables.curves import Curves
from mpnp.tables.frames import curves_from_frame, is_frame, plain_number, read_curves, read_table
from mpnp.tables.quantiles import DEFAULT_QUANTILES

__all__ = ["NeuralProcessRegressor"]

CONTEXTS_PER_TASK = 4
"""Contexts that a score cuts from each task."""


class NeuralProcessRegressor(RegressorMixin, BaseEstimator):
    """Learns from many curves, then predicts a new curve from a few of its points without further training.

    `fit` takes a list of pairs (X, y), one per task, or a data frame with a task column. `condition` gives the posterior of
    one new task; `predict_tasks` predicts many. Arguments left at None have the defaults of `FitOptions`. Training takes
    about `max_minutes`; set `steps` instead to make a fit reproducible to the last bit.
    """

    def __init__(
        self,
        model: str = "mpanp",
        *,
        context: str = "random",
        max_minutes: float = 5.0,
        steps: int | None = None,
        batch_size: int | None = None,
        num_samples: int | None = None,
        optimizer: str | None = None,
        learning_rate: float | None = None,
        patience: int | None = None,
        held_out_contexts: int | None = None,
        mixing: float | None = None,
        rivals: str | None = None,
        validation: float = 0.15,
        test: float = 0.0,
        settings: ModelSettings | None = None,
        random_state: int | np.random.RandomState | None = 0,
        verbose: bool = True,
    ) -> None:
        self.model = model
        self.context = context
        self.max_minutes = max_minutes
        self.steps = steps
        self.batch_size = batch_size
        self.num_samples = num_samples
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.patience = patience
        self.held_out_contexts = held_out_contexts
        self.mixing = mixing
        self.rivals = rivals
        self.validation = validation
        self.test = test
        self.settings = settings
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        tasks: Any,
        y: Any = None,
        *,
        task: str | None = None,
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
        group: str | None = None,
        context: str | None = None,
        weights: Any = None,
        noise: Any = None,
    ) -> "NeuralProcessRegressor":
        """Train on a list of pairs (X, y), or on a frame whose columns `task`, `inputs` and `outputs` name.

        A table may also be the path of a CSV or Parquet file. `group` names a column; tasks with the same value of it stay
        in the same part of the split. `context`, here or in the constructor, is "random" to predict any rows from any
        others, or "prefix" to forecast the end of a curve from its beginning.

        `weights` say how much each row counts, in training and in scores: the name of a column of a frame, or for pairs an
        array each. `noise` is the known standard deviation of each measurement, in the units of its output: the names of a
        column per output, or an array of the shape of y for each pair. The model then predicts without it.
        """
        if y is not None:
            raise InputError("fit takes many tasks, each with its own X and y: pass a list of pairs (X, y), and no separate y")
        chosen: dict[str, Any] = {"batch_size": plain_number(self.batch_size), "num_samples": plain_number(self.num_samples)}
        chosen |= {"optimizer": self.optimizer, "learning_rate": self.learning_rate}
        chosen |= {"patience": plain_number(self.patience), "mixing": self.mixing, "rivals": self.rivals}
        chosen |= {"held_out_contexts": plain_number(self.held_out_contexts)}
        options = FitOptions(
            model=self.model,
            context=context or self.context,
            max_minutes=self.max_minutes,
            steps=plain_number(self.steps),
            validation=self.validation,
            test=self.test,
            seed=_seed(self.random_state),
            **{name: value for name, value in chosen.items() if value is not None},
        )
        curves = as_curves(tasks, task, inputs, outputs, group, weights, noise)
        self.model_: FittedModel = fit_curves(curves, options, settings=self.settings or SETTINGS, quiet=not self.verbose)
        self.n_features_in_ = len(curves.columns.inputs)
        self.card_ = self.model_.card
        return self

    def condition(self, X: Any = (), y: Any = None, *, num_samples: int = NUM_SAMPLES) -> Posterior:
        """The posterior of one task given some of its rows."""
        check_is_fitted(self)
        return self.model_.condition(X, y, num_samples=num_samples)

    def predict_tasks(
        self,
        contexts: Any,
        X: Any,
        output_type: str = "mean",
        *,
        quantiles: Sequence[float] = DEFAULT_QUANTILES,
        num_samples: int = NUM_SAMPLES,
    ) -> Any:
        """Predict many tasks, each from its own context."""
        check_is_fitted(self)
        return self.model_.predict_tasks(contexts, X, output_type, quantiles=quantiles, num_samples=num_samples)

    def plausibility(self, X: Any, y: Any = None) -> float | None:
        """The p-value of a context: the share of held-out contexts of similar size that the model predicts no better."""
        check_is_fitted(self)
        return self.model_.plausibility(X, y)

    def save(self, directory: str | Path, *, licence: str | None = None) -> None:
        """Write the fitted model to a directory that `mpnp.load` and `mpnp predict` read."""
        check_is_fitted(self)
        self.model_.save(directory, licence=licence)

    @property
    def leaderboard_(self) -> Leaderboard | None:
        """How well network, rivals and stack forecast held-out tasks; None if there were no rivals."""
        check_is_fitted(self)
        return self.model_.leaderboard

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log-likelihood of the targets of other tasks, given random contexts; higher is better.

        `X` holds tasks in the form that `fit` takes: a list of pairs, or a frame with the model's columns. So scikit-learn's
        `cross_val_score(regressor, tasks)` splits by task.
        """
        check_is_fitted(self)
        if y is not None or sample_weight is not None:
            raise InputError("score takes many tasks, each with its own X and y: pass a list of pairs (X, y), and nothing else")
        curves = read_curves(self.card_.columns, X)
        context, most = self.card_.about["context"], self.card_.seen.largest_context + 1
        cuts = cut_curves(curves, context, max_rows=most, num_cuts=CONTEXTS_PER_TASK, seed=0)
        if not cuts:
            raise InputError("no task to score has two rows: one is the context, the other is to be predicted")
        return self.model_.mean_log_prob(cuts)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The prior mean, for a task without observed rows. To use observed rows, call `condition` first.

        With `return_std`, a pair of mean and standard deviation.
        """
        return self.condition().predict(X, return_std=return_std)


def as_curves(
    tasks: Any,
    task: str | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    group: str | None = None,
    weights: Any = None,
    noise: Any = None,
) -> Curves:
    """Curves from a list of pairs, a frame, or the path of a table."""
    if isinstance(tasks, Curves):
        if weights is not None or noise is not None:
            raise InputError("these curves hold weights and noise themselves; leave out weights= and noise=")
        return tasks
    if isinstance(tasks, (str, Path)):
        tasks = read_table(tasks, (task, group))
    if not is_frame(tasks):
        return Curves.from_pairs(tasks, weights=weights, noise=noise)
    if task is None or inputs is None or outputs is None:
        raise InputError("a frame needs names: fit(frame, task='...', inputs=['...'], outputs=['...'])")
    if not isinstance(weights, str | None):
        raise InputError(f"weights of a frame are the name of a column, got {type(weights).__name__}")
    names = [(one,) if isinstance(one, str) else tuple(one) for one in (inputs, outputs, noise or ())]
    return curves_from_frame(tasks, Schema.named(*names[:2], task=task, group=group, weight=weights, noise=names[2]))


def _seed(random_state: Any) -> int:
    """An integer is the seed itself, as on the command line; anything else is read as scikit-learn does."""
    if isinstance(random_state, numbers.Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))
