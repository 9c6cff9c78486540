"""Training: a run's numbers follow from its configuration alone, and its model is the one that validated best."""

import dataclasses
import json

import jax
import numpy as np
import pytest
import safetensors.numpy

from helpers.training import CONFIG, RECIPE, arrays, numbers, rows, step_reached, trained, with_recipe
from mpnp.errors import DivergedError
from mpnp.training import checkpoint
from mpnp.training import loop as training
from mpnp.training.loop import resume, train
from mpnp.training.rundir import load_model

pytestmark = pytest.mark.usefixtures("programs")


def test_the_same_configuration_gives_the_same_numbers(finished, run):
    assert numbers(trained(CONFIG, run.path)) == numbers(finished)


@pytest.mark.parametrize("change", [{"seed": 1}, {"num_tasks": 8}], ids=["seed", "finite training set"])
def test_another_configuration_gives_other_numbers(change, finished, run):
    trained(dataclasses.replace(CONFIG, **change), run.path)
    assert step_reached(run) == RECIPE.steps
    losses = [[row["loss"] for row in rows(each, "loss")] for each in (run, finished)]
    assert len(losses[0]) == len(losses[1]) and not set(losses[0]) & set(losses[1])
    assert arrays(run.last) != arrays(finished.last)


def test_training_on_easy_functions_raises_validation(finished):
    scores = [row["validation"]["task"] for row in rows(finished, "validation")]
    assert scores[-1] > scores[0] + 0.5
    assert np.mean([row["loss"] for row in rows(finished, "loss")][-5:]) < rows(finished, "loss")[0]["loss"]


def test_the_model_of_a_run_is_the_one_that_validated_best(finished):
    validations = {row["step"]: row["validation"]["task"] for row in rows(finished, "validation")}
    assert list(validations) == list(range(0, RECIPE.steps + 1, RECIPE.validate_every))
    model, config, card = load_model(finished.path)
    best = max(validations, key=validations.get)
    assert (card["progress"]["best_step"], card["progress"]["best_score"]) == (best, validations[best])
    assert config == CONFIG
    stored = safetensors.numpy.load_file(finished.best)
    np.testing.assert_array_equal(model.decoder.mlp.layers[0].weight, stored[".decoder.mlp.layers[0].weight"])


def test_the_best_model_is_chosen_by_the_score_asked_for(finished, run):
    train(with_recipe(select_by="context"), run.path, quiet=True)
    for path, name in ((run, "context"), (finished, "task")):
        rows = [json.loads(line) for line in path.metrics.read_text().splitlines() if "validation" in line]
        best = max(rows, key=lambda row: row["validation"][name])
        assert checkpoint.read_card(path.best)["progress"]["best_step"] == best["step"]


def test_training_stops_once_out_of_patience(run):
    train(with_recipe(steps=200, learning_rate=1e-12, validate_every=5, patience=3), run.path, quiet=True)
    progress = checkpoint.read_card(run.last)["progress"]
    assert progress["step"] == progress["best_step"] + 15
    resume(run.path, quiet=True)
    assert checkpoint.read_card(run.last)["progress"]["step"] == progress["step"]


@pytest.mark.parametrize("quiet", [True, False], ids=["quiet", "talkative"])
def test_divergence_is_named_and_leaves_a_finite_checkpoint(quiet, run):
    config = with_recipe(learning_rate=1e15, validate_every=1, checkpoint_every=1)
    with pytest.raises(DivergedError, match=r"not finite at step 2 .*learning-rate \(it was 1e\+15\)") as caught:
        train(config, run.path, quiet=quiet)
    assert f"the checkpoint in {run.last} is intact" in str(caught.value)
    assert step_reached(run) == 1
    assert all(np.isfinite(array).all() for array in safetensors.numpy.load_file(run.last).values())
    model, _, card = load_model(run.path)
    assert card["progress"]["best_step"] == 0
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(model))


def test_a_run_without_any_finite_validation_has_no_model(run, monkeypatch):
    broken = {name: np.full(4, np.nan) for name in ("context", "target", "task")}
    monkeypatch.setattr(training, "make_scorer", lambda source, num_samples: lambda model, num_tasks: broken)
    with pytest.raises(DivergedError, match=r"no validation of .* gave finite scores.*smaller --learning-rate"):
        train(with_recipe(steps=1), run.path, quiet=True)
