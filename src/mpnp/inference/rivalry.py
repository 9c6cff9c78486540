"""Learn the rivals of a network, and score all of them on the same held-out contexts."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from mpnp.inference.assess import (
    Cut,
    forecast,
    halves,
    log_prob,
    mean_log_prob,
    outcomes,
    point_weights,
    row_weights,
    score_outputs,
)
from mpnp.inference.forecasters import COMPONENTS, RivalPredictor, mix
from mpnp.inference.leaderboard import NETWORK, STACK, Leaderboard, Rows, Standing, learn_weights, rank
from mpnp.inference.prediction import join
from mpnp.nn.likelihoods.gaussian import Gaussian
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.rivals.base import AbstractGaussianRival, AbstractRival, Points, Unsuitable
from mpnp.rivals.points import learning_points
from mpnp.rivals.registry import RIVALS
from mpnp.tables.columns import Schema
from mpnp.tables.dataset import CurveDataset
from mpnp.tables.points import many_contexts, many_targets

__all__ = ["HeldOut", "choose", "compete", "learn_rivals"]

SPREADS = (0.7, 0.8, 0.9, 1.0)
"""Factors on the scales of a stack's members. A mixture of calibrated forecasts that differ is too wide (Gneiting and Ranjan,
2013). Factors above one are left out: they give outliers a higher density, at the price of the CRPS."""

Answers = dict[str, Predictive]
"""Of each forecaster, the prediction of the targets of all held-out contexts."""


class Stack(NamedTuple):
    """The weights of a mixture of forecasters, and the factor on all their scales."""

    weights: dict[str, float]
    spread: float

    def mix(self, answers: Answers) -> Predictive:
        """The mixture of these predictions."""
        return mix([answers[name] for name in self.weights], list(self.weights.values()), self.spread)


class HeldOut(NamedTuple):
    """Contexts cut from held-out curves, with the curve that each comes from."""

    cuts: Sequence[Cut]
    curve: Int[np.ndarray, " context"]

    @property
    def rows(self) -> Rows:
        """The rows of all targets."""
        return Rows(np.repeat(self.curve, [len(cut.y_target) for cut in self.cuts]), row_weights(self.cuts))


def learn_rivals(
    table: CurveDataset, names: Sequence[str], *, seed: int, tell: Callable[[str], None]
) -> tuple[dict[str, AbstractRival], dict[str, str]]:
    """The rivals that suit the training curves, and why the others do not."""
    curves: list[Points] = learning_points(table.columns, table.parts["train"])
    rivals, skipped = {}, {}
    for name in names:
        tell(f"learning the rival '{name}': {RIVALS[name].title}")
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
    network: tuple[Predictive, Predictive | None],
) -> Leaderboard:
    """The leaderboard. `network` has its predictions of both sets of contexts, the second None if there are no test contexts.

    Nothing is chosen on test contexts.
    """
    own, of_test = network
    answers: Answers = {NETWORK: own, **_answer(rivals, columns, validation)}
    tested: Answers = {} if of_test is None else {NETWORK: of_test, **_answer(rivals, columns, test)}
    members = {name: answers[name] for name in (NETWORK, *rivals) if name == NETWORK or rivals[name].reads_context}
    stack, judged = None, {}
    if own.distribution == Gaussian() and len(members) > 1:
        stack, judged = _learn_stack(members, columns, validation), _cross_fitted_stack(members, columns, validation)
    standings = _standings({**answers, **judged}, columns, validation)
    weights = {} if stack is None else stack.weights
    if tested and stack is not None:
        tested[STACK] = stack.mix(tested)
    return Leaderboard(
        validation=standings,
        test=_standings(tested, columns, test) if tested else (),
        best=choose([standing for standing in standings if standing.may_be_first], rivals, weights),
        weights=weights,
        skipped=dict(skipped),
        num_contexts=len(validation.cuts),
        spread=1.0 if stack is None else stack.spread,
    )


def choose(leading: Sequence[Standing], rivals: Mapping[str, AbstractRival], weights: Mapping[str, float]) -> str:
    """Of those that may be first, the stack, as the safest of equals; or else the first that has functions, if any has."""

    def has_functions(name: str) -> bool:
        if name == STACK:
            return any(map(has_functions, weights))
        return name == NETWORK or isinstance(rivals[name], AbstractGaussianRival)

    able = [standing.name for standing in leading if has_functions(standing.name)]
    return STACK if STACK in able else next(iter(able), leading[0].name)


def _answer(rivals: Mapping[str, AbstractRival], columns: Schema, held_out: HeldOut) -> Answers:
    contexts = many_contexts(columns, [cut[:2] for cut in held_out.cuts])
    targets = many_targets(columns, [cut[2] for cut in held_out.cuts])
    return {name: join(RivalPredictor(rival, columns).many(contexts, targets)) for name, rival in rivals.items()}


def _learn_stack(answers: Answers, columns: Schema, held_out: HeldOut) -> Stack:
    """The weights and the spread that give the held-out targets the highest density."""
    num_tasks = len(np.unique(held_out.curve))

    def learn(spread: float) -> tuple[float, Stack]:
        densities = {name: log_prob(columns, mix([answer], [1.0], spread), held_out.cuts) for name, answer in answers.items()}
        stack = Stack(learn_weights(densities, COMPONENTS, num_tasks, point_weights(held_out.cuts)), spread)
        return mean_log_prob(columns, stack.mix(answers), held_out.cuts), stack

    return max(map(learn, SPREADS), key=lambda scored: scored[0])[1]


def _cross_fitted_stack(answers: Answers, columns: Schema, held_out: HeldOut) -> Answers:
    """The stack as it is judged: each half of the curves is predicted with weights learnt from the other half."""
    middle = int(np.searchsorted(held_out.curve, (held_out.curve[-1] + 1) // 2))
    if not 0 < middle < len(held_out.cuts):  # a single curve cannot judge what it has taught
        return {}
    parts = {name: halves(answer, held_out.cuts, middle) for name, answer in answers.items()}
    first, second = ({name: part[half][0] for name, part in parts.items()} for half in (0, 1))
    before, after = (HeldOut(held_out.cuts[half], held_out.curve[half]) for half in (slice(middle), slice(middle, None)))
    crossed = (
        _learn_stack(second, columns, after).mix(first),
        _learn_stack(first, columns, before).mix(second),
    )
    return {STACK: join(crossed)}


def _standings(answers: Answers, columns: Schema, held_out: HeldOut) -> tuple[Standing, ...]:
    y = outcomes(held_out.cuts)
    scores = {name: score_outputs(forecast(columns, answer, held_out.cuts), y) for name, answer in answers.items()}
    return rank(scores, held_out.rows, _scale(y))


def _scale(y: Float[np.ndarray, "row output"]) -> Float[np.ndarray, " output"]:
    """What makes several outputs comparable; a single one keeps its unit."""
    if y.shape[1] == 1:
        return np.ones(1)
    std = np.nanstd(y, axis=0)
    return np.where(std > 0, std, 1.0)
