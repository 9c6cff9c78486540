"""Gibbs sampling of kernel parameters and noise variances under heavy-tailed noise.

Given the noise variance of each observation, the model is Gaussian. Sweeps alternate between the kernel parameters given the
variances, and each variance given the parameters and all other variances. The function itself is always integrated out.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, Float, Int, PRNGKeyArray
from tinygp.kernels import Kernel

from mpnp.evaluation.ceilings.noise_atoms import NoiseAtoms
from mpnp.evaluation.oracle import exact_log_evidence
from mpnp.tasks.gaussian_process import AbstractUniformKernelPrior
from mpnp.tasks.task import PointSet

__all__ = ["Draws", "sample_posterior"]

PARAMETER_STEPS = 3
"""Metropolis proposals per sweep: together they cost about as much as the sweep over the variances."""


class Draws(eqx.Module):
    """Kernel parameters, and the variance of each slot's non-Gaussian noise."""

    parameters: Float[Array, "*draw parameter"]
    variances: Float[Array, "*draw point"]


def sample_posterior(
    prior: AbstractUniformKernelPrior,
    noise_std: float,
    atoms: NoiseAtoms,
    context: PointSet,
    *,
    num_burn_in: int,
    num_draws: int,
    key: PRNGKeyArray,
) -> Draws:
    """One Markov chain of posterior draws, one per sweep, started at a draw from the prior."""
    parameter_key, atom_key, sweep_key = jax.random.split(key, 3)
    low, high = _box(prior)
    parameters = low + (high - low) * jax.random.uniform(parameter_key, low.shape, low.dtype)
    chosen = jax.random.categorical(atom_key, atoms.log_masses, shape=context.mask.shape)
    start = Draws(parameters, atoms.variances[chosen])

    def sweep(draws: Draws, key: PRNGKeyArray) -> tuple[Draws, Draws]:
        parameter_key, variance_key = jax.random.split(key)
        parameters = _move_parameters(prior, noise_std, context, draws, key=parameter_key)
        uniform = jax.random.uniform(variance_key, context.mask.shape, context.y.dtype)
        variances = _redraw_variances(prior.build(parameters), noise_std, atoms, context, draws.variances, uniform)
        moved = Draws(parameters, variances)
        return moved, moved

    _, chain = jax.lax.scan(sweep, start, jax.random.split(sweep_key, num_burn_in + num_draws))
    return jax.tree.map(lambda leaf: leaf[num_burn_in:], chain)


def _move_parameters(
    prior: AbstractUniformKernelPrior, noise_std: float, context: PointSet, draws: Draws, *, key: PRNGKeyArray
) -> Float[Array, " parameter"]:
    """Metropolis steps for the parameters, given the variances."""
    low, high = _box(prior)
    std = jnp.sqrt(noise_std**2 + draws.variances)

    def step(
        state: tuple[Float[Array, " parameter"], Float[Array, ""]], key: PRNGKeyArray
    ) -> tuple[tuple[Float[Array, " parameter"], Float[Array, ""]], None]:
        parameters, evidence = state
        size_key, move_key, accept_key = jax.random.split(key, 3)
        # Random step sizes, because the posterior may be as broad as the prior or a hundredth of it.
        size = 10 ** jax.random.uniform(size_key, (), low.dtype, -2, 0)
        proposal = parameters + size * (high - low) * jax.random.normal(move_key, parameters.shape, low.dtype)
        inside = jnp.all((low <= proposal) & (proposal <= high))
        proposal = jnp.clip(proposal, low, high)
        proposed = exact_log_evidence(prior.build(proposal), std, context)
        accept = inside & (jnp.log(jax.random.uniform(accept_key, (), low.dtype)) < proposed - evidence)
        return (jnp.where(accept, proposal, parameters), jnp.where(accept, proposed, evidence)), None

    start = draws.parameters, exact_log_evidence(prior.build(draws.parameters), std, context)
    (parameters, _), _ = jax.lax.scan(step, start, jax.random.split(key, PARAMETER_STEPS))
    return parameters


def _redraw_variances(
    kernel: Kernel,
    noise_std: float,
    atoms: NoiseAtoms,
    context: PointSet,
    variances: Float[Array, " point"],
    uniform: Float[Array, " point"],
) -> Float[Array, " point"]:
    """Resample each context point's variance, given the other points and their variances."""
    mask, y = context.mask, context.y[:, 0]
    both = mask[:, None] & mask[None, :]
    diagonal = jnp.where(mask, noise_std**2 + variances, 1.0)
    precision = jnp.linalg.inv(jnp.where(both, kernel(context.x, context.x), 0) + jnp.diag(diagonal))

    def redraw(i: Int[Array, ""], state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        variances, precision, weighted = state
        # Leave-one-out prediction: its error, and its variance without this point's heavy-tailed noise.
        error = weighted[i] / precision[i, i]
        spread = jnp.maximum(1 / precision[i, i] - variances[i], noise_std**2)
        density = jnp.exp(atoms.log_masses + norm.logpdf(error, 0, jnp.sqrt(spread + atoms.variances)))
        cumulative = jnp.cumsum(density)
        chosen = jnp.searchsorted(cumulative, uniform[i] * cumulative[-1])
        change = jnp.where(mask[i], atoms.variances[chosen] - variances[i], 0)
        factor = change / (1 + change * precision[i, i])
        column = precision[:, i]
        return (
            variances.at[i].add(change),
            precision - factor * column[:, None] * column[None, :],
            weighted - factor * column * weighted[i],
        )

    num_slots = jnp.max(jnp.where(mask, jnp.arange(len(mask)) + 1, 0))
    return jax.lax.fori_loop(0, num_slots, redraw, (variances, precision, precision @ y))[0]


def _box(prior: AbstractUniformKernelPrior) -> tuple[Float[Array, " parameter"], Float[Array, " parameter"]]:
    """Lower and upper limits of all parameters; empty if there are none."""
    low, high = jnp.array(prior.ranges, float).reshape(-1, 2).T
    return low, high
