"""Rivals of a fitted model: fair standings, honest stacks, and a hand-over that keeps what a posterior promises."""

import dataclasses
import json
import os
import pickle

import numpy as np
import pytest

from helpers.command_line import call
from helpers.fitted_models import fitted, in_units
from helpers.shapes import without_shape_checks
from mpnp.errors import InputError, RunError
from mpnp.inference.assess import Cut, HeldOut, cut_curves
from mpnp.inference.forecasters import COMPONENTS, RivalForecaster, mix
from mpnp.inference.leaderboard import Leaderboard, Rows, Standing, learn_weights, rank
from mpnp.inference.model import FittedModel, load
from mpnp.inference.prediction import Prediction
from mpnp.inference.rivalry import choose, compete, learn_rivals
from mpnp.inference.stacks import StackLearner
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.tables.columns import Schema
from mpnp.tables.curves import Curves
from mpnp.tables.dataset import CurveDataset
from mpnp.tables.points import context_points, target_inputs

HOURS = np.arange(8.0)
STANDING = Standing("gp", -1.0, 1.0, 1.0, 0.9, 0.0, 0.1)


def days(num=40, outputs=1):
    """Days around a curve, with an offset of their own: easy for every rival that reads the context."""
    rng = np.random.default_rng(0)
    pairs = []
    for _ in range(num):
        y = 50 + 3 * HOURS[:, None] + 9 * rng.normal() + rng.normal(size=(8, outputs))
        pairs.append((HOURS, y))
    return Curves.from_pairs(pairs)


def judge(curves, names=("mean", "persistence", "normal", "gp")):
    """A network of random weights with its rivals, scored on held-out days."""
    table = CurveDataset(curves, validation=0.5)
    model = fitted("cnp", table.parts["train"])
    held_out = table.parts["validation"]
    cuts = cut_curves(held_out, "random", max_rows=8, num_cuts=3, seed=0)
    rivals, skipped = learn_rivals(table, names, seed=0, tell=lambda line: None)
    judged, nothing = HeldOut(cuts, np.repeat(np.arange(len(held_out)), 3)), HeldOut([], np.zeros(0, int))
    others = {name: RivalForecaster(rival, model.card.columns) for name, rival in rivals.items()}
    board = compete(model.card.columns, others, judged, nothing, skipped, (model.answer_cuts(cuts), None))
    card = dataclasses.replace(model.card, about={**model.card.about, "leaderboard": board.to_json()})
    return FittedModel(model.network, card, rivals)


@pytest.fixture(scope="module")
def model():
    return judge(days())


def test_rivals_that_learnt_beat_a_network_that_did_not(model):
    board = model.leaderboard
    standings = {standing.name: standing for standing in board.validation}
    assert set(standings) == {"network", "stack", "mean", "persistence", "normal", "gp"}
    assert board.best in ("gp", "normal", "persistence", "stack") and standings["network"].behind > 0
    assert standings["gp"].crps < standings["mean"].crps < standings["network"].crps
    assert board.verdict().startswith(("A stack (", "The rival '")) and "by default" in board.verdict()
    assert list(board.frame().index) == [standing.name for standing in board.validation]
    assert Leaderboard.from_json(board.to_json()) == board


def test_standings_are_means_over_points_with_errors_over_tasks():
    rng = np.random.default_rng(0)
    cluster, task_effect = np.repeat(np.arange(50), 4), rng.normal(size=50)
    first, other = rng.normal(size=(200, 1)), rng.normal(size=(200, 1))
    other += task_effect[cluster, None] - 3
    other[7] = first[7] = np.nan
    zeros = np.zeros((200, 1))
    scores = {
        name: {"log_likelihood": values, "crps": zeros + 2, "squared_error": zeros + 16, "coverage_90": zeros + 1}
        for name, values in (("other", other), ("first", first))
    }
    best, second = rank(scores, Rows(cluster, np.ones(200)), np.array([2.0]))
    assert (best.name, best.behind, best.crps, best.rmse, best.coverage_90) == ("first", 0, 1, 2, 1)
    difference = (first - other)[:, 0]
    np.testing.assert_allclose(second.behind, np.nanmean(difference))
    of_tasks = np.array([np.nanmean(difference[cluster == task]) for task in range(50)])
    np.testing.assert_allclose(second.behind_error, of_tasks.std(ddof=1) / np.sqrt(50), rtol=0.03)


@pytest.mark.parametrize("outputs", [1, 2])
def test_scores_of_all_tasks_together_are_those_of_each_alone(outputs):
    model = judge(days(num=10, outputs=outputs), ("persistence", "gp"))
    columns, board = model.card.columns, {standing.name: standing for standing in model.leaderboard.validation}
    held_out = CurveDataset(days(num=10, outputs=outputs), validation=0.5).parts["validation"]
    cuts = cut_curves(held_out, "random", max_rows=8, num_cuts=3, seed=0)
    std = np.concatenate([y for _, _, _, y, *_ in cuts]).std(axis=0) if outputs > 1 else np.ones(1)
    for name in ("network", "persistence", "gp"):
        predictor, scores = model.use(name).predictor(10), []
        contexts = [context_points(columns, x, y) for x, y, *_ in cuts]
        answers = predictor.many(contexts, [target_inputs(columns, x) for _, _, x, *_ in cuts])
        for answer, (_, _, _, y, *_) in zip(answers, cuts, strict=True):
            prediction = Prediction.decode(answer, columns)
            error, rank_of_y = (prediction.mean - y) ** 2 / std**2, prediction.cdf(y)
            inside = np.abs(rank_of_y - 0.5) <= 0.45
            scores.append([prediction.marginal_log_prob(y), prediction.crps(y) / std, error, inside])
        log_likelihood, crps, error, coverage = (np.concatenate(part).mean() for part in zip(*scores, strict=True))
        wanted = (log_likelihood, crps, np.sqrt(error), coverage)
        standing = board[name]
        found = (standing.log_likelihood, standing.crps, standing.rmse, standing.coverage_90)
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_scores_in_parts_are_those_of_the_whole(monkeypatch):
    rng = np.random.default_rng(0)
    mixture = Predictive(rng.normal(size=(5, 9, 1)), rng.uniform(0.1, 1, size=(5, 9, 1)))
    y = rng.normal(size=(9, 1))
    prediction = Prediction(mixture, Schema.numbered(1, 1))
    whole = prediction.crps(y)
    monkeypatch.setattr("mpnp.inference.prediction.PAIRS_AT_ONCE", 2 * 64**2)
    np.testing.assert_allclose(prediction.crps(y), whole, rtol=1e-12)


def test_of_those_that_may_be_first_the_stack_or_one_with_functions_is_chosen(model):
    others = {name: RivalForecaster(rival, model.card.columns) for name, rival in model.rivals.items()}

    def standing(name, behind):
        return Standing(name, -behind, 1.0, 1.0, 0.9, behind, 0.05)

    first, second, third = standing("persistence", 0.0), standing("gp", 0.03), standing("network", 0.04)
    assert choose([first, second, third], others, {}) == "gp"
    assert choose([first], others, {}) == "persistence"
    stack = standing("stack", 0.01)
    for leading in ([first, stack, second], [second, stack]):
        assert choose(leading, others, {"mean": 0.5, "gp": 0.5}) == "stack"
    assert choose([first, stack, second], others, {"mean": 0.5, "persistence": 0.5}) == "gp"


def test_stacking_finds_the_weights_of_a_mixture():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(20_000) < 0.25, rng.normal(3, 1, 20_000), rng.normal(0, 1, 20_000))
    densities = {name: -((y - mean) ** 2) / 2 for name, mean in (("zero", 0), ("three", 3), ("far", 40))}
    weights = learn_weights(densities, 64, 2_000)
    assert set(weights) == {"zero", "three"} and sum(weights.values()) == 1
    assert abs(weights["three"] - 0.25) < 0.02 and all(weight * 64 == round(weight * 64) for weight in weights.values())
    hedged = learn_weights(densities, 64, 5)  # as few tasks as these rule nothing out
    assert set(hedged) == set(densities) and abs(hedged["far"] - 1 / 33) < 1 / 64


@pytest.mark.parametrize(("told", "wanted"), [(1.0, 0.7), (0.8, 0.9), (0.6, 1.0)])
def test_the_spread_of_a_stack_corrects_mixtures_that_are_too_wide(told, wanted):
    """y = a + b + noise; of two forecasters, each knows one of a and b, and claims `told` of the spread that is left to it."""
    rng, columns = np.random.default_rng(0), Schema.numbered(1, 1)
    a, b = rng.normal(size=(2, 4_000, 1))
    y, std = a + b + 0.3 * rng.normal(size=a.shape), np.full((1, 4_000, 1), told * np.sqrt(1 + 0.3**2))
    cuts = [Cut(np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((10, 1)), part) for part in np.split(y, 400)]
    answers = {"one": Predictive(a[None], std), "other": Predictive(b[None], std)}
    stack = StackLearner(answers, columns, HeldOut(cuts, np.arange(400))).learn()
    assert abs(stack.weights["one"] - 0.5) < 0.05 and stack.spread == wanted
    stacked, plain = (
        Prediction.decode(answer, columns) for answer in (stack.mix(answers), mix([*answers.values()], [0.5] * 2))
    )
    assert stacked.crps(y).mean() <= plain.crps(y).mean()


def test_what_ignores_the_context_joins_no_stack(model):
    assert "mean" not in model.leaderboard.weights and set(model.leaderboard.weights) <= {"network", *model.rivals}
    alone = judge(days(num=10), ("mean",)).leaderboard
    assert not alone.weights and {standing.name for standing in alone.validation} == {"network", "mean"}


def test_a_mixture_has_the_moments_of_its_parts():
    rng = np.random.default_rng(0)
    few, many = (Predictive(rng.normal(size=(num, 5, 1)), np.full((num, 5, 1), 0.1)) for num in (1, 4_000))
    mixed = mix([few, many], [0.25, 0.75])
    assert len(mixed.loc) == COMPONENTS
    np.testing.assert_allclose(mix([few], [1.0]).loc.mean(axis=0), few.mean)
    assert (mixed.loc[:16] == few.loc).all() and np.isin(mixed.loc[16:], many.loc).all()


@pytest.mark.parametrize("name", ["network", "stack", "mean", "persistence", "normal", "gp"])
def test_each_forecaster_answers_as_a_posterior_does(model, name):
    posterior = model.use(name).condition(HOURS[:3], [50.0, 54.0, 55.0])
    mean, std = posterior.predict(HOURS), posterior.predict(HOURS, "std")
    assert mean.shape == (8,) and (std > 0).all()
    low, high = posterior.predict(HOURS, "quantiles", quantiles=[0.05, 0.95]).T
    assert (low < mean).all() and (mean < high).all()
    again = model.use(name).predict_tasks([(HOURS[:3], [50.0, 54.0, 55.0])], [HOURS])[0]
    np.testing.assert_allclose(again, mean, rtol=2e-2)  # a network draws other functions for one of many tasks
    if posterior.model.forecaster.has_functions:
        draws = posterior.sample(HOURS, 64, noise=True)
        assert draws.shape == (64, 8) and np.isfinite(posterior.joint_log_prob(HOURS[3:5], [59.0, 62.0]))
        assert posterior.plot(num_draws=2) is not None
    else:
        with pytest.raises(InputError, match="neither functions nor joint densities"):
            posterior.sample(HOURS, 2)
    if name != "network":
        with pytest.raises(InputError, match="no generator of functions"):
            posterior.sample(HOURS, 2, method="generate")


def test_a_stack_of_single_values_has_no_functions(model):
    content = model.leaderboard.to_json() | {"weights": {"mean": 0.5, "persistence": 0.5}}
    card = dataclasses.replace(model.card, about={**model.card.about, "leaderboard": content})
    posterior = FittedModel(model.network, card, model.rivals, "stack").condition(HOURS[:3], [50.0, 54.0, 55.0])
    assert posterior.predict(HOURS).shape == (8,)
    for ask in (lambda: posterior.sample(HOURS, 2), lambda: posterior.joint_log_prob(HOURS[3:], 50 + HOURS[3:])):
        with pytest.raises(InputError, match="this stack predicts single values only"):
            ask()


def test_functions_of_a_gaussian_rival_agree_with_its_predictions(model):
    posterior = model.use("gp").condition(HOURS[:3], [50.0, 54.0, 55.0])
    draws = posterior.sample(HOURS, 4_000, noise=True)
    np.testing.assert_allclose(draws.mean(axis=0), posterior.predict(HOURS), atol=0.3)
    np.testing.assert_allclose(draws.std(axis=0), posterior.predict(HOURS, "std"), rtol=0.1)
    joint = posterior.joint_log_prob(HOURS[3:4], [59.0])
    np.testing.assert_allclose(joint, posterior.log_prob(HOURS[3:4], [59.0])[0], rtol=1e-4)


def test_a_rival_learns_the_same_in_any_units():
    plain, other = days(), in_units(days(), x_shift=100.0, x_scale=60.0, y_shift=-30.0, y_scale=1 / 1.8)
    answers = []
    for curves, x, y in ((plain, HOURS, 50.0 + HOURS), (other, 100 + 60 * HOURS, (50.0 + HOURS) / 1.8 - 30)):
        posterior = judge(curves, ("normal", "gp")).use("gp").condition(x[:3], y[:3])
        answers.append(posterior.predict(x))
    np.testing.assert_allclose((answers[1] + 30) * 1.8, answers[0], rtol=1e-3)


def test_several_outputs_have_standings_in_standard_deviations():
    model = judge(days(outputs=2), ("mean", "persistence"))
    assert 0.7 < {standing.name: standing.rmse for standing in model.leaderboard.validation}["mean"] < 1.5
    assert model.use("persistence").condition(HOURS[:2], [[50.0, np.nan], [np.nan, 52.0]]).predict(HOURS).shape == (8, 2)


def test_rivals_are_saved_pickled_and_licensed_with_their_model(model, tmp_path):
    wanted = model.use("best").condition(HOURS[:3], [50.0, 54.0, 55.0]).predict(HOURS)
    model.save(tmp_path, licence="CC0")
    assert sorted(os.listdir(tmp_path)) == ["card.json", "model.safetensors", "rivals.safetensors"]
    for again in (load(tmp_path), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.use("best").condition(HOURS[:3], [50.0, 54.0, 55.0]).predict(HOURS), wanted)
    fitted("cnp").save(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["card.json", "model.safetensors"]


def test_rivals_of_another_model_are_refused(model, tmp_path):
    model.save(tmp_path)
    path = tmp_path / "rivals.safetensors"
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(RunError, match=r"rivals.safetensors is not the file that card.json describes"):
        load(tmp_path)
    path.unlink()
    with pytest.raises(RunError, match=r"rivals.safetensors does not exist"):
        load(tmp_path)


DAMAGE = {
    "no network": {"validation": []},
    "a best of another type": {"best": ["network"]},
    "a best that is not ranked": {"best": "boosting"},
    "an endless stack": {"weights": {"network": 1e12}},
    "a negative weight": {"weights": {"network": 1.5, "gp": -0.5}},
    "a weight without end": {"weights": {"network": float("inf")}},
    "a stack of itself": {"weights": {"stack": 1.0}},
    "weights in a list": {"weights": [1.0]},
    "a stack without spread": {"spread": 0.0},
    "no contexts": {"num_contexts": 0},
    "a reason that is no text": {"skipped": {"gp": 3}},
    "scores of digits": {"test": [{"name": "gp", **dict.fromkeys(list(vars(STANDING))[1:], 10**400)}]},
    "scores in words": {"test": [{"name": "gp", **dict.fromkeys(list(vars(STANDING))[1:], "high")}]},
    "a score too many": {"test": [{**vars(STANDING), "price": 1.0}]},
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_leaderboard_is_refused(model, damage, tmp_path):
    model.save(tmp_path)
    card = json.loads((tmp_path / "card.json").read_text())
    card["about"]["leaderboard"] |= damage
    (tmp_path / "card.json").write_text(json.dumps(card))
    with pytest.raises(RunError, match="leaderboard of the model is damaged"):
        load(tmp_path)
    answer = call("info", tmp_path)
    assert answer.code in (0, 3) and "unforeseen" not in answer.err


def test_unknown_and_unsuitable_forecasters_are_refused(model):
    with pytest.raises(InputError, match=r"unknown forecaster 'pg'. Did you mean 'gp'"):
        model.use("pg")
    with without_shape_checks(), pytest.raises(InputError, match=r"unknown forecaster '\['gp'\]'. Did you mean 'gp'"):
        model.use(["gp"])
    with pytest.raises(InputError, match="fitted without rivals"):
        fitted("cnp").use("gp")
    assert fitted("cnp").use("best").forecaster.has_functions
    wide = Curves.from_pairs([(np.random.default_rng(n).normal(size=(5, 2)), np.arange(5.0)) for n in range(30)])
    with pytest.raises(InputError, match="It was left out: it needs curves of a single numeric input"):
        judge(wide, ("mean", "normal")).use("normal")


def test_the_verdict_names_the_first_even_if_another_answers(model):
    def verdict(best, *order):
        rows = tuple(Standing(name, -gap, 1.0, 1.0, 0.9, gap, 0.05) for name, gap in order)
        weights = {"network": 0.75, "gp": 0.25} if "stack" in dict(order) else {}
        return Leaderboard(rows, (), best, weights, {}, 10).verdict()

    assert verdict("network", ("network", 0.0), ("gp", 0.2)) == "The network forecasts best, of 2 forecasters."
    assert verdict("gp", ("gp", 0.0), ("network", 0.2)) == (
        "The rival 'gp' beats the network by 0.200 ± 0.050 in log-likelihood. Predictions use 'gp' by default."
    )
    assert verdict("network", ("mean", 0.0), ("network", 0.03)) == (
        "'mean' is first, but the network, only 0.030 ± 0.050 in log-likelihood behind, which may be chance, has functions. "
        "Predictions use the network by default."
    )
    assert verdict("stack", ("network", 0.0), ("stack", 0.01), ("gp", 0.3)) == (
        "The network is first, but a stack (75% network, 25% gp), only 0.010 ± 0.050 in log-likelihood behind, which may be "
        "chance, is the safer choice. Predictions use the stack by default."
    )
    assert verdict("stack", ("stack", 0.0), ("network", 0.04), ("gp", 0.3)).startswith(
        "A stack (75% network, 25% gp) beats the network alone by 0.040 ± 0.050 in log-likelihood, which may be chance. "
    )
