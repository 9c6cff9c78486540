"""Releases: small files that give the scores that their card promises."""

import contextlib
import dataclasses
import json

import jax
import numpy as np
import pytest
from recalibrate import recalibrate
from release import release

from helpers.command_line import call
from helpers.documents import RESULTS
from helpers.models import SETTINGS
from mpnp.errors import DivergedError, InputError, RunError
from mpnp.inference.model import load
from mpnp.reproduce.paper import paper_rows
from mpnp.tasks.base import VALIDATION_SEED
from mpnp.tasks.registry import find_problem
from mpnp.training import checkpoint
from mpnp.training.config import Recipe, RunConfig
from mpnp.training.evaluate import evaluate_run
from mpnp.training.rundir import PRETRAINED, RunDirectory, load_model

CONFIG = RunConfig("np", recipe=Recipe(steps=5, batch_size=4, num_samples=2), settings=SETTINGS)
PACKAGED = sorted(path.name for path in PRETRAINED.iterdir() if path.is_dir())


@pytest.fixture
def run(tmp_path):
    """A run as training leaves it, without the training."""
    run = RunDirectory(tmp_path / "run")
    run.create(CONFIG)
    card = {"config": CONFIG.to_json(), "progress": {"best_step": 5, "cpu_seconds": 1.5}, "environment": {"mpnp": "0"}}
    checkpoint.save(run.best, CONFIG.build_model(), card)
    run.metrics.write_text('{"step": 1, "loss": 2.0}\n{"step": 5, "validation": {"task": -1.0}}\n')
    run.timing.write_text('{"step": 5, "cpu_seconds": 1.5}\n')
    return run


def test_a_release_is_half_the_size_and_holds_the_scores_of_exactly_its_weights(run, tmp_path):
    out = tmp_path / "models" / "small"
    record = release(run.path, out, num_tasks=6, num_samples=2)
    assert json.loads((out / "scores" / "rbf.json").read_text()) == record
    assert evaluate_run(out, num_tasks=6)["scores"] == record["scores"]
    ours, theirs = (jax.tree.leaves(load_model(path)[0]) for path in (out, run.path))
    for mine, full in zip(ours, theirs, strict=True):
        assert mine.dtype == full.dtype
        np.testing.assert_allclose(mine, full, rtol=2**-11, atol=1e-7)
    sizes = [
        sum(array.nbytes for array in checkpoint.load_named(path / "best.safetensors")[1].values()) for path in (out, run.path)
    ]
    assert 2 * sizes[0] == sizes[1]
    assert [row["task"] for row in RunDirectory(out).learning_curve()] == [-1.0] and "loss" not in (
        out / "metrics.jsonl"
    ).read_text()


def test_nothing_is_overwritten_or_half_written(run, tmp_path):
    out = tmp_path / "models" / "small"
    broken = jax.tree.map(lambda leaf: leaf * np.nan, CONFIG.build_model())
    checkpoint.save(run.best, broken, checkpoint.read_card(run.best))
    with pytest.raises(DivergedError, match="non-finite"):
        release(run.path, out, num_tasks=6, num_samples=2)
    assert list(out.parent.iterdir()) == []
    out.mkdir()
    with pytest.raises(RunError, match="exists already"):
        release(run.path, out)


def test_a_run_with_steps_left_is_refused(run, tmp_path):
    run.metrics.write_text('{"step": 3, "validation": {"task": -1.0}}\n')
    run.timing.write_text('{"step": 3, "cpu_seconds": 1.5}\n')
    with pytest.raises(RunError, match=r"is at step 3 of 5; finish it with 'mpnp train --resume"):
        release(run.path, tmp_path / "small")
    assert not (tmp_path / "small").exists()


def test_a_run_may_end_early_only_by_lost_patience(run, tmp_path):
    recipe = dataclasses.replace(CONFIG.recipe, patience=2, validate_every=1)
    impatient = dataclasses.replace(CONFIG, recipe=recipe)
    run.config_file.unlink()
    run.create(impatient)
    run.metrics.write_text('{"step": 3, "validation": {"task": -1.0}}\n')
    run.timing.write_text('{"step": 3, "cpu_seconds": 1.5}\n')
    for best_step, refused in ((2, True), (1, False)):
        card = {"config": impatient.to_json(), "progress": {"best_step": best_step, "cpu_seconds": 1.5}, "environment": {}}
        checkpoint.save(run.best, CONFIG.build_model(), card)
        with pytest.raises(RunError, match="is at step 3 of 5") if refused else contextlib.nullcontext():
            release(run.path, tmp_path / "small", num_tasks=2)
    assert (tmp_path / "small").exists()


def test_info_shows_the_scores_of_a_model_that_comes_with_the_package():
    shown = call("info", "mpanp-rbf")
    assert shown.code == 0 and "Apache-2.0" in shown.out
    assert "log-likelihood, target" in shown.out and "coverage of the 90% interval" in shown.out


def promised(name):
    """The record that a packaged model carries."""
    return json.loads(RunDirectory(PRETRAINED / name).scores(load_model(name)[1].task).read_text())


@pytest.mark.parametrize("name", PACKAGED)
def test_a_packaged_model_is_a_release_in_half_precision_with_a_record_of_its_own_training(name):
    _, arrays = checkpoint.load_named(RunDirectory(PRETRAINED / name).best)
    assert {array.dtype for array in arrays.values()} == {np.dtype(np.float16)}
    _, config, card = load_model(name)
    training = promised(name)["training"]
    assert Recipe(**training["recipe"]) == config.recipe and training["task"] == config.task
    assert training["best_step"] == card["progress"]["best_step"]
    assert RunDirectory(PRETRAINED / name).learning_curve()[-1]["cpu_seconds"] == training["cpu_seconds"]


def in_single_precision(name):
    """The scores of a packaged model before rounding: a record of its own, or that of the campaign."""
    own, half = RESULTS / "pretrained" / "single-precision" / f"{name}.json", promised(name)
    if own.exists():
        return json.loads(own.read_text())
    model, task, recipe = half["model"], half["task"], half["training"]["recipe"]
    run = f"{model}-seed0-rate{recipe['learning_rate']:g}-steps{recipe['steps']}"
    return json.loads((RESULTS / "reproduce" / "hours" / "records" / task / run / f"{task}.json").read_text())["score"]


@pytest.mark.parametrize("name", [name for name in PACKAGED if name != "mpanp-mnist"])
def test_half_precision_costs_less_than_a_quarter_of_a_standard_error(name):
    """The same run was scored in single precision on the same test tasks, before any recalibration."""
    half, full = promised(name), in_single_precision(name)
    assert half["training"] == full["training"]
    scores = half.get("uncalibrated", half["scores"])
    for metric, score in full["scores"].items():
        assert abs(scores[metric]["mean"] - score["mean"]) < score["standard_error"] / 4, metric


@pytest.mark.parametrize("name", [name for name in PACKAGED if (PRETRAINED / name / "calibration.json").exists()])
def test_a_packaged_calibration_was_learnt_on_validation_tasks_and_helps_on_test_tasks(name):
    run, record = RunDirectory(PRETRAINED / name), promised(name)
    learnt = json.loads(run.calibration_file.read_text())
    assert learnt["validation_seed"] == VALIDATION_SEED and learnt["task"] == record["task"]
    assert learnt["report"]["after"] > learnt["report"]["before"]
    before, after = ({name: score["mean"] for name, score in record[part].items()} for part in ("uncalibrated", "scores"))
    assert after["target"] > before["target"]
    assert abs(after["coverage_90"] - 0.9) < abs(before["coverage_90"] - 0.9)
    assert abs(after["crps"] - before["crps"]) < record["scores"]["crps"]["standard_error"]
    assert (
        load_model(name)[0].decoder.calibration == load(name).card.calibration == RunDirectory(PRETRAINED / name).calibration()
    )


def test_a_run_is_recalibrated_only_where_that_helps_on_tasks_it_was_not_learnt_from(run, tmp_path):
    out = tmp_path / "models" / "small"
    record = release(run.path, out, num_tasks=6, num_samples=2)
    report, kept = recalibrate(out, 40), RunDirectory(out)
    assert kept.calibration_file.exists() == (report["after"] > report["before"])
    again = json.loads(kept.scores("rbf").read_text())
    assert again["uncalibrated"] == record["scores"] and again["scores"]["crps"] != record["scores"]["crps"]
    model, _, _ = load_model(out)
    assert load(out).card.calibration == model.decoder.calibration is not None
    assert recalibrate(out, 40) == report  # starts from the weights, not from the correction
    kept.calibration_file.write_text('{"calibration": {"predicted": [1]}}')
    for read in (load, load_model):
        with pytest.raises(RunError, match=r"calibration\.json is damaged"):
            read(out)


def test_the_packaged_model_of_digits_is_above_the_paper_as_the_documents_say():
    record, paper = promised("mpanp-mnist"), paper_rows()["images", "mnist", "mpanp"].scores
    assert record["data"] == "50,000 train, 10,000 validation, 10,000 test"
    for metric in ("target", "task"):
        assert record["scores"][metric]["mean"] - record["scores"][metric]["standard_error"] > paper[metric].mean


@pytest.mark.parametrize("name", PACKAGED)
def test_scores_measured_anew_agree_with_the_card_of_a_packaged_model(name):
    """On fewer tasks, so up to the error of those."""
    card = promised(name)
    try:
        find_problem(card["task"])
    except InputError as error:  # a user need not have images to have the model
        pytest.skip(str(error))
    measured = evaluate_run(name, num_tasks=96)
    assert measured["evaluation"]["num_samples"] == card["evaluation"]["num_samples"]
    for metric in ("target", "crps", "coverage_90"):
        ours, theirs = measured["scores"][metric], card["scores"][metric]
        # The card's many tasks tell the spread between tasks better than few do, whose tails are missed where they are heavy.
        error = theirs["standard_error"] * (card["evaluation"]["num_tasks"] / 96) ** 0.5
        assert abs(ours["mean"] - theirs["mean"]) < 4 * error + 0.01, metric
