"""Remedies look at the context alone: they scale by what it asks for, and adapt to what it shows."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from remedies import FACTORS, Adapted, Recalibrated

from helpers.models import small_model
from mpnp.models.backbones.base import AbstractBackbone
from mpnp.models.base import AbstractNeuralProcess
from mpnp.nn.likelihoods.decoder import Decoder
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.tasks.task import PointSet

KEY = jax.random.key(3)
X_TARGET = jnp.linspace(-2, 2, 7)[:, None]


def context(slots: int = 12, num: int = 9, scale: float = 1.0) -> PointSet:
    x, y = np.random.default_rng(0).normal(size=(2, slots, 1)).astype(np.float32)
    return PointSet(jnp.asarray(x), jnp.asarray(scale * y), jnp.arange(slots) < num)


class SureOfZero(AbstractNeuralProcess):
    """Expects zero everywhere, with a standard deviation of one tenth."""

    backbone: AbstractBackbone
    decoder: Decoder

    def draw_noise(self, context, num_samples, *, key):
        return None

    def loss_terms(self, task, noise):
        raise NotImplementedError

    def predict_given(self, context, x_target, noise):
        zero = jnp.zeros((1, len(x_target), 1))
        return Predictive(zero, zero + 0.1)


@pytest.mark.parametrize("spread", [0.1, 0.3, 0.6])
def test_the_factor_is_the_one_of_maximum_likelihood(spread):
    inner = small_model("cnp")
    model = Recalibrated(SureOfZero(inner.backbone, inner.decoder))
    given = context(slots=200, num=200, scale=spread)
    answer = model.predict(given, X_TARGET, key=KEY)
    # Of a normal density with mean zero, the best standard deviation is the root mean square; the grid is within 5% of it.
    best = float(jnp.sqrt(jnp.mean(given.y**2)))
    np.testing.assert_allclose(answer.scale, best, rtol=0.06)
    np.testing.assert_array_equal(answer.loc, 0)


@pytest.mark.parametrize("name", ["cnp", "bnp", "mpanp"])
def test_recalibration_scales_every_deviation_by_one_factor_and_moves_no_mean(name):
    inner = small_model(name)
    model = Recalibrated(inner)
    parts, noise = model.draw_noise(context(), 3, key=KEY)
    plain, scaled = inner.predict_given(context(), X_TARGET, noise), model.predict_given(context(), X_TARGET, (parts, noise))
    np.testing.assert_array_equal(plain.loc, scaled.loc)
    ratio = np.asarray(scaled.scale / plain.scale)
    np.testing.assert_allclose(ratio, ratio.flat[0], rtol=1e-5)
    assert np.abs(np.asarray(FACTORS) - ratio.flat[0]).min() < 1e-4


@pytest.mark.parametrize("remedy", [Recalibrated, lambda model: Adapted(model, num_steps=3)])
def test_what_is_in_unused_slots_has_no_effect(remedy):
    model, clean = remedy(small_model("mpnp")), context()
    noise = model.draw_noise(clean, 2, key=KEY)
    junk = [jnp.where(clean.mask[:, None], values, 7.0) for values in (clean.x, clean.y)]
    dirty = eqx.tree_at(lambda points: (points.x, points.y), clean, junk)
    first, second = (eqx.filter_jit(model.predict_given)(points, X_TARGET, noise) for points in (clean, dirty))
    np.testing.assert_array_equal(first.loc, second.loc)
    np.testing.assert_array_equal(first.scale, second.scale)


@pytest.mark.parametrize("name", ["cnp", "mpnp"])
def test_adaptation_fits_the_context_better_and_leaves_the_model_as_it_was(name):
    inner = small_model(name)
    given = context(slots=20, num=20)
    before = jax.tree.map(lambda leaf: leaf, inner)

    def fit(model):
        return float(model.predict_given(given, given.x, noise).log_prob(given.y).mean())

    model = Adapted(inner, num_steps=40, learning_rate=3e-3)
    steps, noise = model.draw_noise(given, 3, key=KEY)
    assert fit(eqx.filter_jit(model.adapted)(given, steps)) > fit(inner) + 0.05
    assert eqx.tree_equal(before, inner)


def test_a_bootstrap_of_a_part_of_the_context_draws_from_that_part():
    inner, given = small_model("bnp"), context()
    (held_out, noises), _ = Recalibrated(inner).draw_noise(given, 3, key=KEY)
    (in_part, adapting), _ = Adapted(inner, num_steps=4).draw_noise(given, 3, key=KEY)
    for allowed, noise in ((given.mask & ~held_out, noises), (given.mask & in_part, adapting)):
        for number, part in enumerate(np.asarray(allowed)):
            for drawn in jax.tree.leaves(jax.tree.map(lambda leaf, number=number: leaf[number], noise)):
                assert set(np.unique(np.asarray(drawn)[:, part])) <= set(np.flatnonzero(part))


def test_no_step_is_no_change():
    inner = small_model("cnp")
    model = Adapted(inner, num_steps=4, learning_rate=0.0)
    np.testing.assert_array_equal(
        model.predict(context(), X_TARGET, key=KEY).loc, inner.predict(context(), X_TARGET, key=KEY).loc
    )


def test_a_remedied_model_is_a_model():
    inner = small_model("mpanp")
    model = Recalibrated(Adapted(inner, num_steps=2))
    assert (model.x_dim, model.y_dim, model.dtype) == (1, 1, inner.dtype) and model.num_components(5) == 5
    assert eqx.filter_jit(model.predict)(context(), X_TARGET, key=KEY, num_samples=5).loc.shape == (5, 7, 1)
