"""A neural process that needs no training: the exact posterior predictive of a Gaussian process."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from helpers.models import SETTINGS
from mpnp.inference.card import ModelCard, TrainingDomain
from mpnp.inference.model import FittedModel
from mpnp.inference.placement import Placement
from mpnp.models.base import AbstractNeuralProcess
from mpnp.nn.likelihoods.calibration import Calibration
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.tables.columns import Schema
from mpnp.tables.curves import Curves

NOISE, LENGTH = 0.3, 0.7


def kernel(a, b):
    return jnp.exp(-((a - b.T) ** 2) / (2 * LENGTH**2))


class NoDecoder(eqx.Module):
    """Dimensions, and a place for a calibration, which is not applied."""

    x_dim: int = eqx.field(static=True, default=1)
    y_dim: int = eqx.field(static=True, default=1)
    calibration: Calibration | None = eqx.field(static=True, default=None)


class ExactProcess(AbstractNeuralProcess):
    """The posterior predictive of a Gaussian process, one target at a time: what a perfect conditional model has learnt.

    `stretch` multiplies its standard deviations: below 1, it is overconfident. None is below `floor`.
    """

    decoder: NoDecoder = NoDecoder()
    stretch: float = eqx.field(static=True, default=1.0)
    floor: float = eqx.field(static=True, default=0.0)

    @property
    def backbone(self):
        raise NotImplementedError

    @property
    def dtype(self):
        return jnp.float32

    def num_components(self, num_samples):
        return 1

    def draw_noise(self, context, num_samples, *, key):
        return None

    def loss_terms(self, task, noise):
        raise NotImplementedError

    def predict_given(self, context, x_target, noise):
        # Absent points have infinite noise.
        variances = jnp.where(context.mask, NOISE**2, 1e6)
        covariance, cross = kernel(context.x, context.x) + jnp.diag(variances), kernel(x_target, context.x)
        weights = jnp.linalg.solve(covariance, cross.T).T
        variance = 1 + NOISE**2 - (weights * cross).sum(axis=1)
        std = jnp.maximum(self.stretch * jnp.sqrt(variance), self.floor)
        return Predictive((weights @ context.y)[None], std[None, :, None])


def exact_model(**faults):
    """The process as a fitted model, trained on inputs from -2 to 2."""
    card = ModelCard(
        model="canp",
        settings=SETTINGS,
        columns=Schema.numbered(1, 1),
        seen=TrainingDomain(1_000, 20_000, -2 * np.ones(1), 2 * np.ones(1), 12, Placement.anywhere(1)),
        reference=None,
        about={},
    )
    return FittedModel(ExactProcess(**faults), card)


def exact_curves(num_curves=150, *, seed=0):
    """Curves drawn from the process."""
    rng, pairs = np.random.default_rng(seed), []
    for _ in range(num_curves):
        x = rng.uniform(-2, 2, (rng.integers(6, 14), 1))
        covariance = np.exp(-((x - x.T) ** 2) / (2 * LENGTH**2)) + NOISE**2 * np.eye(len(x))
        pairs.append((x, np.linalg.cholesky(covariance) @ rng.standard_normal((len(x), 1))))
    return Curves.from_pairs(pairs)
