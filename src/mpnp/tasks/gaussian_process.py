"""Gaussian process priors of the paper's regression experiments. Each function gets its own random kernel parameters."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray
from tinygp import GaussianProcess
from tinygp.kernels import ExpSineSquared, ExpSquared, Kernel, Matern52
from tinygp.kernels.distance import L2Distance

from mpnp.tasks.base import AbstractProcess

__all__ = [
    "AbstractKernelPrior",
    "AbstractUniformKernelPrior",
    "GaussianProcessPrior",
    "Matern52Prior",
    "PeriodicPrior",
    "RBFPrior",
    "StudentTNoise",
]

Range = tuple[float, float]


class AbstractKernelPrior(eqx.Module):
    """A distribution over kernels."""

    @abc.abstractmethod
    def __call__(self, key: PRNGKeyArray) -> Kernel:
        """Draw one kernel."""


class AbstractUniformKernelPrior(AbstractKernelPrior):
    """Kernels with independent, uniformly distributed parameters.

    `ranges` and `build` are all that exact inference over the parameters needs.
    """

    @property
    @abc.abstractmethod
    def ranges(self) -> tuple[Range, ...]:
        """Lower and upper limit of each parameter."""

    @abc.abstractmethod
    def build(self, parameters: Float[Array, " parameter"]) -> Kernel:
        """The kernel with these parameters, given in the order of `ranges`."""

    def draw(self, key: PRNGKeyArray) -> Float[Array, " parameter"]:
        """Draw one set of parameters."""
        keys = jax.random.split(key, len(self.ranges))
        draws = [jax.random.uniform(k, minval=low, maxval=high) for k, (low, high) in zip(keys, self.ranges, strict=True)]
        return jnp.stack(draws)

    def __call__(self, key: PRNGKeyArray) -> Kernel:
        return self.build(self.draw(key))


class AbstractScaledKernelPrior(AbstractUniformKernelPrior):
    """Kernels $s^2 k(d/\\ell)$ with uniform length scale $\\ell$ and scale $s$."""

    length: Range = (0.1, 0.6)
    scale: Range = (0.1, 1.0)

    @property
    def ranges(self) -> tuple[Range, ...]:
        return self.length, self.scale


class RBFPrior(AbstractScaledKernelPrior):
    """$s^2 \\exp(-\\|x - x'\\|^2 / 2\\ell^2)$."""

    def build(self, parameters: Float[Array, " parameter"]) -> Kernel:
        length, scale = parameters
        return scale**2 * ExpSquared(length, distance=L2Distance())


class Matern52Prior(AbstractScaledKernelPrior):
    """$s^2 (1 + \\sqrt5 d + \\frac53 d^2) \\exp(-\\sqrt5 d)$ with $d = \\|x - x'\\|/\\ell$; the paper omits the exponential."""

    def build(self, parameters: Float[Array, " parameter"]) -> Kernel:
        length, scale = parameters
        return scale**2 * Matern52(length, distance=L2Distance())


class PeriodicPrior(AbstractUniformKernelPrior):
    """$s^2 \\exp(-2 \\sin^2(\\pi \\|x - x'\\|_1 / p)/\\ell^2)$ with uniform period $p$; the paper squares the distance.

    For one input dimension only: with more, this kernel is not positive definite.
    """

    length: Range = (0.1, 0.6)
    scale: Range = (0.1, 1.0)
    period: Range = (0.1, 0.5)

    @property
    def ranges(self) -> tuple[Range, ...]:
        return self.length, self.scale, self.period

    def build(self, parameters: Float[Array, " parameter"]) -> Kernel:
        length, scale, period = parameters
        return scale**2 * ExpSineSquared(period, gamma=2 / length**2)


class GaussianProcessPrior(AbstractProcess):
    """A zero-mean Gaussian process with a kernel drawn from a prior, observed with Gaussian noise.

    The noise of 0.02 comes from the authors' code, not from the paper. Its variance is all the jitter that float32 needs.
    """

    kernel_prior: AbstractKernelPrior
    noise_std: float = eqx.field(static=True, default=0.02)

    def __call__(self, x: Float[Array, "point x_dim"], key: PRNGKeyArray) -> Float[Array, "point 1"]:
        _, draw_key = jax.random.split(key)
        process = GaussianProcess(self.kernel(key), x, diag=jnp.asarray(self.noise_std**2, x.dtype))
        return process.sample(draw_key)[:, None]

    def kernel(self, key: PRNGKeyArray) -> Kernel:
        """The kernel behind the function that this key draws."""
        kernel_key, _ = jax.random.split(key)
        return self.kernel_prior(kernel_key)


class StudentTNoise(AbstractProcess):
    """Adds noise $\\gamma\\,T(2.1)$ to every observation, context included, with $\\gamma \\sim U(0, 0.15)$ drawn per point."""

    process: AbstractProcess
    degrees_of_freedom: float = eqx.field(static=True, default=2.1)
    max_gamma: float = eqx.field(static=True, default=0.15)

    def __call__(self, x: Float[Array, "point x_dim"], key: PRNGKeyArray) -> Float[Array, "point y_dim"]:
        _, gamma_key, t_key = jax.random.split(key, 3)
        clean = self.process(x, self.process_key(key))
        gamma = jax.random.uniform(gamma_key, clean.shape, maxval=self.max_gamma)
        return clean + gamma * jax.random.t(t_key, self.degrees_of_freedom, clean.shape)

    def process_key(self, key: PRNGKeyArray) -> PRNGKeyArray:
        """The subkey that draws the noise-free process."""
        return jax.random.split(key, 3)[0]
