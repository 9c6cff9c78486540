"""Records: what a run scored, and what it took."""

import jax
import jax.numpy as jnp
import pytest

from helpers.models import SETTINGS
from mpnp.errors import DivergedError, InputError
from mpnp.evaluation.metrics import summarise
from mpnp.io.files import write_json
from mpnp.tasks.base import FunctionFamily
from mpnp.tasks.gaussian_process import GaussianProcessPrior, RBFPrior
from mpnp.training import checkpoint, evaluate
from mpnp.training.config import Recipe, RunConfig
from mpnp.training.evaluate import evaluate_run, score_run
from mpnp.training.rundir import RunDirectory

CONFIG = RunConfig("np", recipe=Recipe(steps=5, batch_size=4, num_samples=2), settings=SETTINGS)
CARD = {"config": CONFIG.to_json(), "progress": {"best_step": 5, "cpu_seconds": 1.5}, "environment": {"commit": "abc"}}


@pytest.fixture
def untrained(tmp_path):
    """A run as training leaves it, without the training."""
    run = RunDirectory(tmp_path)
    run.create(CONFIG)
    checkpoint.save(run.best, CONFIG.build_model(), CARD)
    return run


def test_a_record_repeats_and_names_its_origin(untrained):
    first, (again, tasks) = evaluate_run(untrained.path, num_tasks=6), score_run(untrained.path, num_tasks=6)
    assert first["scores"] == again["scores"] == summarise(tasks)
    assert (first["model"], first["task"], first["training"]["seed"]) == ("np", "rbf", 0)
    assert first["training"]["environment"]["commit"] == "abc"
    assert first["training"]["cpu_seconds"] == 1.5
    assert first["evaluation"]["num_tasks"] == 6
    assert set(first["oracle"]["exact"]) == set(first["scores"])
    assert first["scores"]["target"]["mean"] < first["oracle"]["floored"]["target"]["mean"]


def test_the_cost_of_a_run_counts_steps_after_its_best(untrained):
    untrained.timing.write_text('{"step": 0, "cpu_seconds": 1.0}\n{"step": 9, "cpu_seconds": 7.25}\n')
    assert evaluate_run(untrained.path, num_tasks=6)["training"]["cpu_seconds"] == 7.25


def test_log_lines_that_a_kill_cut_short_are_passed_over(untrained):
    row = '{"step": %d, "validation": {"task": -1.0}}\n'
    untrained.metrics.write_text(row % 0 + row % 5 + row % 10)
    untrained.timing.write_text('{"step": 0, "cpu_seconds": 1.0}\n{"step": 5, "cpu_seconds": 7.25}\n{"step": 10, "cpu')
    assert untrained.learning_curve() == [
        {"step": 0, "cpu_seconds": 1.0, "task": -1.0},
        {"step": 5, "cpu_seconds": 7.25, "task": -1.0},
    ]
    assert untrained.cpu_seconds() == 7.25


def test_a_packaged_model_is_scored_with_as_many_samples_as_its_published_scores(untrained, monkeypatch):
    monkeypatch.setattr(evaluate, "has_oracle", lambda family: False)
    write_json(untrained.scores("rbf"), {"evaluation": {"num_samples": 7}})

    def used(**options):
        return evaluate_run(untrained.path, num_tasks=6, **options)["evaluation"]["num_samples"]

    assert used() == 2  # of training: this run does not come with mpnp
    monkeypatch.setattr(evaluate, "PRETRAINED", untrained.path.parent)
    assert (used(), used(num_samples=3)) == (7, 3)


def test_a_model_whose_predictions_are_not_finite_gets_no_score(untrained):
    broken = jax.tree.map(lambda leaf: jnp.full_like(leaf, jnp.nan), CONFIG.build_model())
    checkpoint.save(untrained.best, broken, CARD)
    with pytest.raises(DivergedError, match="predicts non-finite numbers on 6 of 6 test tasks"):
        evaluate_run(untrained.path, num_tasks=6)


def test_a_family_without_room_for_its_sizes_is_refused():
    with pytest.raises(InputError, match="max_points must leave room for 3 context and 3 target points, got 5"):
        FunctionFamily(process=GaussianProcessPrior(RBFPrior()), max_points=5)
