"""Training, validation and test draw their tasks each from its own part of a problem, with its own seed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.models import SETTINGS
from helpers.training import rows
from mpnp.evaluation.scoring import make_scorer
from mpnp.tasks import registry
from mpnp.tasks.base import AbstractProcess, FunctionFamily, Problem, TaskSource
from mpnp.training.config import Recipe, RunConfig
from mpnp.training.evaluate import score_run
from mpnp.training.loop import train
from mpnp.training.rundir import RunDirectory, load_model

NUM_TASKS, SEED = 6, 3


class Level(AbstractProcess):
    """Constant functions around a level: the parts of a problem cannot be mistaken for each other."""

    level: float

    def __call__(self, x, key):
        return jnp.broadcast_to(self.level + jax.random.normal(key), (len(x), 1))


PROBLEM = Problem(*(FunctionFamily(process=Level(level), max_points=8) for level in (0.0, 5.0, -5.0)))
RECIPE = Recipe(steps=1, batch_size=4, num_samples=1, validate_every=1, validation_tasks=NUM_TASKS)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry.STORED_TASKS, "three-parts", registry.StoredEntry(lambda: PROBLEM, (1, 1), "three levels"))
        config = RunConfig("cnp", "three-parts", recipe=RECIPE, settings=SETTINGS, seed=SEED)
        run = RunDirectory(tmp_path_factory.mktemp("parts") / "run")
        train(config, run.path, quiet=True)
        yield run


def scores_on(family, seed, model):
    return make_scorer(TaskSource(family, jax.random.key(seed)), num_samples=1)(model, NUM_TASKS)


def test_a_step_learns_from_the_training_part_with_the_seed_of_the_run(run):
    _, data_key, _ = jax.random.split(jax.random.key(SEED), 3)
    model = run.config().build_model()
    tasks = TaskSource(PROBLEM.training, data_key).batch(jnp.arange(RECIPE.batch_size))
    losses, _ = jax.jit(jax.vmap(lambda task: model.loss(task, key=jax.random.key(0), num_samples=1)))(tasks)
    (row,) = rows(run, "loss")
    np.testing.assert_allclose(row["loss"], losses.mean(), rtol=1e-5)


def test_validation_scores_the_validation_part_with_seed_42(run):
    expected = scores_on(PROBLEM.validation, 42, run.config().build_model())
    first = rows(run, "validation")[0]["validation"]
    for name, score in first.items():
        np.testing.assert_allclose(score, expected[name].mean(), rtol=1e-5)


def test_evaluation_scores_the_test_part_with_seed_43(run):
    record, scores = score_run(run.path, num_tasks=NUM_TASKS)
    expected = scores_on(PROBLEM.test, 43, load_model(run.path)[0])
    assert record["evaluation"]["test_seed"] == 43
    for name, values in scores.items():
        np.testing.assert_allclose(values, expected[name], rtol=1e-5)
