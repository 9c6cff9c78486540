"""The benchmark of fits to real data: what it reports about a model is what the model's leaderboard says."""

import dataclasses

import numpy as np
import pytest
from own_data import cover, rank_by_crps, tabulate

from helpers.fitted_models import fitted
from mpnp.inference.describe import held_out
from mpnp.inference.forecasters import RivalForecaster
from mpnp.inference.model import FittedModel
from mpnp.inference.rivalry import compete, learn_rivals
from mpnp.tables.curves import Curves
from mpnp.tables.dataset import CurveDataset


@pytest.fixture(scope="module")
def judged():
    """A network of random weights with its rivals on days with an offset of their own, and the test contexts."""
    rng, hours = np.random.default_rng(0), np.arange(6.0)
    curves = Curves.from_pairs([(hours, 50 + 3 * hours + 9 * rng.normal() + rng.normal(size=6)) for _ in range(30)])
    table = CurveDataset(curves, validation=0.3, test=0.3)
    model = fitted("cnp", table.parts["train"])
    validation, test = (held_out(table, part, 18) for part in ("validation", "test"))
    rivals, skipped = learn_rivals(table, ("mean", "normal", "gp"), seed=0, tell=lambda line: None)
    answers = model.answer_cuts(validation.cuts), model.answer_cuts(test.cuts)
    others = {name: RivalForecaster(rival, model.card.columns) for name, rival in rivals.items()}
    board = compete(model.card.columns, others, validation, test, skipped, answers)
    card = dataclasses.replace(model.card, about={**model.card.about, "leaderboard": board.to_json()})
    return FittedModel(model.network, card, rivals), test


def test_gaps_in_crps_are_those_of_the_leaderboard(judged):
    model, test = judged
    gaps = rank_by_crps(model, test)
    scores = {standing.name: standing.crps for standing in model.leaderboard.test}
    assert min(gap["behind"] for gap in gaps.values()) == 0
    for name, gap in gaps.items():
        np.testing.assert_allclose(gap["behind"], scores[name] - min(scores.values()), rtol=1e-3, atol=1e-6)


def test_the_table_says_what_answers_and_how_far_behind_it_is(judged):
    model, test = judged
    covered = cover(model.use("best"), test.cuts[:3])
    assert covered["contexts"] == 3 and 0 <= covered["maximum"] <= 1
    about = {
        "leaderboard": model.leaderboard.to_json(), "tasks": {"train": 12, "validation": 9, "test": 9},
        "steps_done": 0, "cpu_seconds": 0.0,
    }  # fmt: skip
    record = {
        "set": "days", "model": "cnp", "max_minutes": 1.0, "about": about, "best": model.leaderboard.best,
        "functionals": covered, "crps": rank_by_crps(model, test),
    }  # fmt: skip
    table = tabulate([record])
    assert f"| days | 12 + 9 + 9 | {model.leaderboard.best} |" in table and "(answers)" in table
