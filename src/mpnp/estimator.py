"""A regressor with scikit-learn's habits for many small related data sets."""

import numbers
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from mpnp.data.curves import Columns, Curves
from mpnp.data.frames import curves_from_frame, is_frame, plain_number, read_table
from mpnp.errors import InputError
from mpnp.fit_options import FitOptions
from mpnp.fitted import NUM_SAMPLES, FittedModel
from mpnp.fitting import SETTINGS, fit_curves
from mpnp.models.settings import ModelSettings
from mpnp.posterior import Posterior
from mpnp.prediction import DEFAULT_QUANTILES

__all__ = ["NeuralProcessRegressor"]


class NeuralProcessRegressor(RegressorMixin, BaseEstimator):
    """Learns from many curves at once; then any new curve is predicted from a few of its points, without training.

    `fit` takes a list of pairs (X, y), one a task, or a long frame with a task column. `condition` gives the posterior of
    one new task; `predict_tasks` predicts many. Settings that are left at None are chosen from the data and the time
    allowed. Training stops after `max_minutes`; with `steps` given instead, a fit can be repeated to the last bit.
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
        mixing: float | None = None,
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
        self.mixing = mixing
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
    ) -> "NeuralProcessRegressor":
        """Train on a list of pairs (X, y), or on a frame whose columns `task`, `inputs` and `outputs` name.

        A table may also be the path of a CSV or Parquet file. `group` names a column whose values a split must not tear apart.
        `context`, here or in the constructor, is "random"
        to predict any rows from any others, "prefix" to forecast the end of a curve from its beginning.
        """
        if y is not None:
            raise InputError("fit takes many tasks, each with its own X and y: pass a list of pairs (X, y) and no y beside it")
        chosen: dict[str, Any] = {"batch_size": plain_number(self.batch_size), "num_samples": plain_number(self.num_samples)}
        chosen |= {"optimizer": self.optimizer, "learning_rate": self.learning_rate}
        chosen |= {"patience": plain_number(self.patience), "mixing": self.mixing}
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
        curves = as_curves(tasks, task, inputs, outputs, group)
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
        """The p-value of a context: the share of held-out contexts of its size that the model predicts no better."""
        check_is_fitted(self)
        return self.model_.plausibility(X, y)

    def save(self, directory: str | Path, *, licence: str | None = None) -> None:
        """Write the fitted model into a directory that `mpnp.load` and `mpnp predict` read."""
        check_is_fitted(self)
        self.model_.save(directory, licence=licence)

    def predict(self, X: Any) -> Any:
        """The prior mean, knowing nothing of the task: `condition` on some of its rows to know more."""
        return self.condition().predict(X)


def as_curves(
    tasks: Any,
    task: str | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    group: str | None = None,
) -> Curves:
    """Curves from a list of pairs, a frame, or a file that holds one."""
    if isinstance(tasks, Curves):
        return tasks
    if isinstance(tasks, (str, Path)):
        tasks = read_table(tasks)
    if not is_frame(tasks):
        return Curves.from_pairs(tasks)
    if task is None or inputs is None or outputs is None:
        raise InputError("a frame needs names: fit(frame, task='...', inputs=['...'], outputs=['...'])")
    names = [(one,) if isinstance(one, str) else tuple(one) for one in (inputs, outputs)]
    return curves_from_frame(tasks, Columns(*names, task=task, group=group))


def _seed(random_state: Any) -> int:
    """A whole number is taken as it is, as on the command line; anything else as scikit-learn takes it."""
    if isinstance(random_state, numbers.Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))
