"""Stacks: mixtures of forecasters whose weights and spread maximise the log-likelihood of held-out tasks."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from mpnp.inference.assess import HeldOut, log_prob, point_weights
from mpnp.inference.forecasters import COMPONENTS, mix
from mpnp.inference.leaderboard import learn_weights
from mpnp.inference.prediction import select
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.tables.columns import Schema

__all__ = ["Answers", "Stack", "StackLearner"]

SPREADS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Factors on the scales of a stack's members. A mixture of calibrated forecasts that differ is too wide (Gneiting and Ranjan,
2013). Factors above one are left out: they give outliers a higher density, at the price of the CRPS."""

FOLDS = 10
"""Folds of tasks on which a stack is judged: enough that each learns from nearly as many tasks as the stack itself."""

Answers = Mapping[str, Predictive]
"""Of each forecaster, the prediction of the targets of all held-out contexts."""


class Stack(NamedTuple):
    """The weights of a mixture of forecasters, and the factor on all their scales."""

    weights: dict[str, float]
    spread: float

    def mix(self, answers: Answers) -> Predictive:
        """The mixture of these predictions."""
        return mix([answers[name] for name in self.weights], list(self.weights.values()), self.spread)


class StackLearner:
    """Learns stacks of some forecasters from their predictions of held-out targets."""

    def __init__(self, answers: Answers, columns: Schema, held_out: HeldOut) -> None:
        self.answers, self.held_out = answers, held_out
        self._log_densities: dict[float, Float[np.ndarray, "member point"]] = {
            spread: np.stack([log_prob(columns, mix([answer], [1.0], spread), held_out.cuts) for answer in answers.values()])
            for spread in SPREADS
        }
        self._cut_of_point = held_out.cut_of_points()
        self._counts = point_weights(held_out.cuts)

    def learn(self, among: Bool[np.ndarray, " context"] | None = None) -> Stack:
        """The weights and the spread that give the targets of these contexts, by default of all, the highest density."""
        chosen = np.ones(len(self.held_out.cuts), bool) if among is None else among
        num_tasks = len(np.unique(self.held_out.cluster[chosen]))
        points = chosen[self._cut_of_point]
        scored = [self._learn(spread, points, num_tasks) for spread in SPREADS]
        return max(scored, key=lambda pair: pair[0])[1]

    def _learn(self, spread: float, points: Bool[np.ndarray, " point"], num_tasks: int) -> tuple[float, Stack]:
        """The best weights for a spread, and their mean log density."""
        members, counts = self._log_densities[spread][:, points], self._counts[points]
        weights = learn_weights(dict(zip(self.answers, members, strict=True)), COMPONENTS, num_tasks, counts)
        most = members.max(axis=0)
        density = np.array([weights.get(name, 0.0) for name in self.answers]) @ np.exp(members - most)
        return float(np.average(np.log(density) + most, weights=counts)), Stack(weights, spread)

    def cross_fitted(self) -> Predictive | None:
        """The stack as it is judged: the targets of each fold of tasks are predicted with weights learnt from the others.

        None if there is a single task, which cannot judge what it has taught.
        """
        fold = self._folds()
        if not fold.any():
            return None
        num_rows = np.array([len(cut.y_target) for cut in self.held_out.cuts])
        num_targets = next(iter(self.answers.values())).loc.shape[1]
        of_target = np.repeat(fold, num_rows * (num_targets // num_rows.sum()))
        loc, scale = np.zeros((2, COMPONENTS, num_targets, 1))
        for number in range(fold.max() + 1):
            asked = np.flatnonzero(of_target == number)
            mixed = self.learn(fold != number).mix({name: select(answer, asked) for name, answer in self.answers.items()})
            loc[:, asked], scale[:, asked] = mixed.loc, mixed.scale
        return Predictive(loc, scale)

    def _folds(self) -> Int[np.ndarray, " context"]:
        """The fold of each context. Those of one cluster stay together."""
        names, number = np.unique(self.held_out.cluster, return_inverse=True)
        return number % min(FOLDS, len(names))
