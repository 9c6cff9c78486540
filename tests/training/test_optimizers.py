"""Optimisers: arrays stacked by shape move as they would each by itself."""

import jax
import jax.numpy as jnp
import numpy as np
from optax import contrib

from helpers.models import small_model
from mpnp.training.optimizers import OPTIMIZERS


def test_muon_moves_every_array_as_if_alone():
    model, rate = small_model("mpanp"), 1e-2
    stacked, plain = OPTIMIZERS["muon"](rate), contrib.muon(rate, adam_learning_rate=rate / 10)
    states = [optimizer.init(model) for optimizer in (stacked, plain)]
    for number in range(3):
        keys = iter(jax.random.split(jax.random.key(number), len(jax.tree.leaves(model))))
        gradient = jax.tree.map(lambda leaf, keys=keys: jax.random.normal(next(keys), leaf.shape), model)
        (got, states[0]), (wanted, states[1]) = (
            jax.jit(optimizer.update)(gradient, state, model) for optimizer, state in zip((stacked, plain), states, strict=True)
        )
        assert jax.tree.structure(got) == jax.tree.structure(wanted)
        for moved, alone in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(moved, alone, rtol=1e-4, atol=1e-6)


def test_muon_leaves_what_has_no_gradient_where_it_is():
    model = small_model("mpnp")
    optimizer = OPTIMIZERS["muon"](1e-2)
    moved, _ = optimizer.update(jax.tree.map(jnp.zeros_like, model), optimizer.init(model), model)
    assert not any(leaf.any() for leaf in jax.tree.leaves(moved))
