"""Cases whose function is known: drawn from a Gaussian process family, with its exact posterior beside them."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray
from tinygp.kernels import Kernel

from mpnp.diagnostics.cases import Case, Cases, ExactAnswer, sort_rows
from mpnp.evaluation.oracle import (
    draw_with_kernels,
    exact_function_posterior,
    exact_joint_log_prob,
    gaussian_process,
    to_float64,
)
from mpnp.inference.future import spread_inputs
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.tasks.base import TaskSource
from mpnp.tasks.task import Task

__all__ = ["cases_from_gaussian_process"]

GRID_SIZE = 64
"""Inputs at which functions are compared."""

JITTER = 1e-8

CHUNK = 100
"""Tasks drawn at once."""


def cases_from_gaussian_process(source: TaskSource, name: str, num_cases: int) -> Cases:
    """Draw tasks together with the noise-free function on a grid, and compute the exact posterior of each."""
    items: list[Case] = []
    for start in range(0, num_cases, CHUNK):
        items += _draw_chunk(source, np.arange(start, min(start + CHUNK, num_cases), dtype=np.uint32))
    return Cases(tuple(items), f"{num_cases:,} tasks drawn from '{name}'", num_cases, noisy=False)


def _draw_chunk(source: TaskSource, indices: np.ndarray) -> list[Case]:
    family, prior = gaussian_process(source.family)
    drawn = jax.device_get(draw_with_kernels(source, jnp.asarray(indices)))
    noise_keys = jax.device_get(jax.random.key_data(jax.vmap(source.noise_key)(jnp.asarray(indices))))
    grid = _grid(family.low, family.high, family.x_dim)
    with jax.enable_x64(True):
        tasks, kernels = jax.tree.map(to_float64, drawn)
        keys = jax.random.wrap_key_data(jnp.asarray(noise_keys))
        answers = jax.device_get(_solve(tasks, kernels, keys, jnp.asarray(grid), prior.noise_std))
    parts = (jax.tree.map(lambda leaf, row=row: leaf[row], answers) for row in range(len(indices)))
    return [_case(part, grid, int(index)) for part, index in zip(parts, indices, strict=True)]


def _grid(low: float, high: float, x_dim: int) -> Float[np.ndarray, "row x_dim"]:
    if x_dim == 1:
        return np.linspace(low, high, GRID_SIZE)[:, None]
    (rows,) = spread_inputs(1, GRID_SIZE, np.full(x_dim, low), np.full(x_dim, high), np.random.default_rng(0))
    return rows[sort_rows(rows)]


class _Answer(NamedTuple):
    """A task, its function on the grid, and the exact posterior at the task's points followed by the grid."""

    task: Task
    function: Float[Array, "*task row"]
    mean: Float[Array, "*task slot"]
    covariance: Float[Array, "*task slot slot"]
    predictive_std: Float[Array, "*task point"]
    joint_log_prob: Float[Array, "*task"]


@eqx.filter_jit
def _solve(
    tasks: Task, kernels: Kernel, keys: Key[Array, " task"], grid: Float[Array, "row x_dim"], noise_std: float
) -> _Answer:
    def solve(task: Task, kernel: Kernel, key: PRNGKeyArray) -> _Answer:
        function_key, noise_key = jax.random.split(key)
        x, num_points = jnp.concatenate([task.x, grid]), len(task.x)
        prior = kernel(x, x) + JITTER * jnp.eye(len(x))
        values = jnp.linalg.cholesky(prior) @ jax.random.normal(function_key, (len(x),), x.dtype)
        y = values + noise_std * jax.random.normal(noise_key, values.shape, x.dtype)
        observed = Task(task.x, y[:num_points, None], task.context_mask, task.target_mask)
        everywhere = Task(x, y[:, None], jnp.pad(task.context_mask, (0, len(grid))), jnp.ones(len(x), bool))
        mean, covariance = exact_function_posterior(kernel, noise_std, everywhere)
        std = jnp.sqrt(jnp.maximum(jnp.diagonal(covariance)[:num_points], 0) + noise_std**2)
        joint = exact_joint_log_prob(kernel, noise_std, observed)
        return _Answer(observed, values[num_points:], mean, covariance, std, joint)

    return jax.vmap(solve)(tasks, kernels, keys)


def _case(answer: _Answer, grid: Float[np.ndarray, "row x_dim"], cluster: int) -> Case:
    task, mean, covariance = answer.task, np.asarray(answer.mean), np.asarray(answer.covariance)
    context, target, num_points = np.asarray(task.context_mask), np.asarray(task.target_mask), len(task.x)
    x, y = np.asarray(task.x), np.asarray(task.y)
    exact = ExactAnswer(
        target=Predictive(mean[:num_points][target][None, :, None], answer.predictive_std[target][None, :, None]),
        function_mean=mean[num_points:],
        function_covariance=covariance[num_points:, num_points:],
        joint_log_prob=float(answer.joint_log_prob),
    )
    return Case(x[context], y[context], x[target], y[target], grid, np.asarray(answer.function)[:, None], cluster, exact)
