"""Predictions: at each target a mixture of Gaussians, one component a sampled function."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

__all__ = ["Predictive", "log_mean_exp"]


def log_mean_exp(values: Float[Array, "sample *rest"]) -> Float[Array, "*rest"]:
    """$\\log \\frac{1}{K}\\sum_k \\exp v_k$ over the leading axis."""
    return jax.nn.logsumexp(values, axis=0) - math.log(values.shape[0])


class Predictive(eqx.Module):
    """An equal mixture over K sampled functions, each a Gaussian of its own mean and standard deviation at every target.

    Given the function, outputs are independent over targets and output dimensions. That makes the mixture at one target a
    marginal prediction, and one component over all targets a coherent function.
    """

    loc: Float[Array, "sample target y_dim"]
    scale: Float[Array, "sample target y_dim"]

    @property
    def mean(self) -> Float[Array, "target y_dim"]:
        """Mean of the mixture."""
        return self.loc.mean(axis=0)

    @property
    def std(self) -> Float[Array, "target y_dim"]:
        """Standard deviation of the mixture: between and within spread together."""
        return jnp.sqrt(self.between_std**2 + self.within_std**2)

    @property
    def between_std(self) -> Float[Array, "target y_dim"]:
        """Spread of the sampled functions around their mean."""
        return self.loc.std(axis=0)

    @property
    def within_std(self) -> Float[Array, "target y_dim"]:
        """Root mean square of the sampled functions' own standard deviations."""
        return jnp.sqrt((self.scale**2).mean(axis=0))

    def component_log_prob(self, y: Float[Array, "*#sample target y_dim"]) -> Float[Array, "sample target"]:
        """Log density of each point under each sampled function, summed over output dimensions."""
        return norm.logpdf(y, self.loc, self.scale).sum(axis=-1)

    def log_prob(self, y: Float[Array, "target y_dim"]) -> Float[Array, " target"]:
        """Log density of each point by itself, $\\log \\frac{1}{K}\\sum_k p(y_i | \\theta^{(k)})$: the paper's metric."""
        return log_mean_exp(self.component_log_prob(y))

    def joint_log_prob(self, y: Float[Array, "target y_dim"], mask: Bool[Array, " target"]) -> Float[Array, ""]:
        """Log density of all points in the mask together, $\\log \\frac{1}{K}\\sum_k \\prod_i p(y_i | \\theta^{(k)})$."""
        return log_mean_exp(jnp.sum(self.component_log_prob(y), axis=-1, where=mask))

    def cdf(self, y: Float[Array, "target y_dim"]) -> Float[Array, "target y_dim"]:
        """Probability of an output below `y`, for each target and output dimension."""
        return norm.cdf(y, self.loc, self.scale).mean(axis=0)

    def quantile(self, level: float | Float[Array, ""]) -> Float[Array, "target y_dim"]:
        """The value that an output stays below with probability `level`, by bisection on the mixture's distribution."""
        # The mixture's quantile lies between the smallest and the largest of its components' quantiles.
        component = norm.ppf(jnp.asarray(level, self.loc.dtype), self.loc, self.scale)

        def halve(_: Int[Array, ""], bounds: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = bounds
            middle = (low + high) / 2
            below = self.cdf(middle) < level
            return jnp.where(below, middle, low), jnp.where(below, high, middle)

        low, high = jax.lax.fori_loop(0, 60, halve, (component.min(axis=0), component.max(axis=0)))
        return (low + high) / 2

    def crps(self, y: Float[Array, "target y_dim"]) -> Float[Array, "target y_dim"]:
        """Continuous ranked probability score of the mixture, in closed form; smaller is better, in units of y."""
        error = _mean_abs_normal(y - self.loc, self.scale).mean(axis=0)
        spread = _mean_abs_normal(
            self.loc[:, None] - self.loc[None], jnp.sqrt(self.scale[:, None] ** 2 + self.scale[None] ** 2)
        )
        return error - spread.mean(axis=(0, 1)) / 2

    def sample(self, num: int, *, key: PRNGKeyArray, noise: bool = False) -> Float[Array, "num target y_dim"]:
        """Coherent functions: each draw picks one component and follows it over all targets, with its noise if asked."""
        pick_key, noise_key = jax.random.split(key)
        chosen = jax.random.randint(pick_key, (num,), 0, self.loc.shape[0])
        draws = self.loc[chosen]
        if not noise:
            return draws
        return draws + self.scale[chosen] * jax.random.normal(noise_key, draws.shape, draws.dtype)


def _mean_abs_normal(mean: Float[Array, "..."], std: Float[Array, "..."]) -> Float[Array, "..."]:
    """$E|X|$ for a normal X."""
    ratio = mean / std
    return 2 * std * norm.pdf(ratio) + mean * (2 * norm.cdf(ratio) - 1)
