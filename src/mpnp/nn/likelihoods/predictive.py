"""Predictive distributions: at each target a mixture with one component per sampled function. Holds all mixture formulas."""

import functools
import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from mpnp.nn.likelihoods.distribution import AbstractDistribution, Values, namespace, special
from mpnp.nn.likelihoods.gaussian import Gaussian

__all__ = ["Predictive", "log_mean_exp"]

HALVINGS = 60
"""Steps of the bisection that finds a quantile: enough for double precision."""


def log_mean_exp(values: Float[Values, "sample *rest"]) -> Float[Values, "*rest"]:
    """$\\log \\frac{1}{K}\\sum_k \\exp v_k$ over the leading axis."""
    return namespace(values).asarray(special(values).logsumexp(values, axis=0) - math.log(values.shape[0]))


class Predictive(eqx.Module):
    """An equal mixture of K sampled functions, each with its own location and scale at every target.

    Given the function, outputs are independent across targets and output dimensions. So the mixture at one target is a
    marginal prediction, and one component across all targets is a coherent function.

    >>> predictive = Predictive(loc=jnp.array([[[0.0]], [[2.0]]]), scale=jnp.ones((2, 1, 1)))
    >>> predictive.mean.item(), predictive.cdf(jnp.array([[1.0]])).item()
    (1.0, 0.5)
    """

    loc: Float[Values, "sample target y_dim"]
    scale: Float[Values, "sample target y_dim"]
    distribution: AbstractDistribution = eqx.field(static=True, default=Gaussian())

    @property
    def mean(self) -> Float[Values, "target y_dim"]:
        """Mean of the mixture."""
        return self.loc.mean(axis=0)

    @property
    def std(self) -> Float[Values, "target y_dim"]:
        """Standard deviation of the mixture: the spread between and within functions together."""
        return namespace(self.loc).sqrt(self.between_std**2 + self.within_std**2)

    @property
    def between_std(self) -> Float[Values, "target y_dim"]:
        """Spread of the sampled functions around their mean."""
        return self.loc.std(axis=0)

    @property
    def within_std(self) -> Float[Values, "target y_dim"]:
        """Root mean square of the sampled functions' own standard deviations."""
        return self.distribution.std * namespace(self.loc).sqrt((self.scale**2).mean(axis=0))

    def with_noise(self, std: Float[Values, " target"] | Float[Values, "target y_dim"] | None) -> "Predictive":
        """The prediction of measurements whose normal noise has this standard deviation; None: of the outputs as they are.

        Exact for normal distributions: $\\sigma^2 + s^2$.

        >>> Predictive(jnp.zeros((1, 1, 1)), jnp.full((1, 1, 1), 3.0)).with_noise(jnp.array([4.0])).scale.item()
        5.0
        """
        if std is None:
            return self
        noise = std[:, None] if std.ndim == 1 else std
        return Predictive(self.loc, namespace(self.loc).sqrt(self.scale**2 + noise**2), self.distribution)

    def component_log_density(self, y: Float[Values, "*#sample target y_dim"]) -> Float[Values, "sample target y_dim"]:
        """Log density of each output under each sampled function."""
        return self.distribution.log_density((y - self.loc) / self.scale) - namespace(self.loc).log(self.scale)

    def component_log_prob(self, y: Float[Values, "*#sample target y_dim"]) -> Float[Values, "sample target"]:
        """Log density of each point under each sampled function, summed over output dimensions."""
        return self.component_log_density(y).sum(axis=-1)

    def log_prob(self, y: Float[Values, "target y_dim"]) -> Float[Values, " target"]:
        """Marginal log density of each point, $\\log \\frac{1}{K}\\sum_k p(y_i | \\theta^{(k)})$: the paper's metric."""
        return log_mean_exp(self.component_log_prob(y))

    def joint_log_prob(self, y: Float[Values, "target y_dim"], mask: Bool[Values, " target"]) -> Float[Values, ""]:
        """Joint log density of the points in the mask, $\\log \\frac{1}{K}\\sum_k \\prod_i p(y_i | \\theta^{(k)})$."""
        return log_mean_exp(namespace(self.loc).sum(self.component_log_prob(y), axis=-1, where=mask))

    def cdf(self, y: Float[Values, "target y_dim"]) -> Float[Values, "target y_dim"]:
        """Probability of an output below `y`, for each target and output dimension."""
        return self.distribution.cdf((y - self.loc) / self.scale).mean(axis=0)

    def quantile(self, level: float | Float[Array, ""]) -> Float[Values, "target y_dim"]:
        """The value that an output stays below with probability `level`, by bisection on the mixture's cdf."""
        xp = namespace(self.loc)
        # The mixture's quantile lies between the smallest and the largest of its components' quantiles.
        component = self.loc + self.scale * self.distribution.quantile(xp.full(1, level, self.loc.dtype))

        def halve(_: object, bounds: tuple[Values, Values]) -> tuple[Values, Values]:
            low, high = bounds
            middle = (low + high) / 2
            below = self.cdf(middle) < level
            return xp.where(below, middle, low), xp.where(below, high, middle)

        low, high = _repeat(halve, (component.min(axis=0), component.max(axis=0)))
        return (low + high) / 2

    def crps(self, y: Float[Values, "target y_dim"]) -> Float[Values, "target y_dim"]:
        """Continuous ranked probability score of the mixture, in closed form; smaller is better, in units of y."""
        error = self.distribution.mean_absolute(y - self.loc, self.scale).mean(axis=0)
        spread = self.distribution.mean_absolute_difference(
            self.loc[:, None] - self.loc[None], self.scale[:, None], self.scale[None]
        )
        return error - spread.mean(axis=(0, 1)) / 2

    def sample(self, num: int, *, key: PRNGKeyArray, noise: bool = False) -> Float[Array, "num target y_dim"]:
        """Draw coherent functions: each picks one component and follows it across all targets. `noise` adds its noise."""
        pick_key, noise_key = jax.random.split(key)
        chosen = jax.random.randint(pick_key, (num,), 0, self.loc.shape[0])
        draws = self.loc[chosen]
        if not noise:
            return draws
        return draws + self.scale[chosen] * self.distribution.sample(draws.shape, draws.dtype, key=noise_key)


def _repeat(
    step: Callable[[object, tuple[Values, Values]], tuple[Values, Values]], start: tuple[Values, Values]
) -> tuple[Values, Values]:
    """Take `HALVINGS` steps, for JAX arrays in one compiled loop."""
    if namespace(start[0]) is jnp:
        return jax.lax.fori_loop(0, HALVINGS, step, start)
    return functools.reduce(lambda bounds, number: step(number, bounds), range(HALVINGS), start)
