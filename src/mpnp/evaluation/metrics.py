"""Metrics of one task, and their summary over many tasks.

Log-likelihoods follow the paper: log-mean-exp over function samples at each point, then the mean over the points of a task,
then the mean over tasks.
"""

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.tasks.task import Task, masked_mean

__all__ = ["COVERAGE_LEVELS", "Summary", "score_task", "summarise"]

COVERAGE_LEVELS = (50, 90, 95)

TRIMMED_SHARE = 0.05
"""Fraction of tasks that the trimmed mean drops at each end. Heavy-tailed noise makes the plain mean unstable."""

Summary = dict[str, dict[str, float | None]]


def score_task(predictive: Predictive, task: Task) -> dict[str, Float[Array, ""]]:
    """All metrics of one task. A metric over no points is NaN. Targets count by their loss weights."""
    predictive, weights = predictive.with_noise(task.known_noise), jnp.where(task.target_mask, task.loss_weights, 0)
    log_prob = predictive.log_prob(task.y)
    error = jnp.square(predictive.mean - task.y).mean(axis=-1)
    num_target = jnp.where(task.target_mask.any(), task.target_mask.sum(), jnp.nan)
    scores = {
        "context": _mean_or_nan(log_prob, task.context_mask),
        "target": _weighted_or_nan(log_prob, weights),
        "task": _mean_or_nan(log_prob, task.mask),
        "joint": predictive.joint_log_prob(task.y, task.target_mask) / num_target,
        "rmse": jnp.sqrt(_weighted_or_nan(error, weights)),
        "crps": _weighted_or_nan(predictive.crps(task.y).mean(axis=-1), weights),
    }
    # An output lies in the central interval of a level if its CDF value is within level/2 of one half.
    distance = 2 * jnp.abs(predictive.cdf(task.y) - 0.5)
    for level in COVERAGE_LEVELS:
        inside = (distance <= level / 100).mean(axis=-1, dtype=log_prob.dtype)
        scores[f"coverage_{level}"] = _weighted_or_nan(inside, weights)
    return scores


def summarise(scores: Mapping[str, Float[np.ndarray, " task"]]) -> Summary:
    """Mean, standard error and trimmed mean of each metric over tasks; None where no task has the metric.

    >>> summarise({"rmse": np.array([1.0, 3.0])})["rmse"]["mean"]
    2.0
    """
    return {name: _summarise(np.asarray(values, np.float64)) for name, values in scores.items()}


def _summarise(values: Float[np.ndarray, " task"]) -> dict[str, float | None]:
    values = np.sort(values[~np.isnan(values)])
    if not len(values):
        return {"mean": None, "standard_error": None, "trimmed_mean": None}
    cut = int(TRIMMED_SHARE * len(values))
    return {
        "mean": float(values.mean()),
        "standard_error": float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None,
        "trimmed_mean": float(values[cut : len(values) - cut].mean()),
    }


def _weighted_or_nan(values: Float[Array, " point"], weights: Float[Array, " point"]) -> Float[Array, ""]:
    total = weights.sum()
    return jnp.where(total > 0, jnp.sum(weights * values, where=weights > 0) / jnp.where(total > 0, total, 1), jnp.nan)


def _mean_or_nan(values: Float[Array, " point"], mask: Bool[Array, " point"]) -> Float[Array, ""]:
    return jnp.where(mask.any(), masked_mean(values, mask), jnp.nan)
