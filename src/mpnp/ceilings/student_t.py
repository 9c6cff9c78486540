"""What the best predictor scores under Student-t noise, by sampling, with the error that sampling leaves."""

from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from jaxtyping import Array, Float, Integer, Key, PRNGKeyArray
from tinygp.kernels import Kernel

from mpnp.ceilings.gibbs import Draws, sample_posterior
from mpnp.ceilings.noise_atoms import NoiseAtoms, noise_atoms
from mpnp.errors import InputError
from mpnp.networks.predictive import log_mean_exp
from mpnp.oracle import exact_function_posterior, to_float64
from mpnp.tasks.families import AbstractTaskFamily, FunctionFamily
from mpnp.tasks.gaussian_process import AbstractUniformKernelPrior, GaussianProcessPrior, Range, StudentTNoise
from mpnp.tasks.sources import TaskSource
from mpnp.tasks.task import Task, masked_mean

__all__ = ["KnownKernel", "SampledScores", "Scores", "component_log_probs", "heavy_tailed", "sampled_scores"]

NUM_CHAINS, NUM_BURN_IN, NUM_DRAWS = 8, 50, 32
"""Chains of a task, sweeps of each that are dropped, and those that are kept."""

CHUNK = 50
"""Tasks scored in one call."""

Scores = Mapping[str, Mapping[str, Float[Array, "*task"] | Float[np.ndarray, "*task"]]]
"""Of each metric, `exact` and `floored`."""


class KnownKernel(AbstractUniformKernelPrior):
    """A prior that leaves nothing open: it has no parameter."""

    kernel: Kernel

    @property
    def ranges(self) -> tuple[Range, ...]:
        return ()

    def build(self, parameters: Float[Array, " parameter"]) -> Kernel:
        return self.kernel


class SampledScores(eqx.Module):
    """Scores of all chains together, and of either half of the chains by itself: how far these differ is the sampling error."""

    together: Scores
    halves: tuple[Scores, Scores]


def sampled_scores(source: TaskSource, indices: Integer[np.ndarray, " task"], *, sigma_min: float) -> dict[str, SampledScores]:
    """Scores with the kernel `known` and `inferred`: `exact`, and `floored` with no narrower components."""
    parts, chunks = heavy_tailed(source.family), []
    for start in range(0, len(indices), CHUNK):
        tasks, kernels, keys = _draw(parts, source, jnp.asarray(indices[start : start + CHUNK]))
        drawn = jax.device_get((tasks, kernels))
        with jax.enable_x64(True):
            tasks, kernels = jax.tree.map(to_float64, drawn)
            chunks.append(jax.device_get(_score(parts, tasks, kernels, keys, jnp.asarray(sigma_min, jnp.float64))))
    return jax.tree.map(lambda *values: np.concatenate(values), *chunks)


class HeavyTailedFamily(eqx.Module):
    """The parts of a family of Gaussian processes under Student-t noise."""

    family: FunctionFamily
    noise: StudentTNoise
    process: GaussianProcessPrior
    prior: AbstractUniformKernelPrior


def heavy_tailed(family: AbstractTaskFamily) -> HeavyTailedFamily:
    """Take the family apart, if it is of that kind."""
    if (
        isinstance(family, FunctionFamily)
        and isinstance(noise := family.process, StudentTNoise)
        and isinstance(process := noise.process, GaussianProcessPrior)
        and isinstance(prior := process.kernel_prior, AbstractUniformKernelPrior)
    ):
        return HeavyTailedFamily(family, noise, process, prior)
    raise InputError("sampling is for Gaussian processes with Student-t noise and uniform kernel parameters only")


@eqx.filter_jit
def _draw(
    parts: HeavyTailedFamily, source: TaskSource, indices: Integer[Array, " task"]
) -> tuple[Task, Kernel, Key[Array, " task"]]:
    def draw(index: Integer[Array, ""]) -> tuple[Task, Kernel, PRNGKeyArray]:
        key = source.task_key(index)
        kernel = parts.process.kernel(parts.noise.process_key(parts.family.process_key(key)))
        return parts.family.sample(key), kernel, source.noise_key(index)

    return jax.vmap(draw)(indices)


@eqx.filter_jit
def _score(
    parts: HeavyTailedFamily, tasks: Task, kernels: Kernel, keys: Key[Array, " task"], sigma_min: Float[Array, ""]
) -> dict[str, SampledScores]:
    atoms, noise_std = noise_atoms(parts.noise), parts.process.noise_std

    def score_under(prior: AbstractUniformKernelPrior, task: Task, key: PRNGKeyArray) -> SampledScores:
        def chain(key: PRNGKeyArray) -> Draws:
            return sample_posterior(
                prior, noise_std, atoms, task.context, num_burn_in=NUM_BURN_IN, num_draws=NUM_DRAWS, key=key
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

    def score(numbered: tuple[Task, Kernel, PRNGKeyArray]) -> dict[str, SampledScores]:
        task, kernel, key = numbered
        return {"known": score_under(KnownKernel(kernel), task, key), "inferred": score_under(parts.prior, task, key)}

    return jax.lax.map(score, (tasks, kernels, keys))


def component_log_probs(
    prior: AbstractUniformKernelPrior,
    noise_std: float,
    atoms: NoiseAtoms,
    task: Task,
    draws: Draws,
    floors: dict[str, Float[Array, ""]],
) -> dict[str, Float[Array, "draw point"]]:
    """Log density of each output by itself under each draw, a mixture over its own noise, no component below the floor."""

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
