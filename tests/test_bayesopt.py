"""Bayesian optimisation: acquisitions and surrogates against oracles, and the laws of the loop."""

import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from fitted_models import fitted, some_curves
from mpnp.bayesopt import (
    FailedEvaluationWarning,
    GaussianProcess,
    Kernel,
    NeuralProcessSurrogate,
    Optimizer,
    learn_kernel,
    minimize,
)
from mpnp.bayesopt.acquisition import expected_improvement, log_expected_improvement
from mpnp.bayesopt.objectives import OBJECTIVES
from mpnp.bayesopt.standardise import OutputScale
from mpnp.bayesopt.strategies import ACQUISITIONS, ModelBased, RandomSearch
from mpnp.bayesopt.study import Study, initial_points, run_trials, simple_regret
from mpnp.errors import InputError, RunError
from mpnp.fitted import LargeContextWarning
from mpnp.tasks.families import FunctionFamily
from mpnp.tasks.gaussian_process import GaussianProcessPrior, RBFPrior

PROCESS = GaussianProcess(Kernel(amplitude=1.0, length=0.15, noise=0.02))
GRID = np.linspace(0, 1, 1_000)


@pytest.fixture(scope="module")
def network():
    """A tiny network of random weights, whose functions differ from draw to draw."""
    return fitted("mpanp")


def wave(x):
    return float(np.sin(11 * x[0]) + x[0])


def search(optimizer, f=wave, count=6):
    for _ in range(count):
        x = optimizer.ask()
        optimizer.tell(x, f(x))
    return np.stack([evaluation.x for evaluation in optimizer.evaluations])


# Objectives


@pytest.mark.parametrize(("name", "where"), [("gramacy-lee", 0.5486), ("forrester", 0.7572)])
def test_the_minima_are_those_of_the_literature(name, where):
    objective = OBJECTIVES[name]
    x, y = objective.minimum
    assert x == pytest.approx(where, abs=1e-4)
    assert y <= objective(np.linspace(objective.low, objective.high, 9_973)).min()


# Acquisitions


@pytest.mark.parametrize(("mean", "std", "best"), [(0.3, 0.5, 0.0), (-1.0, 0.2, 0.4), (2.0, 0.7, -1.5), (0.0, 1.0, 0.0)])
def test_expected_improvement_is_an_integral(mean, std, best):
    wanted, _ = quad(
        lambda y: (best - y) * norm.pdf(y, mean, std), mean - 40 * std, best, points=[mean], epsabs=1e-14, limit=400
    )
    assert expected_improvement(np.array([mean]), np.array([std]), np.array([best]))[0] == pytest.approx(wanted, rel=1e-8)


def test_the_logarithm_agrees_with_the_closed_form_where_that_can_be_computed():
    z = np.linspace(-6, 8, 400)
    wanted = norm.pdf(z) + z * norm.cdf(z)
    got = np.exp(log_expected_improvement(-z, np.ones(1), np.zeros(1)))
    np.testing.assert_allclose(got, wanted, rtol=1e-6)
    np.testing.assert_array_equal(got, expected_improvement(-z, np.ones(1), np.zeros(1)))


def test_far_from_the_best_the_logarithm_is_finite_and_still_falls_without_a_step():
    mean = np.concatenate([np.linspace(0, 300, 3_001), np.geomspace(301, 1e150, 500)])
    values = log_expected_improvement(mean, np.ones(1), np.zeros(1))
    assert np.isfinite(values).all() and (np.diff(values) < 0).all()
    # Both formulas, on either side of where one hands over to the other, follow the known limit -z²/2 - 2 log z - log √2π.
    near = mean[(mean > 90) & (mean < 110)]
    limit = -(near**2) / 2 - 2 * np.log(near) - np.log(2 * np.pi) / 2 + np.log1p(-3 / near**2)
    np.testing.assert_allclose(log_expected_improvement(near, np.ones(1), np.zeros(1)), limit, rtol=0, atol=1e-6)


def test_without_spread_the_improvement_is_certain():
    got = expected_improvement(np.array([-2.0, 1.0]), np.zeros(2), np.zeros(2))
    np.testing.assert_array_equal(got, [2.0, 0.0])


def test_outputs_are_standardised_whatever_their_size():
    y = np.array([[1.0, 2.0, 6.0]])
    for factor in (1.0, 2.0**-500, 2.0**900):
        scale = OutputScale.of(factor * y)
        np.testing.assert_array_equal(scale.apply(factor * y), OutputScale.of(y).apply(y))
        np.testing.assert_allclose(scale.undo(scale.apply(factor * y)), factor * y)
    for same in ([[5.0]], [[0.1, 0.1, 0.1]], [[0.0, 0.0]]):
        assert OutputScale.of(np.array(same)).scale[0, 0] == 1


# Surrogates


def test_the_gaussian_process_is_the_textbook_posterior():
    rng = np.random.default_rng(0)
    x, z, candidates = rng.random((3, 6, 2)), rng.normal(size=(3, 6)), rng.random((9, 2))
    means, stds = PROCESS.moments(x, z, candidates, np.arange(3))
    draws = PROCESS.draw(*(np.repeat(part[:1], 4_000, axis=0) for part in (x, z)), candidates, np.arange(4_000))

    def kernel(a, b):
        return np.array([[np.exp(-np.sum((p - q) ** 2) / (2 * 0.15**2)) for q in b] for p in a])

    for loop in range(3):
        inverse = np.linalg.inv(kernel(x[loop], x[loop]) + 0.02**2 * np.eye(6))
        cross = kernel(candidates, x[loop])
        covariance = kernel(candidates, candidates) - cross @ inverse @ cross.T
        np.testing.assert_allclose(means[loop], cross @ inverse @ z[loop], atol=1e-9)
        np.testing.assert_allclose(stds[loop], np.sqrt(np.diag(covariance)), atol=1e-7)
        if loop == 0:
            np.testing.assert_allclose(draws.mean(axis=0), means[0], atol=0.08)
            np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.08)


def test_the_kernel_that_generated_the_tasks_is_learnt_from_them():
    family = FunctionFamily(GaussianProcessPrior(RBFPrior(length=(0.4, 0.4), scale=(0.7, 0.7)), noise_std=0.05), max_points=24)
    kernel = learn_kernel(family, num_tasks=48, seed=3)
    assert kernel.amplitude == pytest.approx(0.7, rel=0.15)
    assert kernel.length == pytest.approx(0.4 / 4, rel=0.1)  # the family's box is four wide
    assert kernel.noise == pytest.approx(0.05, rel=0.15)
    assert learn_kernel(family, num_tasks=48, seed=3) == kernel


def test_answers_do_not_depend_on_what_else_is_asked_along(network):
    rng = np.random.default_rng(1)
    x, z, candidates = rng.random((3, 4, 1)), rng.normal(size=(3, 4)), np.linspace(0, 1, 5)[:, None]
    surrogate, seeds = NeuralProcessSurrogate(network, num_samples=3), np.array([5, 6, 7])
    together = surrogate.moments(x, z, candidates, seeds)
    for loop in range(3):
        alone = surrogate.moments(*(part[loop : loop + 1] for part in (x, z)), candidates, seeds[loop : loop + 1])
        for part, whole in zip(alone, together, strict=True):
            np.testing.assert_allclose(part[0], whole[loop], rtol=1e-5, atol=1e-6)
    with pytest.raises(InputError, match="got 1 contexts and 2 seeds"):
        network.predictor(3).many([network.units.context(x[0], z[0][:, None])], [candidates], seeds=[1, 2])


def test_the_network_is_asked_in_its_own_units(network):
    x, z = np.array([[[0.1], [0.4], [0.9]]]), np.array([[-1.0, 0.2, 1.1]])
    candidates = np.linspace(0, 1, 5)[:, None]
    surrogate = NeuralProcessSurrogate(network, num_samples=3)
    mean, std = surrogate.moments(x, z, candidates, np.array([7]))
    card, units = network.card, network.units
    low, high = card.seen.low, card.seen.high
    context = units.context(low + x[0] * (high - low), card.normaliser.y.undo(z[0][:, None]))
    wanted = network.predictor(3)(context, units.targets(low + candidates * (high - low)), seed=7)
    np.testing.assert_allclose(mean[0], wanted.mean[:, 0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(std[0], wanted.std[:, 0], rtol=1e-4, atol=1e-5)


def test_a_function_drawn_is_one_of_the_network_and_its_seed_decides(network):
    x, z, candidates = np.array([[[0.1], [0.9]]] * 2), np.array([[-1.0, 1.0]] * 2), np.linspace(0, 1, 5)[:, None]
    surrogate = NeuralProcessSurrogate(network, num_samples=3)
    first, second = surrogate.draw(x, z, candidates, np.array([1, 2]))
    again, other = surrogate.draw(x, z, candidates, np.array([2, 1]))
    np.testing.assert_array_equal([first, second], [other, again])
    assert np.abs(first - second).max() > 1e-3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Optimizer(fitted("cnp", some_curves(inputs=2)), (0, 1)), "bounds are of 1 inputs, but the model reads 2"),
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


def test_more_points_than_training_showed_are_warned_of(network):
    optimizer = Optimizer(network, (0, 1))
    for x in np.linspace(0, 1, 11):
        optimizer.tell(x, x)
    with pytest.warns(LargeContextWarning, match="more points than the 10"):
        optimizer.ask()


# The loop


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
def test_a_failed_evaluation_changes_nothing_but_that_it_is_not_repeated(failure):
    one, other = (Optimizer(PROCESS, (0, 1), seed=2) for _ in range(2))
    for optimizer in (one, other):
        for x in (0.1, 0.5, 0.8):
            optimizer.tell(x, wave([x]))
    wanted = one.ask()
    other.tell(0.31234, failure)
    np.testing.assert_array_equal(other.ask(), wanted)  # the failure is not on the grid, so it is in nobody's way
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
    optimizer = Optimizer(PROCESS, (0, 1), num_initial=2)
    for x in (0.2, 0.7):
        optimizer.tell(x, wave([x]))
    assert optimizer.ask()[0] in GRID


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((1, 0), "the lower bound must be below the upper"),
        ((1, 1), "the lower bound must be below the upper"),
        ([(0, 1), (3, 2)], "those of input 1 are 3 and 2"),
        ((0, np.inf), "must be finite"),
        ((np.nan, 1), "must be finite"),
        ((-1.7e308, 1.7e308), "must be finite"),
        ((1e9, 1e9 + 0.1), "too close"),
        ((0, 1, 2), "pair"),
        ([], "pair"),
        ([(0, 1), (2,)], "pair"),
        ("ab", "pair"),
        (("0", "1"), "pair"),
        (None, "pair"),
    ],
)
def test_bounds_that_make_no_box_are_refused(bounds, message):
    with pytest.raises(InputError, match=message):
        Optimizer("random", bounds)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([0.5], 1.0, "a point must be 2 numbers, one an input, got 1"),
        ([0.5, 0.5, 0.5], 1.0, "got 3"),
        ([0.5, 1.5], 1.0, "input 1 of the point is 1.5, outside its bounds 0 to 1"),
        ([0.5, np.nan], 1.0, "outside"),
        (["a", "b"], 1.0, "a point must be 2 numbers"),
        (None, 1.0, "a point must be 2 numbers"),
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
    code = "import sys, mpnp.bayesopt, mpnp.bayesopt.study; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0


# The study


def test_searches_start_at_regret_one_and_never_get_worse():
    y = np.array([[3.0, 2.0, 4.0, 2.5, 1.0, 0.0, 5.0]])
    np.testing.assert_array_equal(simple_regret(y, 0.0, 3), [[1, 1, 0.5, 0, 0]])
    for objective in OBJECTIVES:
        study = Study(objective, num_trials=7, num_iterations=9)
        trials = run_trials(study, RandomSearch())
        regret = simple_regret(trials.y, OBJECTIVES[objective].minimum[1], 3)
        assert regret.shape == (7, 10) and (regret[:, 0] == 1).all() and (np.diff(regret) <= 0).all() and (regret >= 0).all()
        assert trials.x.shape == (7, 12) and all(len(set(row)) == 12 for row in trials.x.tolist())


def test_all_strategies_start_alike_and_a_small_study_is_the_beginning_of_a_large_one():
    few, many = (Study("forrester", num_trials=count, num_iterations=2) for count in (3, 5))
    np.testing.assert_array_equal(initial_points(few), initial_points(many)[:3])
    for strategy in (RandomSearch(), ModelBased(PROCESS)):
        np.testing.assert_array_equal(run_trials(few, strategy).x, run_trials(many, strategy).x[:3])
    assert not np.array_equal(initial_points(few), initial_points(Study("forrester", num_trials=3, seed=1)))


@pytest.mark.parametrize("acquisition", ACQUISITIONS)
@pytest.mark.parametrize("model", ["network", "process"])
def test_searches_in_lockstep_are_the_searches_of_the_loop(network, model, acquisition):
    surrogate = PROCESS if model == "process" else NeuralProcessSurrogate(network, num_samples=3)
    study, objective = Study("gramacy-lee", acquisition, num_trials=3, num_iterations=5), OBJECTIVES["gramacy-lee"]
    trials = run_trials(study, ModelBased(surrogate, acquisition))
    for trial, first in enumerate(initial_points(study)):
        seed = study.trial_seed(trial)
        optimizer = Optimizer(surrogate, (objective.low, objective.high), acquisition=acquisition, seed=seed)
        for x in objective.place(first)[:, None]:
            optimizer.tell(x, objective(x))
        got = search(optimizer, lambda x: objective(x), count=5)
        np.testing.assert_allclose(got[:, 0], objective.place(trials.x[trial]), atol=1e-12)


def test_the_best_predicted_solutions_are_those_of_lowest_mean():
    study = Study("forrester", num_trials=2, num_iterations=6)
    trials = run_trials(study, ModelBased(PROCESS))
    assert [moment["after"] for moment in trials.predicted] == [0, 5, 6]
    last, scale = trials.predicted[-1], OutputScale.of(trials.y[:1])
    mean, _ = PROCESS.moments(trials.x[:1, :, None], scale.apply(trials.y[:1]), GRID[:, None], np.zeros(1, int))
    np.testing.assert_allclose(last["mean"], np.sort(scale.undo(mean)[0])[:10], rtol=1e-5)
    assert len(last["x"]) == 10 and len(last["observed_x"]) == 9
    assert run_trials(study, RandomSearch()).predicted == []
