"""Where to begin after past searches: points that complement one another, and then those that suit what was found."""

import numpy as np
import pytest

from mpnp.bayesopt.opening import Opening
from mpnp.bayesopt.study_process import ProcessOfSearches

NOTHING = np.zeros((0, 1)), np.zeros(0), np.zeros((0, 1))


def cost(x, bottom):
    return np.abs(x[..., 0] - bottom)


@pytest.fixture(scope="module")
def opening():
    """Past functions have their bottom at 0.2, a fourth of them at 0.8 and another fourth at 0.5."""
    rng = np.random.default_rng(0)
    searches = []
    for number in range(40):
        x = rng.random((15, 1))
        searches.append((x, (1 + number % 3) * cost(x, (0.2, 0.2, 0.8, 0.5)[number % 4])))
    return Opening(ProcessOfSearches(searches))


def everywhere(opening):
    return np.ones(len(opening.points), bool)


def test_the_first_points_complement_one_another(opening):
    """Without any outputs yet, as when several trials start together."""
    x, z, pending = NOTHING
    for _ in range(3):
        pending = np.concatenate([pending, opening.suggest(x, z, pending, everywhere(opening))[None]])
    np.testing.assert_allclose(np.sort(pending[:, 0]), [0.2, 0.5, 0.8], atol=0.12)


@pytest.mark.parametrize("bottom", [0.2, 0.8])
def test_the_next_point_suits_what_was_found(opening, bottom):
    x = np.array([[0.05], [0.95]])
    suggested = opening.suggest(x, 2 * cost(x, bottom), NOTHING[2], everywhere(opening))
    np.testing.assert_allclose(suggested, bottom, atol=0.12)


def test_a_point_that_is_not_allowed_is_not_suggested(opening):
    allowed = np.abs(opening.points[:, 0] - 0.2) > 0.15
    assert allowed[np.flatnonzero((opening.points == opening.suggest(*NOTHING, allowed)).all(axis=1))].all()
