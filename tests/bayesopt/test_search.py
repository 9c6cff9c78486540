"""Searches of the default model: they converge, avoid failures, batch, stop standing still, and survive being killed."""

import inspect
import logging
import warnings

import numpy as np
import pytest

from helpers.bayesopt import PROCESS, wave
from mpnp.bayesopt import AutoSearch, NeuralProcessSurrogate, Optimizer, StalledSearchWarning, maximize, minimize
from mpnp.bayesopt.feasibility import admits
from mpnp.bayesopt.history import History
from mpnp.errors import InputError


def bowl(x):
    return float((3 * (np.asarray(x) - 0.37) ** 2).sum())


def test_several_inputs_are_searched_to_a_precision_beyond_any_grid():
    assert minimize(bowl, [(0, 1)] * 3, model="gp", num_iterations=20).y < 1e-4


def test_a_minimum_in_a_long_valley_is_approached_through_a_logarithm():
    def rosenbrock(x):
        return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2

    assert minimize(rosenbrock, [(-5, 10)] * 2, num_iterations=25).y < 10  # of a range of a million


def test_to_maximise_is_to_minimise_the_negative():
    up, down = maximize(lambda x: -bowl(x), [(0, 1)] * 2, num_iterations=3), minimize(bowl, [(0, 1)] * 2, num_iterations=3)
    np.testing.assert_array_equal(up.inputs, down.inputs)
    np.testing.assert_array_equal(up.outputs, -down.outputs)
    assert up.y == -down.y


@pytest.mark.parametrize("acquisition", ["expected-improvement", "thompson"])
def test_a_batch_is_told_at_once_and_its_points_differ(acquisition):
    optimizer = Optimizer("gp", [(0, 1)] * 2, acquisition=acquisition)
    for _ in range(3):
        batch = optimizer.ask(np.int64(4))
        assert batch.shape == (4, 2) and len(optimizer.pending) == 4
        apart = np.abs(batch[:, None] - batch[None]).max(axis=-1)[~np.eye(4, dtype=bool)]
        assert apart.min() > 0.005
        optimizer.tell(batch, [bowl(x) for x in batch])
    assert not optimizer.pending and len(optimizer.evaluations) == 12 and optimizer.best.y < 0.02


def test_points_of_one_input_can_be_told_as_a_list():
    optimizer = Optimizer("gp", (0, 1))
    optimizer.tell([0.1, 0.5, 0.9], [1.0, None, 3.0])
    assert [evaluation.x.tolist() for evaluation in optimizer.evaluations] == [[0.1], [0.5], [0.9]]
    for x, y in (([0.1, 0.2], [1.0]), ([0.1, 0.2], 3.0)):
        with pytest.raises(InputError, match="several points need one output each"):
            optimizer.tell(x, y)


@pytest.mark.parametrize("model", ["gp", "auto"])
def test_a_search_killed_at_any_moment_asks_the_same_next_question(tmp_path, model, network):
    def make():
        return AutoSearch(model=NeuralProcessSurrogate(network, num_samples=2)) if model == "auto" else "gp"

    optimizer, path = Optimizer(make(), (0, 1), seed=3), tmp_path / "search.json"
    for number in range(7):
        optimizer.save(path)
        restored = Optimizer.restore(path, make())
        x = optimizer.ask()
        np.testing.assert_array_equal(restored.ask(), x)
        optimizer.save(path)
        assert [p.tolist() for p in Optimizer.restore(path, make()).pending] == [p.tolist() for p in optimizer.pending]
        optimizer.tell(x, None if number == 4 else wave(x))


def test_a_search_killed_amid_a_batch_asks_the_same_next_questions(tmp_path):
    optimizer, path = Optimizer("gp", [(0, 1)] * 2, seed=3), tmp_path / "search.json"
    for answered in (4, 3, 2):
        batch = optimizer.ask(4)
        optimizer.tell(batch[:answered], [bowl(x) for x in batch[:answered]])  # the others are still being evaluated
        optimizer.save(path)
        np.testing.assert_array_equal(Optimizer.restore(path, "gp").ask(2), optimizer.ask(2))


def test_regions_of_failures_are_avoided():
    def fragile(x):
        return None if x[0] + x[1] > 1 else -x[0] - 0.5 * x[1]  # the best values are beside the failures

    optimizer, failed = Optimizer("gp", [(0, 1)] * 2, seed=1), []
    for _ in range(20):
        x = optimizer.ask()
        failed.append(fragile(x) is None)
        optimizer.tell(x, fragile(x))
    runs = "".join("f" if one else " " for one in failed).split()
    assert max(map(len, runs)) <= 5 and sum(failed) <= 12
    assert optimizer.best.y < -0.85


def test_a_search_learns_which_half_of_the_box_fails():
    optimizer, num_failed = Optimizer("gp", [(0, 1)] * 2, seed=1), 0
    for _ in range(20):
        x = optimizer.ask()
        failed = x[0] > 0.5
        num_failed += failed
        optimizer.tell(x, None if failed else (x[0] - 0.3) ** 2 + (x[1] - 0.6) ** 2)
    assert num_failed <= 7 and optimizer.best.y < 1e-5


def test_failures_that_come_at_random_exclude_little():
    rng = np.random.default_rng(0)
    points = rng.random((40, 2))
    failed = rng.random(40) < 0.2
    assert admits(rng.random((500, 2)), points[~failed], points[failed]).mean() > 0.7
    left = points[:, 0] < 0.4
    inside = admits(np.array([[0.1, 0.5], [0.9, 0.5]]), points[~left], points[left])
    assert inside.tolist() == [False, True]


def test_noise_does_not_make_a_lucky_outlier_the_best():
    rng = np.random.default_rng(0)
    optimizer = Optimizer("gp", (0, 1))
    x = np.linspace(0, 1, 21)
    y = 4 * (x - 0.3) ** 2 + rng.normal(0, 0.1, 21)
    y[18] = y.min() - 0.05  # at 0.9, where the function is 1.44
    optimizer.tell(x, y)
    assert abs(optimizer.best.x[0] - 0.3) < 0.15


def test_a_crowded_place_teaches_nothing_more():
    crowd = np.array([[0.5], [0.5002], [0.4999]])
    history = History(crowd, np.zeros(3), np.zeros((0, 1)), np.zeros((0, 1)))
    assert history.uncrowded(np.array([[0.5001], [0.6]])).tolist() == [False, True]
    pending = History(crowd, np.zeros(3), np.array([[0.2]]), np.zeros((0, 1)))
    assert pending.admissible(np.array([[0.205], [0.25]])).tolist() == [False, True]


def test_a_search_that_stands_still_is_warned_about():
    optimizer = Optimizer("random", (0, 1))
    with pytest.warns(StalledSearchWarning, match="the latest 12 evaluations lie within a thousandth of the box"):
        optimizer.tell(np.linspace(0.5, 0.5001, 12), np.zeros(12))


def test_no_search_of_the_default_stands_still_where_nothing_is_left_to_gain():
    with warnings.catch_warnings(action="error"):
        result = minimize(lambda x: bowl(x), (0, 1), model="gp", num_iterations=16)
    assert np.ptp(result.inputs[-6:]) > 0.05


def test_a_learnt_model_hands_over_once_it_predicts_worse_and_says_so(network, caplog):
    optimizer = Optimizer(AutoSearch(model=network), (0, 1), seed=0)  # its weights are random, so it predicts nothing
    with caplog.at_level(logging.INFO, logger="mpnp.bayesopt.auto"):
        for _ in range(9):
            x = optimizer.ask()
            optimizer.tell(x, wave(x))
    assert "the Gaussian process, because it predicted evaluations" in optimizer.explanation
    assert len(caplog.messages) == 2 and "better than the learnt model" in caplog.messages[-1]
    plain = Optimizer("gp", (0, 1), seed=0)
    plain.tell([evaluation.x[0] for evaluation in optimizer.evaluations], [e.y for e in optimizer.evaluations])
    plain._num_asked = optimizer._num_asked
    np.testing.assert_array_equal(optimizer.ask(), plain.ask())


def test_without_a_learnt_model_of_as_many_inputs_the_process_searches_at_once(network):
    optimizer = Optimizer("auto", [(0, 1)] * 2, num_initial=1)
    optimizer.tell([0.5, 0.5], 1.0)
    optimizer.ask()
    assert optimizer.explanation.endswith("because no learnt model has 2 inputs")
    with pytest.raises(InputError, match="the bounds have 2 inputs, but the model reads 1"):
        Optimizer(AutoSearch(model=network), [(0, 1)] * 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Optimizer("gp"), "bounds must be a pair"),
        (lambda: Optimizer(["gp"], (0, 1)), "model must be"),
        (lambda: inspect.unwrap(minimize)(3, (0, 1)), "the objective must be a function, got 3"),
        (lambda: inspect.unwrap(maximize)(None, (0, 1)), "the objective must be a function, got None"),
        (lambda: inspect.unwrap(minimize)(wave, (0, 1), callback=3), "callback must be a function, got 3"),
        (lambda: Optimizer("gp", (0, 1)).ask(0), "n must be a whole number"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_numbers_of_numpy_are_numbers(tmp_path):
    optimizer = Optimizer("gp", np.array([[0, 1]]), num_initial=np.int64(2), seed=np.int64(5))
    optimizer.tell(np.float32(0.5), np.int64(3))
    optimizer.save(tmp_path / "search.json")
    assert Optimizer.restore(tmp_path / "search.json", "gp").num_initial == 2


def test_a_surrogate_in_the_place_of_a_model_may_be_handed_over_too():
    optimizer = Optimizer(AutoSearch(model=PROCESS), (0, 1))
    for _ in range(6):
        x = optimizer.ask()
        optimizer.tell(x, wave(x))
    assert optimizer.best is not None
