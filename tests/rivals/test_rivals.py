"""Every rival: laws of the contract, and what each is known to do."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from mpnp.errors import RunError
from mpnp.io.tensors import load_named, save_named
from mpnp.rivals.base import AbstractGaussianRival, Joint, Places, Points, Unsuitable
from mpnp.rivals.gaussian_process import LearntGaussianProcess
from mpnp.rivals.mean_curve import MeanCurve
from mpnp.rivals.persistence import Persistence
from mpnp.rivals.registry import RIVALS
from mpnp.rivals.storage import load_rivals, save_rivals
from mpnp.rivals.training_covariance import TrainingCovariance

GRID = np.linspace(-2, 2, 9)


def matern_covariance(x):
    """Of a curve with an offset and a Matérn-3/2 process of length one."""
    scaled = np.sqrt(3) * np.abs(x[:, None] - x)
    return 0.5 + (1 + scaled) * np.exp(-scaled)


def some_points(num_curves=60, outputs=1, seed=0):
    """Curves on the grid around x², with noise of 0.1; outputs beyond the first are minus the first, with noise."""
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(matern_covariance(GRID) + 1e-9 * np.eye(len(GRID)))
    curves = []
    for _ in range(num_curves):
        function = GRID**2 + root @ rng.standard_normal(len(GRID))
        values = [(-1) ** number * function + 0.1 * rng.standard_normal(len(GRID)) for number in range(outputs)]
        curves.append(Points(np.tile(GRID, outputs)[:, None], np.repeat(np.arange(outputs), len(GRID)), np.concatenate(values)))
    return curves


@pytest.fixture(scope="module", params=[1, 2])
def outputs(request):
    return request.param


@pytest.fixture(scope="module")
def rivals(outputs):
    return {name: rival.learn(some_points(outputs=outputs), context="random", seed=0) for name, rival in RIVALS.items()}


def one_of_each(outputs):
    """A place of each output."""
    return Places(np.zeros((outputs, 1)), np.arange(outputs))


def score(rival, curves, size=4):
    """Mean log-likelihood, CRPS and coverage of the 90% band of what a few points leave open."""
    rng, rows = np.random.default_rng(1), []
    for curve in curves:
        order = rng.permutation(len(curve.y))
        context, target = curve.select(order[:size]), curve.select(order[size:])
        answer, y = rival.predict(context, target.places), target.y[:, None]
        rows.append([answer.log_prob(y).mean(), answer.crps(y).mean(), (np.abs(answer.cdf(y) - 0.5) <= 0.45).mean()])
    return np.mean(rows, axis=0)


@pytest.mark.parametrize("name", RIVALS)
def test_predictions_have_a_place_each_and_do_not_depend_on_the_order_of_the_context(rivals, outputs, name):
    curve = some_points(outputs=outputs, seed=7)[0]
    context, places = curve.select([1, 4, 6]), Places(np.array([[0.1], [1.0]]), np.array([0, outputs - 1]))
    answer = rivals[name].predict(context, places)
    assert answer.loc.shape == answer.scale.shape == (len(answer.loc), 2, 1) and (answer.scale > 0).all()
    again = rivals[name].predict(context.select([2, 0, 1]), places)
    np.testing.assert_allclose(again.loc, answer.loc, atol=1e-9)
    alone = rivals[name].predict(context, Places(places.x[1:], places.output[1:]))
    np.testing.assert_allclose(alone.loc[:, 0], answer.loc[:, 1], atol=1e-9)
    nothing = rivals[name].predict(context.select([]), places)
    assert np.isfinite(nothing.loc).all() and np.isfinite(nothing.scale).all()


def test_rivals_that_read_the_context_beat_the_mean_curve_and_bands_cover(rivals, outputs):
    test = some_points(40, outputs, seed=3)
    scores = {name: score(rival, test) for name, rival in rivals.items()}
    for name, (log_likelihood, crps, coverage) in scores.items():
        assert 0.8 <= coverage <= 0.99, name
        if name != "mean":
            assert log_likelihood > scores["mean"][0] and crps < scores["mean"][1], name


def test_a_stored_rival_predicts_the_same(rivals, outputs, tmp_path):
    save_rivals(tmp_path / "rivals.safetensors", rivals)
    again = load_rivals(tmp_path / "rivals.safetensors", one_of_each(outputs))
    curve = some_points(outputs=outputs, seed=7)[0]
    for name, rival in rivals.items():
        wanted = rival.predict(curve.select([0, 5]), curve.places)
        np.testing.assert_array_equal(again[name].predict(curve.select([0, 5]), curve.places).loc, wanted.loc)


def test_a_damaged_file_of_rivals_is_refused(rivals, tmp_path):
    path = tmp_path / "rivals.safetensors"
    save_rivals(path, rivals)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(RunError, match="damaged"):
        load_rivals(path, one_of_each(1))


ODD = {
    "no numbers": lambda array: np.zeros(0),
    "another shape": lambda array: np.zeros((3, 1)),
    "NaN": lambda array: np.full_like(array, np.nan, dtype=float),
    "huge": lambda array: np.full_like(array, 2**40, dtype=float),
    "words": lambda array: np.frombuffer(b"words", np.uint8),
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_arrays_that_fit_no_rival_are_refused_or_forecast(rivals, outputs, odd, tmp_path):
    """Whichever array is odd: a file that loads forecasts finite numbers with positive spread."""
    path, places = tmp_path / "rivals.safetensors", one_of_each(outputs)
    save_rivals(path, rivals)
    card, arrays = load_named(path)
    refused = 0
    for name, array in arrays.items():
        save_named(path, {**arrays, name: odd(array)}, card)
        try:
            loaded = load_rivals(path, places)
        except RunError:
            refused += 1
            continue
        for rival in loaded.values():
            with np.errstate(all="ignore"):
                answer = rival.predict(Points(*(part[:0] for part in (*places, GRID))), places)
            assert np.isfinite(answer.loc).all() and (answer.scale > 0).all()
    assert refused > 0


def test_trees_whose_children_lie_outside_are_refused(rivals, outputs, tmp_path):
    path = tmp_path / "rivals.safetensors"
    save_rivals(path, rivals)
    card, arrays = load_named(path)
    arrays["boosting.children"].flat[-1] = 10**6
    save_named(path, arrays, card)
    with pytest.raises(RunError, match="children outside the tree"):
        load_rivals(path, one_of_each(outputs))


def test_the_joint_distribution_is_the_exact_posterior_of_the_covariance():
    """Conditioning the learnt normal by hand gives what the rival says, on the grid."""
    rival = TrainingCovariance.learn(some_points(400), context="random", seed=0)
    curve, given, asked = some_points(seed=5)[0], [0, 4, 8], [2, 6]
    joint = rival.joint(curve.select(given), curve.select(asked).places)
    inner = rival.covariance[np.ix_(given, given)] * (1 + 1e-4 * np.eye(3))
    gain = np.linalg.solve(inner, rival.covariance[np.ix_(given, asked)]).T
    np.testing.assert_allclose(joint.mean, rival.mean[asked] + gain @ (curve.y[given] - rival.mean[given]), atol=1e-8)
    prior = rival.covariance[np.ix_(asked, asked)]
    np.testing.assert_allclose(joint.covariance, prior - gain @ rival.covariance[np.ix_(given, asked)], atol=1e-8)
    np.testing.assert_allclose(rival.covariance, matern_covariance(GRID) + 0.01 * np.eye(9), atol=0.25)


def test_between_cells_the_normal_interpolates():
    rival = TrainingCovariance.learn(some_points(400), context="random", seed=0)
    nothing = Points(np.zeros((0, 1)), np.zeros(0, int), np.zeros(0))
    joint = rival.joint(nothing, Places(np.array([[-2.0], [-1.75], [-1.5]]), np.zeros(3, int)))
    np.testing.assert_allclose(joint.mean[1], (joint.mean[0] + joint.mean[2]) / 2)


def test_the_learnt_process_predicts_like_the_true_one():
    """On new curves its log-likelihood is near that of the exact posterior, which knows the kernel."""
    rival, test = LearntGaussianProcess.learn(some_points(150), context="random", seed=0), some_points(40, seed=9)
    rows = []
    for curve in test:
        given, asked = [0, 3, 8], [1, 5, 7]
        inner = matern_covariance(GRID)[np.ix_(given, given)] + 0.01 * np.eye(3)
        gain = np.linalg.solve(inner, matern_covariance(GRID)[np.ix_(given, asked)]).T
        mean = GRID[asked] ** 2 + gain @ (curve.y[given] - GRID[given] ** 2)
        prior = matern_covariance(GRID)[np.ix_(asked, asked)]
        std = np.sqrt(np.diag(prior - gain @ matern_covariance(GRID)[np.ix_(given, asked)]) + 0.01)
        exact = -(((curve.y[asked] - mean) / std) ** 2) / 2 - np.log(std) - np.log(2 * np.pi) / 2
        learnt = rival.predict(curve.select(given), curve.select(asked).places).log_prob(curve.y[asked][:, None])
        rows.append([exact.mean(), learnt.mean()])
    exact, learnt = np.mean(rows, axis=0)
    assert exact - 0.12 < learnt < exact + 0.05


def test_functions_and_joint_densities_are_those_of_the_normal_distribution():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3))
    joint = Joint(np.array([1.0, 2.0, 3.0]), root @ root.T, np.full(3, 0.5))
    y = np.array([0.5, 2.5, 2.0])
    wanted = multivariate_normal(joint.mean, joint.covariance + 0.25 * np.eye(3)).logpdf(y)
    np.testing.assert_allclose(joint.log_prob(y), wanted, rtol=1e-6)
    draws = joint.functions(20_000, rng)
    np.testing.assert_allclose(np.cov(draws.loc[..., 0].T), joint.covariance, atol=0.15)
    np.testing.assert_allclose(draws.loc.mean(axis=0)[:, 0], joint.mean, atol=0.1)
    assert (draws.scale == 0.5).all()


def test_gaussian_rivals_predict_the_margins_of_their_joint_distribution(rivals, outputs):
    curve = some_points(outputs=outputs, seed=7)[0]
    for rival in rivals.values():
        if isinstance(rival, AbstractGaussianRival):
            joint, answer = (ask(curve.select([0, 5]), curve.places) for ask in (rival.joint, rival.predict))
            np.testing.assert_allclose(answer.scale[0, :, 0] ** 2, np.diag(joint.covariance) + joint.noise**2, rtol=1e-6)


def test_the_mean_curve_finds_the_mean_and_the_spread():
    rival = MeanCurve.learn(some_points(2_000), context="random", seed=0)
    mean, std = rival.moments(Places(GRID[:, None], np.zeros(9, int)))
    np.testing.assert_allclose(mean, GRID**2, atol=0.1)
    np.testing.assert_allclose(std, np.sqrt(1.51), rtol=0.06)


def test_the_mean_of_several_features_is_a_quadratic_surface():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (500, 2))
    y = 1 + x[:, 0] - 2 * x[:, 0] * x[:, 1] + 0.1 * rng.standard_normal(500)
    mean, std = MeanCurve.learn([Points(x, np.zeros(500, int), y)], context="random", seed=0).moments(
        Places(x, np.zeros(500, int))
    )
    np.testing.assert_allclose(mean, 1 + x[:, 0] - 2 * x[:, 0] * x[:, 1], atol=0.05)
    np.testing.assert_allclose(std, 0.1, rtol=0.15)


def test_persistence_repeats_a_random_walk_with_a_spread_that_grows():
    rng = np.random.default_rng(0)
    curves = [
        Points(np.arange(20.0)[:, None] / 5 - 2, np.zeros(20, int), 5 + rng.normal(0, 1, 20).cumsum()) for _ in range(300)
    ]
    rival = Persistence.learn(curves, context="prefix", seed=0)
    answer = rival.predict(curves[0].select(range(10)), curves[0].select([10, 19]).places)
    assert abs(answer.loc[0, 0, 0] - curves[0].y[9]) < 0.3 and answer.scale[0, 1, 0] > 2 * answer.scale[0, 0, 0]


@pytest.mark.parametrize(
    ("curves", "message"),
    [
        (
            [Points(np.random.default_rng(n).normal(size=(9, 1)), np.zeros(9, int), np.zeros(9)) for n in range(60)],
            "share their",
        ),
        ([Points(np.zeros((9, 2)), np.zeros(9, int), np.zeros(9))] * 9, "a single numeric input"),
        (some_points(3), "at least 5 training tasks"),
    ],
)
def test_curves_without_a_shared_grid_do_not_suit_the_normal(curves, message):
    with pytest.raises(Unsuitable, match=message):
        TrainingCovariance.learn(curves, context="random", seed=0)
