"""Integration by sampling from the prior: slow to converge, but simple enough to serve as a reference."""

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from mpnp.evaluation.ceilings.parameters import AbstractIntegrator, LogLikelihood, ParameterPosterior, evaluate
from mpnp.tasks.gaussian_process import AbstractUniformKernelPrior


class PriorSampling(AbstractIntegrator):
    """Importance sampling: prior draws weighted by their likelihood."""

    key: PRNGKeyArray
    num_draws: int = 20_000

    def __call__(self, prior: AbstractUniformKernelPrior, log_likelihood: LogLikelihood) -> ParameterPosterior:
        low, high = (jnp.array(ends, float) for ends in zip(*prior.ranges, strict=True))
        nodes = low + (high - low) * jax.random.uniform(self.key, (self.num_draws, len(prior.ranges)))
        return ParameterPosterior(nodes, evaluate(log_likelihood, nodes) - jnp.log(self.num_draws))
