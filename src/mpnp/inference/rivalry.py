"""Learn the rivals of a network, and score all of them on the same held-out contexts."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from mpnp.inference.assess import Cut, score_outputs
from mpnp.inference.forecasters import COMPONENTS, RivalPredictor, mix
from mpnp.inference.leaderboard import NETWORK, STACK, Leaderboard, Standing, learn_weights, rank
from mpnp.inference.prediction import Prediction
from mpnp.inference.recalibration import log_probs
from mpnp.nn.likelihoods.gaussian import Gaussian
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.rivals.base import AbstractGaussianRival, AbstractRival, Points, Unsuitable
from mpnp.rivals.points import learning_points
from mpnp.rivals.registry import RIVALS
from mpnp.tables.columns import Schema
from mpnp.tables.dataset import CurveDataset
from mpnp.tables.points import context_points, target_inputs

__all__ = ["HeldOut", "choose", "compete", "learn_rivals"]

Answers = dict[str, list[Predictive]]
"""Of each forecaster, the prediction of each held-out context."""


class HeldOut(NamedTuple):
    """Contexts cut from held-out curves, with the curve that each comes from."""

    cuts: Sequence[Cut]
    curve: Int[np.ndarray, " context"]


def learn_rivals(table: CurveDataset, names: Sequence[str], *, seed: int) -> tuple[dict[str, AbstractRival], dict[str, str]]:
    """The rivals that suit the training curves, and why the others do not."""
    curves: list[Points] = learning_points(table.columns, table.parts["train"])
    rivals, skipped = {}, {}
    for name in names:
        try:
            rivals[name] = RIVALS[name].learn(curves, context=table.context, seed=seed)
        except Unsuitable as reason:
            skipped[name] = str(reason)
    return rivals, skipped


def compete(
    columns: Schema,
    rivals: Mapping[str, AbstractRival],
    validation: HeldOut,
    test: HeldOut,
    skipped: Mapping[str, str],
    network: tuple[list[Predictive], list[Predictive]],
) -> Leaderboard:
    """The leaderboard. `network` has its predictions of both sets of contexts. Nothing is chosen on test contexts."""
    answers, tested = (
        {NETWORK: own, **_answer(rivals, columns, part)} for own, part in zip(network, (validation, test), strict=True)
    )
    stackable = all(answer.distribution == Gaussian() for answer in network[0][:1])
    weights = _weights(answers, columns, validation, slice(None)) if stackable else {}
    stacks = _cross_fitted_stack(answers, columns, validation) if stackable else {}
    standings = _standings({**answers, **stacks}, columns, validation)
    if test.cuts and weights:
        tested[STACK] = _stack(tested, weights)
    return Leaderboard(
        validation=standings,
        test=_standings(tested, columns, test) if test.cuts else (),
        best=choose([standing for standing in standings if standing.may_be_first], rivals, weights),
        weights=weights,
        skipped=dict(skipped),
        num_contexts=len(validation.cuts),
    )


def choose(leading: Sequence[Standing], rivals: Mapping[str, AbstractRival], weights: Mapping[str, float]) -> str:
    """The name of the first that has functions, of those that may be first; the first of all if none of them has any."""

    def has_functions(name: str) -> bool:
        if name == STACK:
            return any(map(has_functions, weights))
        return name == NETWORK or isinstance(rivals[name], AbstractGaussianRival)

    return next((standing.name for standing in leading if has_functions(standing.name)), leading[0].name)


def _answer(rivals: Mapping[str, AbstractRival], columns: Schema, held_out: HeldOut) -> Answers:
    contexts = [context_points(columns, x, y) for x, y, _, _ in held_out.cuts]
    targets = [target_inputs(columns, x) for _, _, x, _ in held_out.cuts]
    return {name: RivalPredictor(rival, columns).many(contexts, targets) for name, rival in rivals.items()}


def _weights(answers: Answers, columns: Schema, held_out: HeldOut, which: slice) -> dict[str, float]:
    """Weights of the stack, learnt from some of the contexts."""
    densities = {
        name: np.concatenate(log_probs(columns, parts[which], held_out.cuts[which])) for name, parts in answers.items()
    }
    return learn_weights(densities, COMPONENTS)


def _cross_fitted_stack(answers: Answers, columns: Schema, held_out: HeldOut) -> Answers:
    """The stack as it is judged: each half of the curves is predicted with weights learnt from the other half."""
    middle = int(np.searchsorted(held_out.curve, (held_out.curve[-1] + 1) // 2))
    halves = slice(0, middle), slice(middle, None)
    if not 0 < middle < len(held_out.cuts):  # a single curve cannot judge what it has taught
        return {}
    stacked = []
    for judged, taught in (halves, halves[::-1]):
        weights = _weights(answers, columns, held_out, taught)
        stacked += _stack({name: parts[judged] for name, parts in answers.items()}, weights)
    return {STACK: stacked}


def _stack(answers: Answers, weights: Mapping[str, float]) -> list[Predictive]:
    members = zip(*(answers[name] for name in weights), strict=True)
    return [mix(parts, list(weights.values())) for parts in members]


def _standings(answers: Answers, columns: Schema, held_out: HeldOut) -> tuple[Standing, ...]:
    truths = [y for _, _, _, y in held_out.cuts]
    scores = {
        name: _pool([score_outputs(Prediction.decode(answer, columns), y) for answer, y in zip(parts, truths, strict=True)])
        for name, parts in answers.items()
    }
    return rank(scores, np.repeat(held_out.curve, [len(y) for y in truths]), _scale(np.concatenate(truths)))


def _pool(scores: Sequence[Mapping[str, np.ndarray]]) -> dict[str, Float[np.ndarray, "row output"]]:
    return {metric: np.concatenate([part[metric] for part in scores]) for metric in scores[0]}


def _scale(y: Float[np.ndarray, "row output"]) -> Float[np.ndarray, " output"]:
    """What makes several outputs comparable; a single one keeps its unit."""
    if y.shape[1] == 1:
        return np.ones(1)
    std = np.nanstd(y, axis=0)
    return np.where(std > 0, std, 1.0)
