"""The registry: names, sizes and settings."""

import jax
import pytest

from helpers.models import SETTINGS
from helpers.paper import PAPER_COUNTS
from mpnp.errors import InputError
from mpnp.models import config, latent
from mpnp.models.build import build, num_parameters
from mpnp.models.conditional import ConditionalNP
from mpnp.models.config import ModelSettings
from mpnp.models.martingale import MartingaleNP
from mpnp.models.registry import MODELS


def build_small(name):
    return build(name, key=jax.random.key(0), settings=SETTINGS)


def count(name, **arguments):
    return num_parameters(jax.eval_shape(lambda: build(name, key=jax.random.key(0), **arguments)))


@pytest.mark.parametrize("name", PAPER_COUNTS)
def test_number_of_parameters_is_the_papers(name):
    assert count(name) == PAPER_COUNTS[name]


@pytest.mark.parametrize("name", MODELS)
def test_rows_of_the_registry_are_true(name):
    entry, model = MODELS[name], build_small(name)
    assert count(name) == entry.num_parameters
    assert model.core is model if entry.core is None else isinstance(model.core, type(build_small(entry.core)))
    assert {MODELS[other].backbone for other in (entry.base, entry.partner)} == {entry.backbone}
    assert isinstance(build_small(entry.base), ConditionalNP) and isinstance(build_small(entry.partner), MartingaleNP)


def test_bounds_in_settings_are_those_of_latent_models():
    assert set(config.BOUNDS) == set(latent.BOUNDS)


@pytest.mark.parametrize(("name", "plain"), [("neubnp", "cnp"), ("neubanp", "canp")])
def test_neural_bootstrap_adds_no_parameter(name, plain):
    assert count(name) == PAPER_COUNTS[plain]


@pytest.mark.parametrize(("name", "plain"), [("mpnp", "cnp"), ("mpanp", "canp")])
def test_direct_models_add_a_generator_and_a_projection(name, plain):
    width, point_dim = 128, 2
    norms, square = 4 * width, width * width + width
    generator = (point_dim * width + width) + 3 * square + norms + 4 * square + norms
    assert count(f"{name}-dsi") == PAPER_COUNTS[plain] + generator + width * point_dim + point_dim
    assert count(f"{name}-dse") == PAPER_COUNTS[plain] + generator + width + 1


def test_encoder_width_enlarges_the_encoder_alone():
    # 263,975: the size-matched CNP whose encoder is 215 wide.
    assert count("cnp", settings=ModelSettings(encoder_width=215)) == 263_975


@pytest.mark.parametrize("name", MODELS)
def test_wrong_settings_are_refused(name):
    with pytest.raises(InputError, match=r"[xy]_dim must be a whole number of at least 1"):
        build(name, key=jax.random.key(0), x_dim=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"width": 0}, "width must be a whole number of at least 1, got 0"),
        ({"encoder_width": -3}, "encoder_width must be a whole number"),
        ({"sigma_min": 0.0}, "sigma_min must lie above 0 and below 1"),
        ({"sigma_min": 1.0}, "sigma_min must lie above 0 and below 1"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        ModelSettings(**settings)


def test_heads_must_divide_the_width():
    with pytest.raises(InputError, match="num_heads must divide the attention width 12, got num_heads=8"):
        build("canp", key=jax.random.key(0), settings=ModelSettings(width=12))


def test_unknown_bound_is_refused_with_a_suggestion():
    with pytest.raises(InputError, match=r"unknown bound 'elb'\. Did you mean 'elbo'"):
        build("np", key=jax.random.key(0), settings=ModelSettings(bound="elb"))


def test_unknown_model_is_refused_with_a_suggestion():
    with pytest.raises(InputError, match=r"unknown model 'mpanpp'\. Did you mean 'mpanp'"):
        build("mpanpp", key=jax.random.key(0))
