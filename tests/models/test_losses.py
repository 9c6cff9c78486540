"""Every loss and every prediction of the catalogue agrees with its formula, written out in NumPy without padding."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.numpy_reference import ELBO_REFERENCE, REFERENCES, Reference, UnpaddedTask
from mpnp.models.base import AbstractNeuralProcess
from mpnp.models.build import build
from mpnp.models.config import ModelSettings
from mpnp.models.registry import MODELS
from mpnp.tasks.task import Task

NUM_SAMPLES = 3
NUM_SLOTS = 12
CONTEXT_SLOTS = [1, 2, 5, 8, 11]
TARGET_SLOTS = [0, 4, 6, 9]
# Hidden layers are not as wide as the rest, nor is the floor of sigma the latent scale's: no mix-up goes unseen.
SETTINGS = ModelSettings(
    width=8, encoder_width=6, encoder_depth=2, latent_depth=1, decoder_depth=2, num_heads=2, num_pseudo=3, sigma_min=0.2
)

KINDS = [(name, "iwae") for name in MODELS] + [("np", "elbo"), ("anp", "elbo")]


@dataclasses.dataclass(frozen=True)
class Case:
    """A model with the same task and the same noise for the library and for the reference."""

    model: AbstractNeuralProcess
    reference: Reference
    task: Task
    unpadded: UnpaddedTask
    key: jax.Array
    noise: Any


def random_model(name: str, x_dim: int, y_dim: int, settings: ModelSettings, rng: np.random.Generator) -> AbstractNeuralProcess:
    """A model in double precision whose every weight is random, so that no bias is zero and no scale is one."""
    shapes = jax.eval_shape(lambda: build(name, key=jax.random.key(0), x_dim=x_dim, y_dim=y_dim, settings=settings))
    return jax.tree.map(lambda leaf: jnp.asarray(rng.normal(scale=0.6, size=leaf.shape)), shapes)


@pytest.fixture(params=[(1, 1), (2, 2)], ids=["1-D", "2-D"])
def dims(request: pytest.FixtureRequest) -> tuple[int, int]:
    return request.param


@pytest.fixture(params=KINDS, ids=[" ".join(kind) if kind[1] == "elbo" else kind[0] for kind in KINDS])
def case(request: pytest.FixtureRequest, dims: tuple[int, int]) -> Iterator[Case]:
    (name, bound), (x_dim, y_dim) = request.param, dims
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-2, 2, (NUM_SLOTS, x_dim)), rng.normal(size=(NUM_SLOTS, y_dim))
    slots = np.arange(NUM_SLOTS)
    context_mask, target_mask = np.isin(slots, CONTEXT_SLOTS), np.isin(slots, TARGET_SLOTS)
    x[~(context_mask | target_mask)] = 1e3
    y[~(context_mask | target_mask)] = np.nan
    with jax.enable_x64(True):
        model = random_model(name, x_dim, y_dim, dataclasses.replace(SETTINGS, bound=bound), rng)
        task = Task(jnp.asarray(x), jnp.asarray(y), jnp.asarray(context_mask), jnp.asarray(target_mask))
        key = jax.random.key(1)
        yield Case(
            model,
            ELBO_REFERENCE if bound == "elbo" else REFERENCES[name],
            task,
            UnpaddedTask.select(x, y, context_mask, target_mask),
            key,
            model.draw_noise(task.context, NUM_SAMPLES, key=key),
        )


def assert_agree(actual: object, expected: object) -> None:
    """A tight tolerance: samples of attentive models are so alike that a wrong mean over them errs by only 1e-8."""
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=1e-9)


def test_every_loss_term_is_what_its_formula_says(case: Case) -> None:
    terms = case.model.loss_terms(case.task, case.noise)
    expected = case.reference.loss_terms(case.model, case.unpadded, case.noise)
    assert terms.keys() == expected.keys()
    for name, value in expected.items():
        assert_agree(terms[name], value)


def test_the_loss_is_the_sum_of_its_terms(case: Case) -> None:
    loss, _ = case.model.loss(case.task, key=case.key, num_samples=NUM_SAMPLES)
    assert_agree(loss, sum(case.reference.loss_terms(case.model, case.unpadded, case.noise).values()))


def test_every_sample_predicts_what_its_formula_says(case: Case) -> None:
    x_target = case.unpadded.target.x
    predictive = case.model.predict_given(case.task.context, jnp.asarray(x_target), case.noise)
    expected = case.reference.predict(case.model, case.unpadded, x_target, case.noise)
    assert_agree(predictive.loc, [normal.loc for normal in expected])
    assert_agree(predictive.scale, [normal.scale for normal in expected])
