"""The loop: it finds minima, repeats itself, survives a restart, and refuses what makes no sense."""

import json
import subprocess
import sys
import warnings

import numpy as np
import pytest

from helpers.bayesopt import GRID, PROCESS, search, wave
from helpers.fitted_models import fitted, some_curves
from mpnp.bayesopt import FailedEvaluationWarning, GaussianProcess, Kernel, NeuralProcessSurrogate, Optimizer, minimize
from mpnp.bayesopt.acquisition import ACQUISITIONS
from mpnp.errors import InputError, RunError


@pytest.mark.parametrize("acquisition", ACQUISITIONS)
def test_a_quadratic_is_minimised(acquisition):
    result = minimize(lambda x: (x - 3) ** 2 + 5, (0, 10), model=PROCESS, num_iterations=15, acquisition=acquisition)
    assert result.x[0] == pytest.approx(3, abs=0.15) and result.y == pytest.approx(5, abs=0.03)
    assert result.inputs.shape == (18, 1) and result.y == result.outputs.min()


def test_a_quadratic_of_two_inputs_is_minimised():
    process = GaussianProcess(Kernel(amplitude=1.0, length=0.4, noise=0.02))
    result = minimize(lambda x: (x[0] - 3) ** 2 + (x[1] + 1) ** 2, [(0, 10), (-2, 0)], model=process, num_iterations=15)
    assert result.y < 0.1  # of a range of 50


@pytest.mark.parametrize("acquisition", ACQUISITIONS)
def test_a_network_searches_the_same_way_every_time_and_in_any_units(network, acquisition):
    def path(shift, scale):
        optimizer = Optimizer(NeuralProcessSurrogate(network, num_samples=3), (0, 1), acquisition=acquisition, seed=4)
        # Outputs of few binary digits, so that powers of two change no bit of them.
        return search(optimizer, lambda x: shift + scale * round(wave(x) * 64) / 64)

    first = path(0, 1)
    assert first.shape == (6, 1) and (first >= 0).all() and (first <= 1).all() and len(np.unique(first)) == 6
    for shift, scale in ((0, 1), (0, 2.0**30), (0, 2.0**-30), (16, 1), (-1024, 4)):
        np.testing.assert_array_equal(path(shift, scale), first)


def test_inputs_in_other_units_are_searched_alike():
    one = search(Optimizer(PROCESS, (0, 1)), lambda x: wave(x))
    other = search(Optimizer(PROCESS, (-8, 8)), lambda x: wave((x + 8) / 16))
    np.testing.assert_allclose((other + 8) / 16, one, atol=1e-12)


@pytest.mark.parametrize(
    ("acquisition", "bounds"), [*((name, (0, 1)) for name in ACQUISITIONS), ("expected-improvement", [(0, 3), (-1, 1)])]
)
def test_what_was_saved_continues_as_if_nothing_had_happened(tmp_path, acquisition, bounds):
    path = tmp_path / "loop.json"
    optimizer = Optimizer(PROCESS, bounds, acquisition=acquisition, num_initial=2, seed=9)
    search(optimizer, count=3)
    optimizer.tell(optimizer.ask(), None)
    optimizer.ask()  # and is not told
    optimizer.save(path)
    restored = Optimizer.restore(path, PROCESS)
    for _ in range(3):
        x = optimizer.ask()
        np.testing.assert_array_equal(restored.ask(), x)
        for loop in (optimizer, restored):
            loop.tell(x, wave(x))
    assert restored.best.y == optimizer.best.y and len(restored.pending) == 1


def test_a_file_of_an_earlier_version_continues(tmp_path):
    path = tmp_path / "loop.json"
    state = {"bounds": [[0.0, 1.0]], "acquisition": "expected-improvement", "num_initial": 3, "seed": 0, "num_asked": 2}
    state |= {"pending": [[0.25]], "evaluations": [[[0.5], 1.0], [[0.75], None]]}
    path.write_text(json.dumps({"format": "mpnp-bayesopt", "version": 1, **state}))
    restored = Optimizer.restore(path, PROCESS)
    assert (len(restored.evaluations), len(restored.pending), restored.best.y) == (2, 1, 1.0)
    restored.save(path)
    assert state.items() <= json.loads(path.read_text()).items()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "was not written by Optimizer.save"),
        ('{"format": "mpnp-bayesopt", "version": 9}', "format version 9"),
        ('{"format": "mpnp-bayesopt", "version": 1}', "lacks 'acquisition'"),
        ("{", "not valid JSON"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, content, message):
    (tmp_path / "loop.json").write_text(content)
    with pytest.raises(RunError, match=message):
        Optimizer.restore(tmp_path / "loop.json", "random")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"evaluations": [[[7.0], 1.0]]}, r"damaged.*outside its bounds"),
        ({"bounds": [[1, 0]]}, r"damaged.*bound"),
        ({"bounds": None}, r"damaged.*bound"),
        ({"bounds": [[0, 10**400]]}, r"damaged.*bound"),
        ({"acquisition": "magic"}, r"damaged.*unknown acquisition 'magic'"),
        ({"acquisition": ["thompson"]}, r"damaged"),
        ({"num_initial": 0}, r"damaged.*num_initial must be a whole number of at least 1, got 0"),
        ({"num_initial": "3"}, r"damaged.*num_initial"),
        ({"seed": 1.5}, r"damaged.*seed must be a whole number, got 1.5"),
        ({"seed": -1}, r"damaged.*seed"),
        ({"num_asked": 10**9}, r"damaged.*num_asked is 1000000000, more than"),
        ({"num_asked": -1}, r"damaged.*num_asked"),
        ({"num_asked": None}, r"damaged.*num_asked"),
        ({"num_asked": 0, "pending": [[0.2]]}, r"damaged.*num_asked must be a whole number of at least 1"),
        ({"pending": [[7.0]], "num_asked": 1}, r"damaged.*outside its bounds"),
        ({"pending": 3}, r"damaged"),
        ({"evaluations": [[0.5]]}, r"damaged"),
        ({"evaluations": [[[0.5], "low"]]}, r"damaged.*an output must be one number"),
        ({"evaluations": [[[0.5], 10**400]]}, r"damaged.*an output must be one number"),
        ({"evaluations": {"a": 1}}, r"damaged"),
    ],
)
def test_what_cannot_be_read_back_is_named(tmp_path, damage, message):
    path = tmp_path / "loop.json"
    optimizer = Optimizer("random", (0, 1))
    optimizer.tell(0.5, 1.0)
    optimizer.save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | damage))
    with pytest.raises(RunError, match=message):
        Optimizer.restore(path, "random")


def test_another_model_than_the_saved_one_is_warned_about(tmp_path):
    path = tmp_path / "loop.json"
    Optimizer(PROCESS, (0, 1)).save(path)
    with pytest.warns(UserWarning, match="saved with another model"):
        Optimizer.restore(path, "random")
    content = json.loads(path.read_text())
    del content["strategy"]  # as earlier versions wrote it
    path.write_text(json.dumps(content))
    with warnings.catch_warnings(action="error"):
        Optimizer.restore(path, "random")


@pytest.mark.parametrize("bounds", [(2, 3), [(0, 1), (5, 6)]])
def test_several_questions_before_an_answer_lead_to_several_places(bounds):
    optimizer = Optimizer(PROCESS, bounds)
    points = [optimizer.ask() for _ in range(5)]  # of nothing, all are initial
    for point in points:
        optimizer.tell(point, wave(point))
    points += [optimizer.ask() for _ in range(5)]
    assert len({tuple(point) for point in points}) == 10 and len(optimizer.pending) == 5
    asked = np.stack(points[5:])
    apart = np.abs(asked[:, None] - asked[None]).max(axis=-1)[~np.eye(5, dtype=bool)]
    assert apart.min() > 0.01
    for point in points[5:]:
        optimizer.tell(point, wave(point))
    assert not optimizer.pending


def test_no_point_is_asked_twice_even_when_the_grid_is_exhausted():
    optimizer = Optimizer("random", (0, 1), num_initial=1)
    for x in GRID:
        optimizer.tell(x, x)
    fresh = [optimizer.ask()[0] for _ in range(4)]
    assert len(set(fresh)) == 4 and not set(fresh) & set(GRID)


@pytest.mark.parametrize("failure", [None, np.nan, np.inf, -np.inf])
def test_a_failed_evaluation_far_away_changes_nothing(failure):
    one, other = (Optimizer(PROCESS, (0, 1), seed=2) for _ in range(2))
    for optimizer in (one, other):
        for x in (0.1, 0.5, 0.8):
            optimizer.tell(x, wave([x]))
    wanted = one.ask()
    other.tell(0.95, failure)
    np.testing.assert_array_equal(other.ask(), wanted)  # the failure is far away, so it is in nobody's way
    other.tell(wanted, failure)
    assert other.best.y == one.best.y and not other.pending
    assert other.ask() != wanted


def test_while_all_evaluations_fail_the_sequence_goes_on():
    optimizer = Optimizer(PROCESS, (0, 1))
    points = []
    for _ in range(9):
        points.append(float(optimizer.ask()[0]))
        optimizer.tell(points[-1], None)
    assert optimizer.best is None and len(set(points)) == 9
    assert np.histogram(points, bins=4, range=(0, 1))[0].min() >= 2  # as even as Sobol points are


def test_the_same_point_may_be_told_again_and_counts_again():
    optimizer = Optimizer(PROCESS, (0, 1))
    for y in (1.0, 1.2, 0.8):
        optimizer.tell(0.3, y)
    optimizer.tell([0.9], np.array([0.5]))
    assert len(optimizer.evaluations) == 4 and optimizer.best.x.tolist() == [0.9]
    assert optimizer.ask()[0] not in (0.3, 0.9)


def test_points_that_were_told_spare_the_initial_ones():
    sobol, acquired = (Optimizer(PROCESS, (0, 1), num_initial=count) for count in (3, 2))
    for optimizer in (sobol, acquired):
        optimizer.tell([0.2, 0.7], [wave([0.2]), wave([0.7])])
    assert sobol.ask()[0] == Optimizer("random", (0, 1)).ask()[0] != acquired.ask()[0]


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([0.5], 1.0, "a point must have 2 numbers, one per input; got 1"),
        ([0.5, 0.5, 0.5], 1.0, "got 3"),
        ([0.5, 1.5], 1.0, "input 1 of the point is 1.5, outside its bounds 0 to 1"),
        ([0.5, np.nan], 1.0, "outside"),
        (["a", "b"], 1.0, "a point must have 2 numbers"),
        (None, 1.0, "a point must have 2 numbers"),
        ([0.5, 0.5], "low", "an output must be one number"),
        ([0.5, 0.5], [1.0, 2.0], "an output must be one number"),
        ([0.5, 0.5], [1.0, [2.0]], "an output must be one number"),
        ([0.5, 0.5], 1j, "an output must be one number"),
    ],
)
def test_answers_that_make_no_sense_are_refused(x, y, message):
    optimizer = Optimizer("random", [(0, 1), (0, 1)])
    with pytest.raises(InputError, match=message):
        optimizer.tell(x, y)
    assert not optimizer.evaluations


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Optimizer(fitted("cnp", some_curves(inputs=2)), (0, 1)), "bounds have 1 inputs, but the model reads 2"),
        (lambda: NeuralProcessSurrogate(fitted("cnp", some_curves(outputs=2))), "this model predicts 2"),
        (lambda: Optimizer(3.5, (0, 1)), "model must be a loaded model"),
        (lambda: Optimizer("random", (0, 1), acquisition="improvement"), "Did you mean 'expected-improvement'"),
        (lambda: Optimizer("random", (0, 1), num_initial=0), "num_initial must be"),
        (lambda: Optimizer("random", (0, 1), seed=-1), "seed must lie"),
        (lambda: Kernel(1.0, 0.0, 0.1), "length must be a positive number"),
        (lambda: minimize(wave, (0, 1), model="random", num_iterations=-1), "num_iterations"),
    ],
)
def test_what_cannot_search_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_an_objective_that_raises_is_warned_about_and_left_out(tmp_path):
    def fragile(x):
        if x[0] > 0.6:
            raise ZeroDivisionError("the reactor is out of order")
        return wave(x)

    saved = []
    with pytest.warns(FailedEvaluationWarning, match="ZeroDivisionError: the reactor is out of order"):
        result = minimize(fragile, (0, 1), model=PROCESS, num_iterations=10, callback=lambda loop: saved.append(loop.best))
    assert np.isnan(result.outputs).any() and result.x[0] <= 0.6 and len(saved) == 13
    np.testing.assert_array_equal(np.isnan(result.outputs), result.inputs[:, 0] > 0.6)


def test_an_objective_that_always_fails_has_no_minimum():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FailedEvaluationWarning)
        with pytest.raises(InputError, match="all 5 evaluations failed"):
            minimize(lambda x: 1 / 0, (0, 1), model="random", num_iterations=2)


def test_the_loop_needs_no_pictures():
    code = "import sys, mpnp.bayesopt, mpnp.bayesopt.benchmark; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0
