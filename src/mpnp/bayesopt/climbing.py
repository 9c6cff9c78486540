"""The maximum of an acquisition function: the best candidates, and then uphill from them."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float

from mpnp.bayesopt.history import Snap

__all__ = ["climb", "worth"]

NUM_CLIMBERS, NUM_STEPS, NUM_ROUNDS = 4, 16, 5
"""Points that climb, steps that each of them tries in a round, and rounds."""

LONGEST, SHORTEST = 0.03, 1e-6
"""Standard deviation of steps in the unit box. They shrink from round to round; those within a round differ tenfold."""

Points = Float[np.ndarray, "point input"]
Scores = Float[np.ndarray, " point"]
Score = Callable[[Points], Scores]
Admissible = Callable[[Points], Bool[np.ndarray, " point"]]


def worth(scores: Float[np.ndarray, "*any"], admissible: Bool[np.ndarray, "*any"]) -> Float[np.ndarray, "*any"]:
    """Scores, with minus infinity at points that are out of the question; NaN ranks just above them."""
    # Scores of minus infinity must still rank above points that are out of the question.
    ranked = np.clip(np.nan_to_num(scores, nan=-np.inf), np.finfo(float).min, None)
    return np.where(admissible, ranked, -np.inf)


def climb(
    score: Score, points: Points, scores: Scores, admissible: Admissible, snap: Snap, rng: np.random.Generator
) -> Float[np.ndarray, " input"]:
    """Improve the best points by random steps, all at once, and return the best of all.

    `scores` are those of `points`, as `worth` gives them.
    """
    order = np.argsort(-scores, kind="stable")[:NUM_CLIMBERS]
    here, height = points[order], scores[order]
    for longest in np.geomspace(LONGEST, 10 * SHORTEST, NUM_ROUNDS):
        lengths = longest * 10 ** -rng.random((len(here), NUM_STEPS, 1))
        steps = here[:, None] + lengths * rng.standard_normal((len(here), NUM_STEPS, here.shape[1]))
        tried = snap(np.clip(steps, 0, 1).reshape(-1, here.shape[1]))
        reached = worth(score(tried), admissible(tried)).reshape(len(here), NUM_STEPS)
        best = np.argmax(reached, axis=1)
        rows = np.arange(len(here))
        better = reached[rows, best] > height
        here = np.where(better[:, None], tried.reshape(len(here), NUM_STEPS, -1)[rows, best], here)
        height = np.where(better, reached[rows, best], height)
    return here[np.argmax(height)]
