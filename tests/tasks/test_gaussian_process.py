"""The sampled functions and the protocol that observes them are distributed as the paper says."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from tinygp.kernels import ExpSineSquared, Kernel

from helpers.models import assert_trees_close
from mpnp.tasks.base import AbstractTaskFamily, FunctionFamily, sample_sizes
from mpnp.tasks.gaussian_process import GaussianProcessPrior, Matern52Prior, PeriodicPrior, RBFPrior, StudentTNoise
from mpnp.tasks.registry import TASKS
from mpnp.tasks.task import Task

NOISE_STD = 0.02
NUM_SLOTS = 50
UNLIKELY = 1e-3
"""Keys are fixed, so a test of fit that passes once passes for ever; one in a thousand keys would fail it."""

LENGTH, SCALE, PERIOD = (0.1, 0.6), (0.1, 1.0), (0.1, 0.5)
RANGES = {
    "rbf": {"length": LENGTH, "scale": SCALE},
    "matern": {"length": LENGTH, "scale": SCALE},
    "periodic": {"length": LENGTH, "scale": SCALE, "period": PERIOD},
    "t-noise": {"length": LENGTH, "scale": SCALE},
    "rbf-4d": {"length": (0.5, 3.0), "scale": SCALE},
}

every_family = pytest.mark.parametrize("name", RANGES)


def test_every_function_family_of_the_catalogue_is_tested_here():
    assert list(RANGES) == [name for name, entry in TASKS.items() if isinstance(entry.family, FunctionFamily)]


def rbf(x, *, length, scale):
    return scale**2 * np.exp(-(norms(x, 2) ** 2) / (2 * length**2))


def matern(x, *, length, scale):
    distance = norms(x, 2) / length
    return scale**2 * (1 + np.sqrt(5) * distance + 5 / 3 * distance**2) * np.exp(-np.sqrt(5) * distance)


def periodic(x, *, length, scale, period):
    return scale**2 * np.exp(-2 * np.sin(np.pi * norms(x, 1) / period) ** 2 / length**2)


def norms(x: np.ndarray, order: int) -> np.ndarray:
    return np.linalg.norm(x[:, None] - x[None], order, axis=-1)


CLOSED_FORMS = {"rbf": rbf, "matern": matern, "periodic": periodic, "t-noise": rbf, "rbf-4d": rbf}
PRIORS = {"rbf": RBFPrior, "matern": Matern52Prior, "periodic": PeriodicPrior}


def keys(num: int, seed: int = 0) -> jax.Array:
    return jax.random.split(jax.random.key(seed), num)


def uniform_inputs(num: int, x_dim: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-2, 2, (num, x_dim)).astype(np.float32)


def gaussian_process(name: str) -> GaussianProcessPrior:
    process = TASKS[name].family.process
    return process.process if isinstance(process, StudentTNoise) else process


def parameters(kernel: Kernel) -> dict[str, np.ndarray]:
    """What a drawn kernel, or a batch of them, was drawn with."""
    scale, shape = np.sqrt(kernel.kernel1.value), kernel.kernel2
    if isinstance(shape, ExpSineSquared):
        return {"length": np.sqrt(2 / shape.gamma), "scale": scale, "period": np.asarray(shape.scale)}
    return {"length": np.asarray(shape.scale), "scale": scale}


@functools.cache
def drawn_tasks(name: str, num: int = 2000) -> Task:
    """Many tasks of a family, drawn at once under jit and vmap."""
    return jax.jit(jax.vmap(TASKS[name].family.sample))(keys(num))


@pytest.mark.parametrize("x_dim", [1, 4])
@every_family
def test_a_drawn_kernel_is_its_closed_form(name, x_dim):
    x = uniform_inputs(NUM_SLOTS, x_dim)
    kernel = gaussian_process(name).kernel(jax.random.key(1))
    np.testing.assert_allclose(kernel(x, x), CLOSED_FORMS[name](x, **parameters(kernel)), rtol=1e-3, atol=1e-5)


@every_family
def test_kernel_parameters_are_uniform_on_the_stated_ranges(name):
    drawn = parameters(jax.jit(jax.vmap(gaussian_process(name).kernel))(keys(4000)))
    assert drawn.keys() == RANGES[name].keys()
    for parameter, (low, high) in RANGES[name].items():
        values = drawn[parameter]
        assert low - 1e-6 <= values.min() and values.max() <= high + 1e-6
        assert stats.kstest(values, stats.uniform(low, high - low).cdf).pvalue > UNLIKELY
    assert np.abs(np.corrcoef(list(drawn.values())) - np.eye(len(drawn))).max() < 4 / np.sqrt(4000)


# With more than one input, the periodic kernel of the L1 norm is not positive definite.
@pytest.mark.parametrize("name, x_dim", [("rbf", 1), ("matern", 1), ("periodic", 1), ("rbf", 4), ("matern", 4)])
def test_draws_of_one_kernel_have_its_covariance_and_the_noise(name, x_dim):
    num, setting = 4000, {"length": 0.3 * x_dim, "scale": 0.7} | ({"period": 0.4} if name == "periodic" else {})
    process = GaussianProcessPrior(PRIORS[name](**{parameter: (value, value) for parameter, value in setting.items()}))
    # The last input repeats the first: only the noise tells them apart.
    x = uniform_inputs(6, x_dim)[[0, 1, 2, 3, 4, 5, 0]]
    draws = np.asarray(jax.jit(jax.vmap(process, (None, 0)))(jnp.asarray(x), keys(num))[..., 0], np.float64)
    covariance = CLOSED_FORMS[name](x.astype(np.float64), **setting) + NOISE_STD**2 * np.eye(len(x))
    # Whitened draws are standard normal in every direction, also in those where the noise is all there is.
    white = np.linalg.solve(np.linalg.cholesky(covariance), draws.T)
    assert np.abs(white.mean(axis=1)).max() < 4 / np.sqrt(num)
    assert np.abs(white @ white.T / num - np.eye(len(x))).max() < 4 * np.sqrt(2 / num)
    assert stats.kstest(white.ravel(), stats.norm.cdf).pvalue > UNLIKELY


def test_sizes_are_uniform_first_in_the_context_then_in_what_is_left():
    num = 100_000
    sizes = jax.jit(jax.vmap(lambda key: sample_sizes(NUM_SLOTS, key=key)))(keys(num))
    counts = np.zeros((NUM_SLOTS + 1, NUM_SLOTS + 1))
    np.add.at(counts, tuple(map(np.asarray, sizes)), 1)
    possible = np.zeros_like(counts, dtype=bool)
    expected = np.zeros_like(counts)
    for num_context in range(3, 48):
        possible[num_context, 3 : NUM_SLOTS - num_context + 1] = True
        expected[num_context] = possible[num_context] / possible[num_context].sum() * num / 45
    assert counts[~possible].sum() == 0
    assert counts[possible].min() > 0
    assert stats.chisquare(counts[possible], expected[possible]).pvalue > UNLIKELY


@every_family
def test_slots_hold_first_the_context_then_the_target_then_nothing(name):
    tasks = drawn_tasks(name)
    num_context, num_target = tasks.context_mask.sum(axis=1)[:, None], tasks.target_mask.sum(axis=1)[:, None]
    slot = np.arange(NUM_SLOTS)
    np.testing.assert_array_equal(tasks.context_mask, slot < num_context)
    np.testing.assert_array_equal(tasks.target_mask, (slot >= num_context) & (slot < num_context + num_target))
    empty = slot >= num_context + num_target
    assert empty.any() and num_context.min() == 3 and num_context.max() == 47 and num_target.min() == 3
    assert not np.any(tasks.x[empty]) and not np.any(tasks.y[empty])
    assert np.all(np.asarray(tasks.y)[~empty] != 0)


@every_family
def test_inputs_are_uniform_in_the_box(name):
    tasks = drawn_tasks(name)
    inputs = np.asarray(tasks.x)[tasks.context_mask | tasks.target_mask]
    assert inputs.shape[1] == TASKS[name].family.x_dim
    assert np.abs(inputs).max() <= 2
    for dimension in inputs.T:
        assert stats.kstest(dimension, stats.uniform(-2, 4).cdf).pvalue > UNLIKELY


@every_family
def test_every_task_is_finite_in_single_precision(name):
    tasks = drawn_tasks(name)
    assert tasks.x.shape == (2000, NUM_SLOTS, TASKS[name].family.x_dim)
    assert tasks.y.shape == (2000, NUM_SLOTS, 1)
    assert tasks.x.dtype == tasks.y.dtype == jnp.float32
    assert jnp.isfinite(tasks.x).all() and jnp.isfinite(tasks.y).all()


@every_family
def test_a_task_is_the_same_whether_or_not_compiled_and_batched(name):
    alone = TASKS[name].family.sample(keys(2000)[0])
    assert_trees_close(alone, jax.tree.map(lambda leaf: leaf[0], drawn_tasks(name)), rtol=1e-3, atol=1e-4)


@every_family
def test_the_key_decides_the_task(name):
    family: AbstractTaskFamily = TASKS[name].family
    first, again, other = (family.sample(jax.random.key(seed)) for seed in (3, 3, 4))
    assert_trees_close(again, first, rtol=0)
    # Slots 0 to 5 hold a point in every task.
    assert not np.any(other.x[:6] == first.x[:6])
    assert not np.any(other.y[:6] == first.y[:6])


@functools.cache
def student_noise() -> tuple[np.ndarray, Task]:
    """What Student-t noise adds to the tasks of its family, one row a task, with the tasks."""
    family = TASKS["t-noise"].family
    assert isinstance(family, FunctionFamily) and isinstance(family.process, StudentTNoise)
    process = family.process

    def noise(x, y, key):
        clean = process.process(x, jax.random.split(family.process_key(key), 3)[0])
        return (y - clean)[:, 0]

    # Empty slots come last, and a point of a Gaussian draw depends on those before it alone: zeroed inputs do no harm.
    tasks = drawn_tasks("t-noise")
    return np.asarray(jax.jit(jax.vmap(noise))(tasks.x, tasks.y, keys(2000))), tasks


@pytest.mark.parametrize("side", ["context", "target"])
def test_student_noise_is_a_scaled_t_in_context_and_target_alike(side):
    noise, tasks = student_noise()
    rng, num = np.random.default_rng(0), 1_000_000
    simulated = 0.15 * rng.uniform(size=num) * rng.standard_t(2.1, size=num)
    observed = noise[np.asarray(getattr(tasks, f"{side}_mask"))]
    assert np.mean(np.abs(observed) < 1e-5) < 0.01
    assert stats.ks_2samp(observed, simulated, method="asymp").pvalue > UNLIKELY
    levels = np.array([0.01, 0.05, 0.25, 0.75, 0.95, 0.99])
    np.testing.assert_allclose(np.quantile(observed, levels), np.quantile(simulated, levels), rtol=0.1)


def test_student_noise_scales_each_point_by_itself():
    first, second = np.abs(student_noise()[0][:, :2]).T
    # A scale shared by the points of a task would make their sizes rise and fall together, by a correlation above 0.3.
    assert np.abs(stats.spearmanr(first, second).statistic) < 4 / np.sqrt(len(first))
