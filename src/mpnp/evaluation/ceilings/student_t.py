"""Scores of the best predictor under Student-t noise, by sampling, with the sampling error."""

from collections.abc import Callable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from jaxtyping import Array, Float, Integer, Key, PRNGKeyArray
from tinygp.kernels import Kernel

from mpnp.errors import InputError
from mpnp.evaluation.ceilings.gibbs import Draws, sample_posterior
from mpnp.evaluation.ceilings.noise_atoms import NoiseAtoms, noise_atoms
from mpnp.evaluation.oracle import exact_function_posterior, to_float64
from mpnp.nn.likelihoods.predictive import log_mean_exp
from mpnp.tasks.base import AbstractTaskFamily, FunctionFamily, TaskSource
from mpnp.tasks.gaussian_process import AbstractUniformKernelPrior, GaussianProcessPrior, Range, StudentTNoise
from mpnp.tasks.task import Task, masked_mean

__all__ = ["KnownKernel", "SampledScores", "Scores", "component_log_probs", "heavy_tailed", "sampled_scores"]

NUM_CHAINS, NUM_BURN_IN, NUM_DRAWS = 8, 50, 32
"""Chains per task, and dropped and kept sweeps per chain."""

CHUNK = 50
"""Tasks scored per call."""

Scores = Mapping[str, Mapping[str, Float[Array, "*task"] | Float[np.ndarray, "*task"]]]
"""Scores by floor (`exact` or `floored`) and metric."""


class KnownKernel(AbstractUniformKernelPrior):
    """A prior without parameters: the kernel is known."""

    kernel: Kernel

    @property
    def ranges(self) -> tuple[Range, ...]:
        return ()

    def build(self, parameters: Float[Array, " parameter"]) -> Kernel:
        return self.kernel


class SampledScores(eqx.Module):
    """Scores of all chains together, and of each half of them, whose difference gives the sampling error."""

    together: Scores
    halves: tuple[Scores, Scores]


def sampled_scores(
    source: TaskSource, indices: Integer[np.ndarray, " task"], *, sigma_min: float, num_burn_in: int = NUM_BURN_IN
) -> dict[str, SampledScores]:
    """Scores with `known` and `inferred` kernel: `exact`, and `floored` with component scales of at least `sigma_min`."""
    parts, chunks = heavy_tailed(source.family), []
    for start in range(0, len(indices), CHUNK):
        tasks, kernels, keys = _draw(parts, source, jnp.asarray(indices[start : start + CHUNK]))
        drawn = jax.device_get((tasks, kernels))
        with jax.enable_x64(True):
            tasks, kernels = jax.tree.map(to_float64, drawn)
            floor = jnp.asarray(sigma_min, jnp.float64)
            # In separate programs: two concurrent batches of factorisations can deadlock jaxlib's threads on few cores.
            scores = {
                name: jax.device_get(_score(prior_of, parts, tasks, kernels, keys, floor, num_burn_in))
                for name, prior_of in (("known", _known), ("inferred", _inferred))
            }
            chunks.append(scores)
    return jax.tree.map(lambda *values: np.concatenate(values), *chunks)


class HeavyTailedFamily(eqx.Module):
    """The parts of a Gaussian process family with Student-t noise."""

    family: FunctionFamily
    noise: StudentTNoise
    process: GaussianProcessPrior
    prior: AbstractUniformKernelPrior


def heavy_tailed(family: AbstractTaskFamily) -> HeavyTailedFamily:
    """Take the family apart. Raises an error if it is of another kind."""
    if (
        isinstance(family, FunctionFamily)
        and isinstance(noise := family.process, StudentTNoise)
        and isinstance(process := noise.process, GaussianProcessPrior)
        and isinstance(prior := process.kernel_prior, AbstractUniformKernelPrior)
    ):
        return HeavyTailedFamily(family, noise, process, prior)
    raise InputError("sampling needs a Gaussian process family with Student-t noise and uniform kernel parameters")


@eqx.filter_jit
def _draw(
    parts: HeavyTailedFamily, source: TaskSource, indices: Integer[Array, " task"]
) -> tuple[Task, Kernel, Key[Array, " task"]]:
    def draw(index: Integer[Array, ""]) -> tuple[Task, Kernel, PRNGKeyArray]:
        key = source.task_key(index)
        kernel = parts.process.kernel(parts.noise.process_key(parts.family.process_key(key)))
        return parts.family.sample(key), kernel, source.noise_key(index)

    return jax.vmap(draw)(indices)


def _known(parts: HeavyTailedFamily, kernel: Kernel) -> AbstractUniformKernelPrior:
    return KnownKernel(kernel)


def _inferred(parts: HeavyTailedFamily, kernel: Kernel) -> AbstractUniformKernelPrior:
    return parts.prior


@eqx.filter_jit
def _score(
    prior_of: Callable[[HeavyTailedFamily, Kernel], AbstractUniformKernelPrior],
    parts: HeavyTailedFamily,
    tasks: Task,
    kernels: Kernel,
    keys: Key[Array, " task"],
    sigma_min: Float[Array, ""],
    num_burn_in: int,
) -> SampledScores:
    atoms, noise_std = noise_atoms(parts.noise), parts.process.noise_std

    def score(numbered: tuple[Task, Kernel, PRNGKeyArray]) -> SampledScores:
        task, kernel, key = numbered
        prior = prior_of(parts, kernel)

        def chain(key: PRNGKeyArray) -> Draws:
            return sample_posterior(
                prior, noise_std, atoms, task.context, num_burn_in=num_burn_in, num_draws=NUM_DRAWS, key=key
            )

        chains = jax.vmap(chain)(jax.random.split(key, NUM_CHAINS))
        draws = jax.tree.map(lambda leaf: leaf.reshape(NUM_CHAINS * NUM_DRAWS, leaf.shape[-1]), chains)
        floors = {"exact": jnp.zeros_like(sigma_min), "floored": sigma_min}
        log_probs = component_log_probs(prior, noise_std, atoms, task, draws, floors)
        half = len(draws.parameters) // 2
        together, first, second = (
            {name: _means(values[kept], task) for name, values in log_probs.items()}
            for kept in (slice(None), slice(half), slice(half, None))
        )
        return SampledScores(together, (first, second))

    return jax.lax.map(score, (tasks, kernels, keys))


def component_log_probs(
    prior: AbstractUniformKernelPrior,
    noise_std: float,
    atoms: NoiseAtoms,
    task: Task,
    draws: Draws,
    floors: dict[str, Float[Array, ""]],
) -> dict[str, Float[Array, "draw point"]]:
    """Marginal log density of each output under each draw: a mixture over its noise atoms, with floored scales."""

    def component(draw: Draws) -> dict[str, Float[Array, " point"]]:
        std = jnp.sqrt(noise_std**2 + draw.variances)
        mean, covariance = exact_function_posterior(prior.build(draw.parameters), std, task)
        scale = jnp.sqrt(jnp.diagonal(covariance)[:, None] + noise_std**2 + atoms.variances)
        return {
            name: jax.nn.logsumexp(atoms.log_masses + norm.logpdf(task.y, mean[:, None], jnp.maximum(scale, floor)), axis=-1)
            for name, floor in floors.items()
        }

    return jax.lax.map(component, draws, batch_size=32)


def _means(log_probs: Float[Array, "draw point"], task: Task) -> dict[str, Float[Array, ""]]:
    log_prob = log_mean_exp(log_probs)
    masks = {"context": task.context_mask, "target": task.target_mask, "task": task.mask}
    return {name: masked_mean(log_prob, mask) for name, mask in masks.items()}
