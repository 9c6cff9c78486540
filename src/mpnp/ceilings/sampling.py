"""Integrate over the prior by drawing from it: slow to converge, but too simple to be wrong."""

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from mpnp.ceilings.parameters import AbstractIntegrator, LogLikelihood, ParameterPosterior, evaluate
from mpnp.tasks.gaussian_process import AbstractUniformKernelPrior

__all__ = ["PriorSampling"]


class PriorSampling(AbstractIntegrator):
    """Importance sampling: draws from the prior, weighted by their likelihoods."""

    key: PRNGKeyArray
    num_draws: int = 20_000

    def __call__(self, prior: AbstractUniformKernelPrior, log_likelihood: LogLikelihood) -> ParameterPosterior:
        low, high = (jnp.array(ends, float) for ends in zip(*prior.ranges, strict=True))
        nodes = low + (high - low) * jax.random.uniform(self.key, (self.num_draws, len(prior.ranges)))
        return ParameterPosterior(nodes, evaluate(log_likelihood, nodes) - jnp.log(self.num_draws))
