"""Fitted models in the user's units: condition, predict many tasks, save and load."""

import dataclasses
import itertools
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from mpnp.errors import InputError, RunError
from mpnp.inference.assess import Cut, cut_curves, mean_log_prob
from mpnp.inference.card import ModelCard
from mpnp.inference.files import load_model_files, save_model
from mpnp.inference.forecasters import (
    AbstractForecaster,
    NetworkForecaster,
    Predicts,
    Resamples,
    RivalForecaster,
    StackForecaster,
)
from mpnp.inference.leaderboard import NETWORK, STACK, Leaderboard, read_leaderboard
from mpnp.inference.ood import Pair, p_values, warn_any_outside, warn_outside, warn_unknown, warn_unlike
from mpnp.inference.posterior import Posterior
from mpnp.inference.prediction import Prediction, join
from mpnp.inference.predictor import Predictor
from mpnp.inference.pretrained import PRETRAINED, PretrainedForecaster
from mpnp.inference.recalibration import calibrate
from mpnp.io.locks import exclusive
from mpnp.io.paths import usable_path
from mpnp.models.base import AbstractNeuralProcess
from mpnp.nn.likelihoods.calibration import Calibration
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.options import MOST_SAMPLES, NUM_SAMPLES, require_count, require_seed
from mpnp.rivals.base import AbstractRival
from mpnp.tables.curves import require_pairs
from mpnp.tables.frames import Frame, is_frame, read_curves, read_noise, require_columns
from mpnp.tables.points import context_points, many_contexts, many_targets, target_inputs
from mpnp.tables.quantiles import DEFAULT_QUANTILES
from mpnp.tables.rows import read_context, read_inputs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "FittedModel",
    "load",
]

CONTEXTS_PER_CURVE = 8
"""Contexts cut from each curve to recalibrate on."""


class FittedModel:
    """A trained network with its card, which maps between the user's units and the network's, and with its rivals.

    The best forecaster of held-out curves predicts: the network, a rival or the stack. `use` chooses another.
    """

    def __init__(
        self,
        network: AbstractNeuralProcess,
        card: ModelCard,
        rivals: Mapping[str, AbstractRival] = types.MappingProxyType({}),
        choice: str = "best",
    ) -> None:
        network = network.calibrated(card.calibration)
        self.network, self.card, self.rivals = network, card, dict(rivals)
        self.network_forecaster = NetworkForecaster(network, card)
        self.choice = choice
        self.forecaster = self._find(choice)
        """What predicts and draws functions: the best on the leaderboard, unless `use` chose another."""

    def __reduce__(
        self,
    ) -> tuple[type["FittedModel"], tuple[AbstractNeuralProcess, ModelCard, dict[str, AbstractRival], str]]:
        """Pickle without compiled predictors; scikit-learn's tools pickle a model to send it to another process."""
        return FittedModel, (self.network, self.card, self.rivals, self.choice)

    def __repr__(self) -> str:
        """Inputs, outputs, and which forecaster predicts."""
        columns, board = self.card.columns, self.leaderboard
        who = "" if board is None else f"; answers come from '{board.resolve(self.choice)}'"
        return f"FittedModel({self.card.model}: {', '.join(columns.outputs)} given {', '.join(columns.inputs)}{who})"

    @property
    def predictor(self) -> Callable[[int], Predicts]:
        """The predictor for a number of sampled functions."""
        return self.forecaster.predictor

    @property
    def plain_predictor(self) -> Predictor:
        """The network's own predictor, which judges contexts even if another forecaster predicts."""
        return self.network_forecaster.predictor(NUM_SAMPLES)

    @property
    def resampler(self) -> Resamples:
        """Draws functions, and computes joint densities."""
        return self.forecaster.resampler

    @property
    def leaderboard(self) -> Leaderboard | None:
        """How well network, rivals and stack forecast held-out tasks; None if the fit had no rivals."""
        return read_leaderboard(self.card)

    def renamed(self, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None) -> "FittedModel":
        """The same model for tables whose columns have other names; None keeps the names."""
        card = dataclasses.replace(self.card, columns=self.card.columns.renamed(inputs, outputs))
        return FittedModel(self.network, card, self.rivals, self.choice)

    def use(self, name: str = "best") -> "FittedModel":
        """The same model with another forecaster: 'best' on the leaderboard, 'network', 'stack' or a rival.

        Everything that a posterior offers then comes from it. Warnings about contexts are still the network's.
        """
        return self if name == self.choice else FittedModel(self.network, self.card, self.rivals, name)

    def _find(self, name: str) -> AbstractForecaster:
        """The forecaster of this name."""
        network = self.network_forecaster
        if (board := self.leaderboard) is None:
            if name not in ("best", NETWORK):
                raise InputError(f"this model was fitted without rivals, so it has its network only and no forecaster '{name}'")
            return network
        members: dict[str, AbstractForecaster] = {NETWORK: network}
        members |= {kind: RivalForecaster(rival, self.card.columns) for kind, rival in self.rivals.items()}
        chosen = board.resolve(name)
        if chosen == PRETRAINED:
            return PretrainedForecaster(load(PRETRAINED), self.card.columns)
        if missing := {chosen, *(board.weights if chosen == STACK else ())} - {STACK, *members}:
            raise RunError(f"the model lacks its rivals {sorted(missing)}; restore its directory from a copy")
        return StackForecaster(members, board.weights, board.spread) if chosen == STACK else members[chosen]

    def condition(self, X: Any = (), y: Any = None, *, num_samples: int = NUM_SAMPLES) -> Posterior:
        """The posterior given rows of X and y, or of one data frame with the columns of both; without rows, the prior.

        Warns if the rows are unlike the training data.
        """
        require_count("num_samples", num_samples, most=MOST_SAMPLES)
        if y is None and not is_frame(X) and _is_empty(X):
            y = ()
        x, outputs = read_context(self.card.columns, X, y)
        model = self.scaled_to(x, outputs)
        warn_outside(model.card, x)
        warn_unlike(model.card, model.plain_predictor, [(x, outputs)])
        return Posterior(model, x, outputs, num_samples=num_samples)

    def scaled_to(self, x: Float[np.ndarray, "row input"], y: Float[np.ndarray, "row output"]) -> "FittedModel":
        """The model with which to read a curve of this context: itself, unless it scales each curve by its context."""
        card = self.card.scaled_to(x, y)
        return self if card is self.card else FittedModel(self.network, card)

    def plausibility(self, X: Any, y: Any = None) -> float | None:
        """The p-value of a context: the share of held-out contexts of similar size that the model predicts no better.

        None if the context is empty, or if the model has no reference scores.
        """
        x, outputs = read_context(self.card.columns, X, y)
        if self.card.reference is None or not len(x):
            return None
        return p_values(self.card, self.plain_predictor, [(x, outputs)])[0]

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

        Either `contexts` is a list of pairs (X, y), `X` a list of as many sets of rows, and the result a list; or both are
        frames with the task column, and the result is a frame with one row per row of `X`.
        """
        require_count("num_samples", num_samples, most=MOST_SAMPLES)
        if is_frame(X) != is_frame(contexts) or not isinstance(X, Collection):
            raise InputError("contexts and X must both be frames with the task column, or both be lists")
        if is_frame(X):
            return self._predict_frame(contexts, X, output_type, quantiles, num_samples)
        pairs = [read_context(self.card.columns, *pair) for pair in require_pairs(contexts, "context")]
        if len(pairs) != len(X):
            raise InputError(f"every context needs its rows of X: got {len(pairs)} contexts and {len(X)} sets of rows")
        if not pairs:
            return []
        queries = [read_inputs(self.card.columns, rows) for rows in X]
        warn_unlike(self.card, self.plain_predictor, pairs)
        warn_any_outside(self.card, pairs, queries)
        predictions = self.predict_pairs(pairs, queries, num_samples, [read_noise(self.card.columns, rows) for rows in X])
        return [
            prediction.frame(output_type, quantiles, rows) if is_frame(rows) else prediction.arrays(output_type, quantiles)
            for prediction, rows in zip(predictions, X, strict=True)
        ]

    def figure(self, contexts: Any, X: Any = None, *, most: int = 12, num_draws: int = 10) -> "Figure":
        """The posteriors of several tasks in one figure, a panel each for up to `most` tasks and each output.

        `contexts` is a frame with the task column or a list of pairs (X, y); `X` holds the inputs to plot at, by default the
        training range.
        """
        from mpnp.plotting.posterior import tasks_figure  # matplotlib takes half a second to import

        require_count("most", most)
        if is_frame(contexts):
            groups = contexts.groupby(self.card.columns.task, sort=False)
            named = {str(name): self.condition(rows) for name, rows in itertools.islice(groups, most)}
        else:
            pairs = itertools.islice(require_pairs(contexts, "context"), most)
            named = {f"task {number}": self.condition(*pair) for number, pair in enumerate(pairs)}
        if not named:
            raise InputError("there is no task to plot")
        outputs = self.card.columns.outputs
        return tasks_figure({name: [p.curve(X, output, num_draws) for output in outputs] for name, p in named.items()})

    def recalibrate(self, curves: Any, *, seed: int = 0) -> "FittedModel":
        """The model with standard deviations corrected on curves it was not trained on; see `mpnp.inference.recalibration`.

        `curves` are a data frame with the model's columns, a list of pairs (X, y), or `Curves`. The correction is kept in the
        card and applies to everything the model says, resampled functions included.
        """
        require_seed(seed)
        curves = read_curves(self.card.columns, curves)
        context, most = self.card.about.get("context", "random"), self.card.seen.largest_context + 1
        cuts = cut_curves(curves, context, max_rows=most, num_cuts=CONTEXTS_PER_CURVE, seed=seed)
        return self.calibrated(calibrate(self.card.columns, self.uncalibrated().answer_cuts(cuts), cuts))

    def uncalibrated(self) -> "FittedModel":
        """The network with its standard deviations as they were trained."""
        if self.card.calibration is None and self.forecaster is self.network_forecaster:
            return self  # with its compiled programs
        return FittedModel(self.network, dataclasses.replace(self.card, calibration=None), choice=NETWORK)

    def calibrated(self, calibration: Calibration | None) -> "FittedModel":
        """The same model with this correction of its standard deviations."""
        if calibration == self.card.calibration:
            return self
        return FittedModel(self.network, dataclasses.replace(self.card, calibration=calibration), self.rivals, self.choice)

    def save(self, directory: str | Path, *, licence: str | None = None) -> None:
        """Write weights and card to a directory that `mpnp.load` reads. `licence` says how others may use the model."""
        card = self.card if licence is None else self.licensed(licence).card
        directory = usable_path(directory)
        with exclusive(directory):
            save_model(directory, self.network, card, self.rivals)

    def licensed(self, licence: str) -> "FittedModel":
        """The same model with a licence in its card."""
        return FittedModel(self.network, dataclasses.replace(self.card, licence=licence), self.rivals, self.choice)

    def predict_pairs(
        self,
        pairs: Sequence[Pair],
        queries: Sequence[np.ndarray],
        num_samples: int,
        noise: Sequence[np.ndarray | None] | None = None,
    ) -> list[Prediction]:
        """Predict each context at its own inputs, all given as matrices, with known noise if given. Emits no warnings."""
        schemas = [self.card.scaled_to(*pair).columns for pair in pairs]
        contexts = [context_points(columns, *pair) for columns, pair in zip(schemas, pairs, strict=True)]
        targets = [target_inputs(columns, x) for columns, x in zip(schemas, queries, strict=True)]
        answers = self.predictor(num_samples).many(contexts, targets)
        known = [None] * len(pairs) if noise is None else noise
        decoded = [Prediction.decode(answer, columns) for answer, columns in zip(answers, schemas, strict=True)]
        return [prediction.with_noise(some) for prediction, some in zip(decoded, known, strict=True)]

    def answer_cuts(self, cuts: Sequence[Cut]) -> Predictive:
        """The prediction of the targets of all cuts, in the network's units."""
        columns = self.card.columns
        contexts, targets = many_contexts(columns, [cut[:2] for cut in cuts]), many_targets(columns, [cut[2] for cut in cuts])
        return join(self.predictor(NUM_SAMPLES).many(contexts, targets))

    def mean_log_prob(self, cuts: Sequence[Cut]) -> float:
        """Mean log density of the targets of all cuts."""
        return mean_log_prob(self.card.columns, self.answer_cuts(cuts), cuts)

    def _predict_frame(
        self, contexts: Frame, X: Frame, output_type: str, quantiles: Sequence[float], num_samples: int
    ) -> Frame:
        import pandas as pd

        task = self.card.columns.task
        for frame in (contexts, X):
            require_columns(frame, (task,))
            if frame[task].isna().any():
                raise InputError(f"the task column '{task}' is empty in a row; every row needs a task")
        if not len(X):
            raise InputError("there are no rows to predict at")
        given, asked = (frame.groupby(task, sort=False).indices for frame in (contexts, X))
        pairs = [read_context(self.card.columns, contexts.iloc[given.get(name, [])], None) for name in asked]
        if len(contexts):
            warn_unknown([name for name, (x, _) in zip(asked, pairs, strict=True) if not len(x)])
        frames = [X.iloc[rows] for rows in asked.values()]
        queries = [read_inputs(self.card.columns, rows) for rows in frames]
        warn_unlike(self.card, self.plain_predictor, pairs)
        warn_any_outside(self.card, pairs, queries)
        noise = [read_noise(self.card.columns, rows) for rows in frames]
        predictions = self.predict_pairs(pairs, queries, num_samples, noise)
        parts = []
        for name, prediction, rows in zip(asked, predictions, frames, strict=True):
            part = prediction.frame(output_type, quantiles, rows)
            part = part.to_frame(output_type) if part.ndim == 1 else part
            part.insert(0, task, name)
            parts.append(part)
        as_asked = np.argsort(np.concatenate(list(asked.values())))
        return pd.concat(parts).iloc[as_asked]


def _is_empty(rows: Any) -> bool:
    try:
        return len(rows) == 0
    except TypeError:  # a number, or nothing that has rows
        return False


def load(path_or_name: str | Path) -> FittedModel:
    """Load a model from a directory that `fit` or `save` wrote, from a training run, or by the name of a packaged model.

    Loading executes no code from the files.
    """
    return FittedModel(*load_model_files(usable_path(path_or_name)))
