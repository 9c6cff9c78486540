"""A score is a mean over the points of one task, and its summary a mean over tasks."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from helpers.mixtures import component_densities, integrated_crps, mixture_cdf
from helpers.models import CONTEXT, NUM_SLOTS, TARGET, slot_mask
from mpnp import Predictive, Task
from mpnp.evaluation.metrics import COVERAGE_LEVELS, score_task, summarise

NUM_SAMPLES = 3
OF_TARGET = {"target", "joint", "rmse", "crps", *(f"coverage_{level}" for level in COVERAGE_LEVELS)}
NOWHERE = np.array([], int)

score = eqx.filter_jit(score_task)


def random_task(context: np.ndarray = CONTEXT, target: np.ndarray = TARGET, *, y_dim: int = 2) -> Task:
    rng = np.random.default_rng(0)
    x, y = (jnp.asarray(rng.normal(size=(NUM_SLOTS, dim)), jnp.float32) for dim in (1, y_dim))
    return Task(x, y, slot_mask(context), slot_mask(target))


def random_predictive(key: jax.Array, *, y_dim: int = 2) -> Predictive:
    loc_key, scale_key = jax.random.split(key)
    shape = (NUM_SAMPLES, NUM_SLOTS, y_dim)
    return Predictive(jax.random.normal(loc_key, shape), jax.random.uniform(scale_key, shape, minval=0.2, maxval=1.5))


def test_every_score_is_what_its_definition_says():
    predictive, task = random_predictive(jax.random.key(0)), random_task()
    y = np.asarray(task.y, np.float64)
    densities = component_densities(predictive, task.y)
    log_prob = logsumexp(densities, axis=0) - np.log(NUM_SAMPLES)
    error = np.asarray(predictive.loc, np.float64).mean(axis=0) - y
    rank = mixture_cdf(predictive, y[None])[0][TARGET]
    wanted = {
        "context": log_prob[CONTEXT].mean(),
        "target": log_prob[TARGET].mean(),
        "task": log_prob[np.concatenate([CONTEXT, TARGET])].mean(),
        "joint": (logsumexp(densities[:, TARGET].sum(axis=1)) - np.log(NUM_SAMPLES)) / len(TARGET),
        "rmse": np.sqrt((error[TARGET] ** 2).mean()),
        "crps": integrated_crps(predictive, task.y)[TARGET].mean(),
        "coverage_50": ((rank >= 0.25) & (rank <= 0.75)).mean(),
        "coverage_90": ((rank >= 0.05) & (rank <= 0.95)).mean(),
        "coverage_95": ((rank >= 0.025) & (rank <= 0.975)).mean(),
    }
    got = score(predictive, task)
    assert got.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-3, err_msg=name)


@pytest.mark.parametrize(
    "context, target, unknown",
    [
        (CONTEXT, TARGET, set()),
        (NOWHERE, TARGET, {"context"}),
        (CONTEXT, NOWHERE, OF_TARGET),
        (NOWHERE, NOWHERE, {"context", "task", *OF_TARGET}),
    ],
    ids=["neither empty", "no context", "no target", "no points"],
)
def test_only_a_score_over_no_points_is_not_a_number(context, target, unknown):
    scores = score(random_predictive(jax.random.key(0)), random_task(context, target))
    assert {name for name, value in scores.items() if np.isnan(value)} == unknown


def test_the_summary_averages_tasks_not_points():
    predictive = random_predictive(jax.random.key(0))
    targets = (TARGET[:1], TARGET)
    scores = [score(predictive, random_task(target=target)) for target in targets]
    by_task = np.array([scores[0]["target"], scores[1]["target"]])
    summary = summarise({"target": by_task})["target"]
    np.testing.assert_allclose(summary["mean"], by_task.mean(), rtol=1e-6)
    pooled = np.average(by_task, weights=[len(target) for target in targets])
    assert not np.isclose(summary["mean"], pooled, rtol=1e-2)


@jax.jit
def scores_when_truth_is(wider: float) -> dict[str, jax.Array]:
    """Scores of many tasks whose outputs are drawn from the prediction, with deviations so many times wider."""

    def one(key):
        predictive_key, draw_key = jax.random.split(key)
        predictive = random_predictive(predictive_key, y_dim=1)
        y = Predictive(predictive.loc, wider * predictive.scale).sample(1, key=draw_key, noise=True)[0]
        everywhere = jnp.ones(NUM_SLOTS, bool)
        return score_task(predictive, Task(jnp.zeros_like(y), y, ~everywhere, everywhere))

    return jax.vmap(one)(jax.random.split(jax.random.key(1), 4000))


@pytest.mark.parametrize("level", COVERAGE_LEVELS)
def test_a_calibrated_prediction_covers_as_often_as_it_says(level):
    covered = np.asarray(scores_when_truth_is(1.0)[f"coverage_{level}"])
    assert np.abs(covered.mean() - level / 100) < 4 * stats.sem(covered)


@pytest.mark.parametrize("level", COVERAGE_LEVELS)
def test_an_overconfident_prediction_covers_less_often_than_it_says(level):
    assert scores_when_truth_is(3.0)[f"coverage_{level}"].mean() < level / 100 - 0.1


def test_the_summary_is_mean_standard_error_and_trimmed_mean():
    values = np.random.default_rng(0).standard_t(2.1, size=210).astype(np.float32)
    summary = summarise({"metric": values})["metric"]
    values = values.astype(np.float64)
    np.testing.assert_allclose(summary["mean"], values.mean())
    np.testing.assert_allclose(summary["standard_error"], stats.sem(values))
    np.testing.assert_allclose(summary["trimmed_mean"], stats.trim_mean(values, 0.05))


def test_the_trimmed_mean_forgets_an_outlier_at_either_end():
    values = np.concatenate([np.ones(38), [1e9, -1e12]])
    assert summarise({"metric": values})["metric"]["trimmed_mean"] == 1


def test_tasks_without_a_score_are_left_out_of_its_summary():
    values = np.random.default_rng(1).normal(size=30)
    with_gaps = np.insert(values, [0, 7, 30], np.nan)
    assert summarise({"metric": with_gaps}) == summarise({"metric": values})


def test_a_score_that_no_task_has_is_summarised_by_nothing():
    summary = summarise({"context": np.full(3, np.nan), "target": np.ones(3)})
    assert summary["context"] == {"mean": None, "standard_error": None, "trimmed_mean": None}
    assert summary["target"] == {"mean": 1.0, "standard_error": 0.0, "trimmed_mean": 1.0}


def test_one_task_has_no_standard_error():
    assert summarise({"target": np.array([2.0])})["target"] == {"mean": 2.0, "standard_error": None, "trimmed_mean": 2.0}
