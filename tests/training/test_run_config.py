"""Configurations of runs: they survive JSON, and those that make no sense are refused."""

import dataclasses
import json
import math

import pytest

from helpers.training import CONFIG
from mpnp.errors import InputError, RunError
from mpnp.models.config import ModelSettings
from mpnp.training.config import RECIPES, Recipe, RunConfig, find_recipe


@pytest.mark.parametrize(
    "config",
    [CONFIG, RunConfig("mpanp"), RunConfig("anp", "t-noise", 7, 51_200, RECIPES["short"], ModelSettings(bound="elbo"))],
    ids=["tiny", "default", "changed"],
)
def test_a_configuration_survives_json(config):
    content = json.loads(json.dumps(config.to_json()))
    assert RunConfig.from_json(content) == config
    older = {"table_dims" if name == "own_dims" else name: value for name, value in content.items()}  # as in version 0.1
    assert RunConfig.from_json(older) == config


@pytest.mark.parametrize(
    "content",
    [{}, {"hello": "world"}, CONFIG.to_json() | {"novelty": 1}, CONFIG.to_json() | {"recipe": {"stops": 3}}],
    ids=["nothing", "something else", "new field", "unknown recipe"],
)
def test_a_configuration_of_another_program_is_refused(content):
    with pytest.raises(RunError, match="written by another version of mpnp"):
        RunConfig.from_json(content)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Recipe(steps=0), "steps must be a whole number of at least 1, got 0"),
        (lambda: Recipe(core_share=1.0), "core_share must be at least 0 and below 1, got 1.0"),
        (lambda: Recipe(core_share=float("nan")), "core_share must be at least 0 and below 1, got nan"),
        (lambda: Recipe(initialisation="spred"), "unknown initialisation 'spred'. Did you mean 'spread'?"),
        (lambda: Recipe(batch_size=-1), "batch_size must be a whole number of at least 1, got -1"),
        (lambda: Recipe(batch_size=2 * 10**6), "batch_size must be at most 1000000, got 2000000"),
        (lambda: Recipe(checkpoint_every=0), "checkpoint_every must be a whole number of at least 1, got 0"),
        (lambda: Recipe(learning_rate=-1e-3), "learning_rate must be positive and finite, got -0.001"),
        (lambda: Recipe(learning_rate=0.0), "learning_rate must be positive and finite, got 0.0"),
        (lambda: Recipe(learning_rate=math.nan), "learning_rate must be positive and finite, got nan"),
        (lambda: Recipe(learning_rate=math.inf), "learning_rate must be positive and finite, got inf"),
        (lambda: RunConfig("mpmp"), "unknown model 'mpmp'. Did you mean 'mpnp'"),
        (lambda: RunConfig("cnp", "matren"), "unknown task 'matren'. Did you mean 'matern'"),
        (lambda: RunConfig("cnp", seed=-1), "seed must lie between 0 and 4294967295, got -1"),
        (lambda: RunConfig("cnp", seed=2**32), "seed must lie between 0 and 4294967295, got 4294967296"),
        (lambda: dataclasses.replace(CONFIG, num_tasks=3), "num_tasks must be at least one batch of 4, got 3"),
        (lambda: ModelSettings(bound="elbow"), "unknown bound 'elbow'. Did you mean 'elbo'"),
        (
            lambda: RunConfig("canp", settings=ModelSettings(width=8, num_heads=3)),
            "num_heads must divide the attention width 8",
        ),
        (lambda: find_recipe("papre"), "unknown recipe 'papre'. Did you mean 'paper'"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(make, message):
    with pytest.raises(InputError) as caught:
        make()
    assert message in str(caught.value)
