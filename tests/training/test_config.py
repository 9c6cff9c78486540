"""Recipes name what training provides."""

from mpnp.training import config, init, optimizers


def test_a_recipe_can_name_every_optimizer_and_every_initialisation():
    assert set(config.OPTIMIZERS) == set(optimizers.OPTIMIZERS)
    assert set(config.INITIALISATIONS) == set(init.INITIALISATIONS)
