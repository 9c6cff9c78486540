"""Learn the rivals of a network, and score all of them on the same held-out contexts."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jaxtyping import Float

from mpnp.inference.assess import HeldOut, forecast, outcomes, score_outputs
from mpnp.inference.forecasters import AbstractForecaster
from mpnp.inference.leaderboard import NETWORK, STACK, Leaderboard, Standing, rank
from mpnp.inference.prediction import join
from mpnp.inference.pretrained import PRETRAINED
from mpnp.inference.stacks import Answers, StackLearner
from mpnp.nn.likelihoods.gaussian import Gaussian
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.options import NUM_SAMPLES
from mpnp.rivals.base import AbstractRival, Points, Unsuitable
from mpnp.rivals.points import learning_points
from mpnp.rivals.registry import RIVALS
from mpnp.tables.columns import Schema
from mpnp.tables.dataset import CurveDataset
from mpnp.tables.points import many_contexts, many_targets

__all__ = ["choose", "compete", "learn_rivals"]


def learn_rivals(
    table: CurveDataset, names: Sequence[str], *, seed: int, tell: Callable[[str], None]
) -> tuple[dict[str, AbstractRival], dict[str, str]]:
    """The rivals that suit the training curves, and why the others do not. A pretrained model has nothing to learn."""
    curves: list[Points] = learning_points(table.columns, table.parts["train"])
    rivals, skipped = {}, {}
    for name in names:
        if name == PRETRAINED:
            continue
        tell(f"learning the rival '{name}': {RIVALS[name].title}")
        try:
            rivals[name] = RIVALS[name].learn(curves, context=table.context, seed=seed)
        except Unsuitable as reason:
            skipped[name] = str(reason)
    return rivals, skipped


def compete(
    columns: Schema,
    others: Mapping[str, AbstractForecaster],
    validation: HeldOut,
    test: HeldOut,
    skipped: Mapping[str, str],
    network: tuple[Predictive, Predictive | None],
) -> Leaderboard:
    """The leaderboard of the network and others. `network` has its predictions of both sets of contexts, the second None if
    there are no test contexts.

    Nothing is chosen on test contexts.
    """
    own, of_test = network
    answers = {NETWORK: own, **_answer(others, columns, validation)}
    tested = {} if of_test is None else {NETWORK: of_test, **_answer(others, columns, test)}
    members = {name: answers[name] for name in (NETWORK, *others) if name == NETWORK or others[name].joins_stack}
    stack = None
    if own.distribution == Gaussian() and len(members) > 1:
        learner = StackLearner(members, columns, validation)
        stack, judged = learner.learn(), learner.cross_fitted()
        if judged is not None:
            answers[STACK] = judged
    standings = _standings(answers, columns, validation)
    weights = {} if stack is None else stack.weights
    if tested and stack is not None:
        tested[STACK] = stack.mix(tested)
    return Leaderboard(
        validation=standings,
        test=_standings(tested, columns, test) if tested else (),
        best=choose([standing for standing in standings if standing.may_be_first], others, weights),
        weights=weights,
        skipped=dict(skipped),
        num_contexts=len(validation.cuts),
        spread=1.0 if stack is None else stack.spread,
    )


def choose(leading: Sequence[Standing], others: Mapping[str, AbstractForecaster], weights: Mapping[str, float]) -> str:
    """Of those that may be first, the stack, as the safest of equals; or else the first that has functions, if any has."""

    def has_functions(name: str) -> bool:
        if name == STACK:
            return any(map(has_functions, weights))
        return name == NETWORK or others[name].has_functions

    able = [standing.name for standing in leading if has_functions(standing.name)]
    return STACK if STACK in able else next(iter(able), leading[0].name)


def _answer(others: Mapping[str, AbstractForecaster], columns: Schema, held_out: HeldOut) -> dict[str, Predictive]:
    contexts = many_contexts(columns, [cut[:2] for cut in held_out.cuts])
    targets = many_targets(columns, [cut[2] for cut in held_out.cuts])
    return {name: join(other.predictor(NUM_SAMPLES).many(contexts, targets)) for name, other in others.items()}


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
