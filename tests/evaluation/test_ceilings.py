"""The ceilings are what exact inference of the kernel's parameters gives, however it is computed."""

import dataclasses
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ceilings import ceiling_record
from scipy import stats

from helpers.models import CONTEXT, NUM_SLOTS, TARGET, permute_points, slot_mask
from helpers.prior_sampling import PriorSampling
from mpnp import InputError, Task
from mpnp.evaluation.ceilings.gaussian import infer_parameters, inferred_scores, mixture
from mpnp.evaluation.ceilings.gibbs import sample_posterior
from mpnp.evaluation.ceilings.noise_atoms import noise_atoms
from mpnp.evaluation.ceilings.parameters import BATCH, evaluate
from mpnp.evaluation.ceilings.quadrature import quadrature_for
from mpnp.evaluation.ceilings.student_t import KnownKernel, component_log_probs, sampled_scores
from mpnp.evaluation.metrics import score_task
from mpnp.evaluation.oracle import exact_joint_log_prob, exact_posterior, oracle_scores
from mpnp.nn.likelihoods.predictive import log_mean_exp
from mpnp.tasks.base import TEST_SEED, FunctionFamily, fixed_tasks
from mpnp.tasks.gaussian_process import GaussianProcessPrior, Matern52Prior, PeriodicPrior, RBFPrior, StudentTNoise
from mpnp.tasks.registry import TASKS

NOISE_STD = 0.02
NOWHERE = np.array([], int)
PRIOR = RBFPrior()
NARROW = RBFPrior(length=(0.3, 0.3 + 1e-9), scale=(0.5, 0.5 + 1e-9))


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def smooth_task(context: np.ndarray = CONTEXT, target: np.ndarray = TARGET) -> Task:
    """Noisy points of a wave in scattered slots."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-2, 2, (NUM_SLOTS, 1))
    y = 0.6 * np.sin(4 * x) + NOISE_STD * rng.normal(size=x.shape)
    return Task(jnp.asarray(x), jnp.asarray(y), slot_mask(context), slot_mask(target))


@eqx.filter_jit
def scores_of(prior, task, integrator):
    posterior = infer_parameters(prior, NOISE_STD, task.context, integrator)
    everything = infer_parameters(prior, NOISE_STD, task.points, integrator)
    scores = score_task(mixture(prior, NOISE_STD, task, posterior), task)
    return {name: scores[name] for name in ("context", "target")} | {
        "joint": everything.log_evidence - posterior.log_evidence,
        "evidence": posterior.log_evidence,
    }


def rbf_covariance(x: np.ndarray, length: float, scale: float) -> np.ndarray:
    return scale**2 * np.exp(-((x - x.T) ** 2) / (2 * length**2)) + NOISE_STD**2 * np.eye(len(x))


def numpy_reference(task: Task, side: int = 60) -> dict[str, float]:
    """The plain midpoint rule over a fine grid, all nodes weighted, one inversion a node."""
    lengths, scales = (low + (high - low) * (np.arange(side) + 0.5) / side for low, high in PRIOR.ranges)
    x, y = np.asarray(task.x), np.asarray(task.y)[:, 0]
    weight, joint = 0.0, 0.0
    density = np.zeros(NUM_SLOTS)
    for length, scale in itertools.product(lengths, scales):
        covariance = rbf_covariance(x, length, scale)
        inverse = np.linalg.inv(covariance[np.ix_(CONTEXT, CONTEXT)])
        likelihood = np.exp(-y[CONTEXT] @ inverse @ y[CONTEXT] / 2) * np.sqrt(np.linalg.det(inverse / (2 * np.pi)))
        # A new observation at a context's input shares the function with the old one, but not its noise.
        cross = (covariance - NOISE_STD**2 * np.eye(NUM_SLOTS))[:, CONTEXT]
        mean, posterior = cross @ inverse @ y[CONTEXT], covariance - cross @ inverse @ cross.T
        std = np.sqrt(np.diag(posterior))
        density += likelihood * np.exp(-(((y - mean) / std) ** 2) / 2) / (std * np.sqrt(2 * np.pi))
        error, part = (y - mean)[TARGET], posterior[np.ix_(TARGET, TARGET)]
        normaliser = np.sqrt(np.linalg.det(2 * np.pi * part))
        joint += likelihood * np.exp(-error @ np.linalg.inv(part) @ error / 2) / normaliser
        weight += likelihood
    log_prob = np.log(density / weight)
    return {
        "context": log_prob[CONTEXT].mean(),
        "target": log_prob[TARGET].mean(),
        "joint": np.log(joint / weight),
        "evidence": np.log(weight / side**2),
    }


def test_quadrature_is_the_plain_sum_over_a_fine_grid():
    found, wanted = scores_of(PRIOR, smooth_task(), quadrature_for(PRIOR)), numpy_reference(smooth_task())
    # The mixture has a few hundred components, the evidence is summed over all cells.
    for name, tolerance in {"context": 1e-2, "target": 1e-2, "joint": 3e-3, "evidence": 3e-3}.items():
        np.testing.assert_allclose(found[name], wanted[name], atol=tolerance, err_msg=name)


def test_quadrature_is_importance_sampling():
    prior, task = Matern52Prior(), smooth_task()
    found = scores_of(prior, task, quadrature_for(prior))
    sampled = [scores_of(prior, task, PriorSampling(jax.random.key(seed), 4_000)) for seed in range(4)]
    for name, value in found.items():
        values = np.array([scores[name] for scores in sampled])
        assert np.abs(values.mean() - value) < 4 * stats.sem(values) + 2e-3, name


def test_quadrature_finds_the_narrow_peaks_of_a_period():
    prior = PeriodicPrior()
    x = jnp.linspace(-2, 2, 24)[:, None] + 0.01 * jax.random.normal(jax.random.key(0), (24, 1))
    y = 0.5 * jnp.sin(2 * jnp.pi * x / 0.31) + NOISE_STD * jax.random.normal(jax.random.key(1), (24, 1))
    whole = quadrature_for(prior)
    fewer = dataclasses.replace(whole, edges=(*whole.edges[:2], whole.edges[2][::2]), num_split=128)
    points = Task.split(x, y, 24).context
    posterior = jax.jit(lambda: infer_parameters(prior, NOISE_STD, points, fewer))()
    period = np.exp(posterior.log_weights) @ posterior.nodes[:, 2]
    assert np.abs(period - 0.31) < 0.002


@pytest.mark.parametrize("num_nodes", [1, BATCH - 1, BATCH, BATCH + 44, 2 * BATCH])
def test_every_node_is_evaluated_whatever_the_batches(num_nodes):
    nodes = jnp.linspace(-1, 1, 2 * num_nodes).reshape(num_nodes, 2)
    np.testing.assert_allclose(evaluate(lambda node: -jnp.sum(node**2), nodes), -np.sum(np.asarray(nodes) ** 2, axis=1))


def test_a_prior_of_one_value_is_the_oracle_that_knows_it():
    task = smooth_task()
    kernel = NARROW.build(jnp.array([0.3, 0.5]))
    found, known = scores_of(NARROW, task, quadrature_for(NARROW)), score_task(exact_posterior(kernel, NOISE_STD, task), task)
    for name in ("context", "target"):
        np.testing.assert_allclose(found[name], known[name], atol=1e-5)
    np.testing.assert_allclose(found["joint"], exact_joint_log_prob(kernel, NOISE_STD, task), atol=1e-5)


@eqx.filter_jit
def posterior_of(task):
    return infer_parameters(PRIOR, NOISE_STD, task.context, quadrature_for(PRIOR))


def test_the_weights_sum_to_one_and_ignore_the_order_of_points():
    task = smooth_task()
    moved = permute_points(task, np.random.default_rng(0).permutation(NUM_SLOTS))
    there, here = posterior_of(moved), posterior_of(task)
    np.testing.assert_allclose(np.exp(here.log_weights).sum(), 1, rtol=1e-12)
    np.testing.assert_allclose(there.log_evidence, here.log_evidence, rtol=1e-9)
    np.testing.assert_allclose(np.sort(np.exp(there.log_weights)), np.sort(np.exp(here.log_weights)), atol=1e-9)


def test_without_context_the_posterior_is_the_prior():
    posterior = posterior_of(smooth_task(NOWHERE))
    weights = np.exp(posterior.log_weights)
    for nodes, (low, high) in zip(posterior.nodes.T, PRIOR.ranges, strict=True):
        np.testing.assert_allclose(weights @ nodes, (low + high) / 2, rtol=1e-9)
    np.testing.assert_allclose(posterior.log_evidence, 0, atol=1e-9)
    predictive = mixture(PRIOR, NOISE_STD, smooth_task(NOWHERE), posterior)
    low, high = PRIOR.scale
    variance = (low**2 + low * high + high**2) / 3 + NOISE_STD**2
    assert not np.any(predictive.mean)
    np.testing.assert_allclose(predictive.std**2, np.full((NUM_SLOTS, 1), variance), rtol=1e-2)


def test_representatives_are_drawn_as_often_as_they_weigh():
    posterior = posterior_of(smooth_task())
    nodes, weights = np.asarray(posterior.nodes), np.exp(posterior.log_weights)
    chosen = np.asarray(posterior.representatives(1_000))
    counts = np.array([(chosen == node).all(axis=1).sum() for node in nodes])
    assert np.all(np.abs(counts - 1_000 * weights)[weights > 0] < 2)


def test_carried_over_to_the_same_tasks_a_ceiling_is_itself():
    with jax.enable_x64(False):  # as for users
        record = ceiling_record("rbf", num_tasks=3, num_oracle=3)
    for parameters, floor, name in itertools.product(("known", "inferred"), ("exact", "floored"), ("context", "target")):
        wide, own = (part[parameters][floor][name]["mean"] for part in (record["carried_over"], record))
        np.testing.assert_allclose(wide, own, rtol=1e-12)


def test_on_average_it_pays_to_know_the_kernel():
    source = fixed_tasks(FunctionFamily(GaussianProcessPrior(PRIOR), max_points=12), TEST_SEED)
    indices = np.arange(8)
    with jax.enable_x64(False):
        known = oracle_scores(source, indices, sigma_min=0.1)
        inferred = inferred_scores(source, indices, quadrature_for(PRIOR), sigma_min=0.1, chunk_size=4)
    assert inferred["floored"]["target"].shape == (8,)
    assert 0 < known["target"].mean() - inferred["floored"]["target"].mean() < 0.3
    assert 0 < known["joint"].mean() - inferred["exact"]["joint"].mean() < 0.3
    assert inferred["exact"]["joint"].mean() > inferred["exact"]["target"].mean()
    assert inferred["floored"]["context"].max() <= stats.norm.logpdf(0, scale=0.1) < inferred["exact"]["context"].min()


@pytest.mark.parametrize("name", ["t-noise", "predation"])
def test_other_families_are_refused(name):
    source = fixed_tasks(TASKS[name].family, TEST_SEED)
    with pytest.raises(InputError, match="needs a Gaussian process family with uniform"):
        inferred_scores(source, np.arange(1), quadrature_for(PRIOR), sigma_min=0.1)


def test_sampling_refuses_families_of_other_noise():
    with pytest.raises(InputError, match="Student-t"):
        sampled_scores(fixed_tasks(TASKS["rbf"].family, TEST_SEED), np.arange(1), sigma_min=0.1)


NOISE = StudentTNoise(GaussianProcessPrior(PRIOR))


@pytest.mark.parametrize("value", [0.01, 0.03, 0.3, 3.0, 30.0])
def test_atoms_exceed_a_value_as_often_as_the_noise_does(value):
    atoms, gamma = noise_atoms(NOISE), 0.15 * (np.arange(10_000) + 0.5) / 10_000
    found = np.exp(atoms.log_masses) @ stats.norm.sf(value, scale=np.sqrt(atoms.variances))
    np.testing.assert_allclose(found, stats.t.sf(value / gamma, 2.1).mean(), rtol=1e-2)


def few_points() -> Task:
    """Two that agree, an outlier between them, and a target."""
    x, y = np.array([[-0.1], [0.0], [0.1], [0.05]]), np.array([[0.30], [0.90], [0.32], [0.35]])
    return Task.split(x, y, 3)


def enumerated_log_prob(task: Task, atoms, parameters: np.ndarray) -> np.ndarray:
    """Log density of every output, by going through all parameters and all variances of the context's points."""
    x, y = np.asarray(task.x), np.asarray(task.y)[:, 0]
    variances, masses = np.asarray(atoms.variances), np.exp(atoms.log_masses)
    combined = np.array(list(itertools.product(variances, repeat=3)))
    prior = np.prod(list(itertools.product(masses, repeat=3)), axis=1)
    density, total = np.zeros(len(x)), 0.0
    for length, scale in parameters:
        function = rbf_covariance(x, length, scale) - NOISE_STD**2 * np.eye(len(x))
        covariance = function[:3, :3] + (NOISE_STD**2 + combined)[:, None] * np.eye(3)
        inverse = np.linalg.inv(covariance)
        exponent = np.einsum("i,sij,j->s", y[:3], inverse, y[:3])
        weights = prior * np.exp(-exponent / 2) / np.sqrt(np.linalg.det(covariance))
        mean = np.einsum("pi,sij,j->sp", function[:, :3], inverse, y[:3])
        variance = np.diag(function) - np.einsum("pi,sij,pj->sp", function[:, :3], inverse, function[:, :3])
        std = np.sqrt(variance[..., None] + NOISE_STD**2 + variances)
        density += np.einsum("s,spa,a->p", weights, stats.norm.pdf(y[:, None], mean[..., None], std), masses)
        total += weights.sum()
    return np.log(density / total)


def assert_sampled(prior, parameters: np.ndarray) -> None:
    task, atoms = few_points(), noise_atoms(NOISE, 12)

    @jax.jit
    def log_prob(key):
        draws = sample_posterior(prior, NOISE_STD, atoms, task.context, num_burn_in=50, num_draws=4_000, key=key)
        return log_mean_exp(component_log_probs(prior, NOISE_STD, atoms, task, draws, {"exact": jnp.zeros(())})["exact"])

    found = np.array([log_prob(key) for key in jax.random.split(jax.random.key(0), 4)])
    wanted = enumerated_log_prob(task, atoms, parameters)
    np.testing.assert_array_less(np.abs(found.mean(axis=0) - wanted), 4 * stats.sem(found) + 0.01)
    assert np.all(stats.sem(found) < 0.05)


def test_sampling_with_a_known_kernel_is_the_sum_over_all_variances():
    assert_sampled(KnownKernel(PRIOR.build(jnp.array([0.3, 0.5]))), np.array([[0.3, 0.5]]))


def test_sampling_infers_the_kernel_as_the_sum_over_all_kernels_does():
    sides = [low + (high - low) * (np.arange(12) + 0.5) / 12 for low, high in PRIOR.ranges]
    assert_sampled(PRIOR, np.array(list(itertools.product(*sides))))


def test_halves_of_the_chains_agree():
    family = FunctionFamily(NOISE, max_points=10)
    with jax.enable_x64(False):
        scores = sampled_scores(fixed_tasks(family, TEST_SEED), np.arange(8), sigma_min=0.1, num_burn_in=20)
    for ceiling in scores.values():
        for name in ("exact", "floored"):
            first, second = (half[name]["target"] for half in ceiling.halves)
            together = ceiling.together[name]["target"]
            assert np.abs((first - second).mean()) < 0.1
            # The mean of two mixtures lies above the mean of their logarithms.
            assert np.all(together >= (first + second) / 2 - 1e-9)
