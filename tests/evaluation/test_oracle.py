"""The oracle is the exact posterior, and models are scored on the very tasks it is scored on."""

import functools
from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from tinygp.kernels import Kernel

from helpers.models import CONTEXT, NUM_SLOTS, TARGET, slot_mask, small_model
from mpnp import Predictive, Task
from mpnp.evaluation import scoring
from mpnp.evaluation.metrics import COVERAGE_LEVELS, score_task
from mpnp.evaluation.oracle import exact_joint_log_prob, exact_posterior, has_oracle, oracle_scores
from mpnp.tasks.base import TEST_SEED, fixed_tasks
from mpnp.tasks.gaussian_process import Matern52Prior, PeriodicPrior, RBFPrior
from mpnp.tasks.registry import TASKS

NOISE_STD = 0.02
NOWHERE = np.array([], int)
SOURCE = fixed_tasks(TASKS["rbf"].family, TEST_SEED)
NUM_TASKS = 500


@pytest.fixture(params=[RBFPrior(), Matern52Prior(), PeriodicPrior()], ids=["rbf", "matern", "periodic"])
def kernel(request: pytest.FixtureRequest) -> Iterator[Kernel]:
    """A kernel drawn in double precision, for a test that stays there."""
    with jax.enable_x64(True):
        yield request.param(jax.random.key(0))


def scattered_task(context: np.ndarray = CONTEXT, target: np.ndarray = TARGET) -> Task:
    """Points in scattered slots, with junk between them."""
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-1, 1, (NUM_SLOTS, 1)), rng.normal(size=(NUM_SLOTS, 1))
    empty = np.setdiff1d(np.arange(NUM_SLOTS), np.concatenate([context, target]))
    x[empty], y[empty] = np.nan, np.inf
    return Task(jnp.asarray(x), jnp.asarray(y), slot_mask(context), slot_mask(target))


def dense_posterior(kernel: Kernel, context: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of noisy outputs at the target, by inverting the covariance of the context's points alone."""
    task = scattered_task()
    covariance = np.asarray(kernel(task.x, task.x)) + NOISE_STD**2 * np.eye(NUM_SLOTS)
    gain = covariance[np.ix_(target, context)] @ np.linalg.inv(covariance[np.ix_(context, context)])
    mean = gain @ np.asarray(task.y)[context, 0]
    return mean, covariance[np.ix_(target, target)] - gain @ covariance[np.ix_(context, target)]


@pytest.mark.parametrize("context", [CONTEXT, NOWHERE], ids=["context", "no context"])
def test_the_posterior_is_the_closed_form_of_the_points_alone(kernel, context):
    posterior = exact_posterior(kernel, NOISE_STD, scattered_task(context))
    mean, covariance = dense_posterior(kernel, context, TARGET)
    assert posterior.loc.shape == posterior.scale.shape == (1, NUM_SLOTS, 1)
    np.testing.assert_allclose(posterior.mean[TARGET, 0], mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(posterior.std[TARGET, 0], np.sqrt(np.diag(covariance)), rtol=1e-7)


@pytest.mark.parametrize("context", [CONTEXT, NOWHERE], ids=["context", "no context"])
def test_the_joint_density_is_the_closed_form_of_the_points_alone(kernel, context):
    task = scattered_task(context)
    wanted = stats.multivariate_normal(*dense_posterior(kernel, context, TARGET)).logpdf(np.asarray(task.y)[TARGET, 0])
    np.testing.assert_allclose(exact_joint_log_prob(kernel, NOISE_STD, task), wanted, rtol=1e-7)


def test_without_context_the_posterior_is_the_prior(kernel):
    posterior = exact_posterior(kernel, NOISE_STD, scattered_task(NOWHERE))
    scale = np.sqrt(np.asarray(kernel.kernel1.value) + NOISE_STD**2)
    assert not np.any(posterior.mean)
    np.testing.assert_allclose(posterior.std, np.full((NUM_SLOTS, 1), scale), rtol=1e-9)


def test_the_joint_density_is_the_product_of_one_step_predictions(kernel):
    task = scattered_task()
    total = 0.0
    for step, point in enumerate(TARGET):
        seen = slot_mask(np.concatenate([CONTEXT, TARGET[:step]]))
        prediction = exact_posterior(kernel, NOISE_STD, Task(task.x, task.y, seen, task.target_mask))
        total += prediction.log_prob(task.y)[point]
    np.testing.assert_allclose(exact_joint_log_prob(kernel, NOISE_STD, task), total, rtol=1e-7)


def test_the_joint_density_of_no_target_is_one(kernel):
    assert exact_joint_log_prob(kernel, NOISE_STD, scattered_task(target=NOWHERE)) == 0


@pytest.mark.parametrize("name", TASKS)
def test_there_is_an_oracle_wherever_the_posterior_is_gaussian(name):
    assert has_oracle(TASKS[name].family) == (name not in ("t-noise", "curves", "surfaces", "predation", "predation-targets"))


@functools.cache
def scores_of_the_oracle(sigma_min: float) -> dict[str, np.ndarray]:
    return oracle_scores(SOURCE, np.arange(NUM_TASKS), sigma_min=sigma_min)


def assert_begins(whole: dict[str, np.ndarray], part: dict[str, np.ndarray], **tolerance: float) -> None:
    """The scores of the first tasks are the first of the scores."""
    assert part.keys() == whole.keys()
    for name, values in part.items():
        np.testing.assert_allclose(values, whole[name][: len(values)], err_msg=name, **tolerance)


@functools.cache
def scored_tasks() -> Task:
    return eqx.filter_jit(SOURCE.batch)(jnp.arange(NUM_TASKS))


@pytest.mark.parametrize("level", COVERAGE_LEVELS)
def test_the_oracle_covers_as_often_as_it_says(level):
    covered = scores_of_the_oracle(0.0)[f"coverage_{level}"]
    assert np.abs(covered.mean() - level / 100) < max(4 * stats.sem(covered), 0.01)


def test_the_oracles_target_score_with_the_models_floor_is_the_known_one():
    assert np.abs(scores_of_the_oracle(0.1)["target"].mean() - 0.96) < 0.15


@pytest.mark.parametrize("sigma_min", [0.0, 0.1])
def test_the_oracle_beats_every_constant_prediction(sigma_min):
    tasks = scored_tasks()

    def constant(std):
        predictive = Predictive(jnp.zeros((1, 50, 1)), jnp.full((1, 50, 1), std))
        return jax.vmap(lambda task: score_task(predictive, task)["target"])(tasks).mean()

    best = jax.jit(jax.vmap(constant))(jnp.geomspace(0.1, 2.0, 20)).max()
    assert scores_of_the_oracle(sigma_min)["target"].mean() > best + 0.5


def test_the_oracles_joint_score_beats_the_product_of_its_marginals():
    scores = scores_of_the_oracle(0.0)
    assert scores["joint"].mean() > scores["target"].mean()


def test_the_floor_only_ever_widens_the_prediction():
    free, floored = scores_of_the_oracle(0.0), scores_of_the_oracle(0.1)
    for level in COVERAGE_LEVELS:
        assert np.all(floored[f"coverage_{level}"] >= free[f"coverage_{level}"])
    # No point can score more than a Gaussian of the smallest deviation does at its peak.
    peak = stats.norm.logpdf(0, scale=0.1)
    assert max(floored[side].max() for side in ("context", "target", "task")) <= peak < free["context"].max()


def test_the_floor_moves_no_mean_and_no_joint_score():
    for name in ("rmse", "joint"):
        np.testing.assert_array_equal(scores_of_the_oracle(0.1)[name], scores_of_the_oracle(0.0)[name])


def test_a_floor_below_every_deviation_changes_nothing():
    assert_begins(scores_of_the_oracle(0.0), oracle_scores(SOURCE, np.arange(3), sigma_min=NOISE_STD), rtol=1e-6)


def test_the_oracle_is_scored_in_chunks_as_it_is_at_once():
    assert_begins(scores_of_the_oracle(0.1), oracle_scores(SOURCE, np.arange(5), sigma_min=0.1, chunk=3), rtol=1e-6)


@functools.cache
def scorer(**options) -> scoring.Scorer:
    return scoring.make_scorer(SOURCE, num_samples=2, **options)


@functools.cache
def scores_at_once(name: str) -> dict[str, jax.Array]:
    """One prediction at all points of each of the oracle's tasks, all tasks in one batch."""
    model = small_model(name)

    def score(task, number):
        return score_task(model.predict(task.context, task.x, key=SOURCE.noise_key(number), num_samples=2), task)

    return jax.jit(jax.vmap(score))(scored_tasks(), jnp.arange(NUM_TASKS))


@pytest.mark.parametrize("name, num_tasks", [("cnp", 3), ("np", 8), ("np", 20)])
def test_a_models_scores_do_not_depend_on_chunks_or_on_how_many_are_asked_for(name, num_tasks):
    scores = scorer(chunk_size=8)(small_model(name), num_tasks)
    assert {values.shape for values in scores.values()} == {(num_tasks,)}
    assert_begins(scores_at_once(name), scores, rtol=1e-3, atol=1e-4)
