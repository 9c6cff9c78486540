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
    gaussian_process,
    noisy_log_density,
    noisy_predictive,
    to_float64,
)
from mpnp.inference.regions import spread_inputs
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
        tasks, functions = _draw(tasks, kernels, keys, jnp.asarray(grid), prior.noise_std)
        answers = _solve(tasks, kernels, jnp.asarray(grid), prior.noise_std)
        solved = jax.device_get((tasks, functions, answers))
    parts = (jax.tree.map(lambda leaf, row=row: leaf[row], solved) for row in range(len(indices)))
    return [
        _case(task, function, answer, grid, int(index)) for (task, function, answer), index in zip(parts, indices, strict=True)
    ]


def _grid(low: float, high: float, x_dim: int) -> Float[np.ndarray, "row x_dim"]:
    if x_dim == 1:
        return np.linspace(low, high, GRID_SIZE)[:, None]
    (rows,) = spread_inputs(1, GRID_SIZE, np.full(x_dim, low), np.full(x_dim, high), np.random.default_rng(0))
    return rows[sort_rows(rows)]


class _Answer(NamedTuple):
    """The exact posterior at the points of a task followed by the grid."""

    mean: Float[Array, "*task slot"]
    covariance: Float[Array, "*task slot slot"]
    predictive_std: Float[Array, "*task point"]
    joint_log_prob: Float[Array, "*task"]


@eqx.filter_jit
def _draw(
    tasks: Task, kernels: Kernel, keys: Key[Array, " task"], grid: Float[Array, "row x_dim"], noise_std: float
) -> tuple[Task, Float[Array, "task row"]]:
    """The tasks with observations of new functions, and these functions on the grid."""

    def draw(task: Task, kernel: Kernel, key: PRNGKeyArray) -> tuple[Task, Float[Array, " row"]]:
        function_key, noise_key = jax.random.split(key)
        x, num_points = jnp.concatenate([task.x, grid]), len(task.x)
        factor = jnp.linalg.cholesky(kernel(x, x) + JITTER * jnp.eye(len(x)))
        values = factor @ jax.random.normal(function_key, (len(x),), x.dtype)
        y = values + noise_std * jax.random.normal(noise_key, values.shape, x.dtype)
        return Task(task.x, y[:num_points, None], task.context_mask, task.target_mask), values[num_points:]

    return jax.vmap(draw)(tasks, kernels, keys)


@eqx.filter_jit
def _solve(tasks: Task, kernels: Kernel, grid: Float[Array, "row x_dim"], noise_std: float) -> _Answer:
    """A program apart from `_draw`, which it waits for: batches of factorisations must not run concurrently."""

    def solve(task: Task, kernel: Kernel) -> _Answer:
        x, num_points = jnp.concatenate([task.x, grid]), len(task.x)
        y = jnp.pad(task.y, ((0, len(grid)), (0, 0)))
        everywhere = Task(x, y, jnp.pad(task.context_mask, (0, len(grid))), jnp.ones(len(x), bool))
        mean, covariance = exact_function_posterior(kernel, noise_std, everywhere)
        at_points = mean[:num_points], covariance[:num_points, :num_points]
        std = noisy_predictive(*at_points, noise_std).std[:, 0]
        joint = noisy_log_density(task.y[:, 0] - at_points[0], at_points[1], task.target_mask, noise_std)
        return _Answer(mean, covariance, std, joint)

    return jax.vmap(solve)(tasks, kernels)


def _case(
    task: Task, function: Float[np.ndarray, " row"], answer: _Answer, grid: Float[np.ndarray, "row x_dim"], cluster: int
) -> Case:
    x, y, context, target = (np.asarray(part) for part in (task.x, task.y, task.context_mask, task.target_mask))
    mean, covariance, num_points = np.asarray(answer.mean), np.asarray(answer.covariance), len(x)
    exact = ExactAnswer(
        target=Predictive(mean[:num_points][target][None, :, None], answer.predictive_std[target][None, :, None]),
        function_mean=mean[num_points:],
        function_covariance=covariance[num_points:, num_points:],
        joint_log_prob=float(answer.joint_log_prob),
    )
    return Case(x[context], y[context], x[target], y[target], grid, function[:, None], cluster, exact)
