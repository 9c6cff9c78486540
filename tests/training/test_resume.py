"""Resumed runs: however a run was stopped, it ends as if nothing had happened."""

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import socket
import subprocess
import sys

import pytest

from helpers.command_line import call, files, flags
from helpers.documents import DATA
from helpers.training import CONFIG, RECIPE, at_step, numbers, rows, step_reached, with_recipe
from mpnp.errors import RunError
from mpnp.training.loop import finish, resume, train

pytestmark = pytest.mark.usefixtures("programs")


@contextlib.contextmanager
def in_another_process(config, run):
    """A run of the command line, past its 40th step, that cannot end: what it prints is more than is read or buffered."""
    ours, theirs = socket.socketpair()
    for end, option in ((theirs, socket.SO_SNDBUF), (ours, socket.SO_RCVBUF)):
        end.setsockopt(socket.SOL_SOCKET, option, 4096)
    process = subprocess.Popen(
        [sys.executable, "-m", "mpnp", "train", *flags(config), "--out", run.path],
        stdout=theirs,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    theirs.close()
    try:
        with ours, ours.makefile() as output, process.stderr:
            seen = next((line for line in output if line.startswith("step     40 ")), None)
            assert seen is not None, process.stderr.read().decode()
            yield process, output
    finally:
        process.kill()
        process.wait()


def test_a_killed_run_resumes_as_if_nothing_had_happened(finished, run):
    with in_another_process(CONFIG, run) as (process, _):
        process.kill()
        assert process.wait() == -signal.SIGKILL
    assert 0 < step_reached(run) < RECIPE.steps
    resume(run.path, quiet=True)
    assert numbers(run) == numbers(finished)


def test_an_interrupted_run_saves_its_step_and_says_how_to_resume(finished, run):
    with in_another_process(CONFIG, run) as (process, output):
        process.send_signal(signal.SIGINT)
        printed, errors = output.read(), process.stderr.read().decode()
        assert process.wait() == 130
    assert f"continue with: mpnp train --resume {run.path}" in printed
    assert "mpnp: interrupted" in errors and "Traceback" not in errors
    validated = rows(run, "validation")[-1]["step"]
    assert 40 <= validated <= step_reached(run) < validated + RECIPE.validate_every
    assert step_reached(run) < RECIPE.steps
    resume(run.path, quiet=True)
    assert numbers(run) == numbers(finished)


def test_a_request_to_terminate_saves_the_step_under_way(monkeypatch, run):
    handler = signal.getsignal(signal.SIGTERM)
    at_step(9, monkeypatch, lambda: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(KeyboardInterrupt):
        train(CONFIG, run.path, quiet=True)
    assert step_reached(run) == 10
    assert signal.getsignal(signal.SIGTERM) is handler


@pytest.mark.parametrize("step", [3, 13], ids=["after the first checkpoint", "after another"])
def test_a_crash_in_the_middle_of_a_log_line_leaves_no_trace(step, finished, run, monkeypatch):
    class PowerCutError(Exception):
        pass

    def crash():
        raise PowerCutError

    with monkeypatch.context() as patch, pytest.raises(PowerCutError):
        at_step(step, patch, crash)
        train(CONFIG, run.path, quiet=True)
    assert step_reached(run) == step // RECIPE.checkpoint_every * RECIPE.checkpoint_every
    with run.metrics.open("a") as log:
        log.write(f'{{"step": {step}, "validation": {{"con')
    resume(run.path, quiet=True)
    assert numbers(run) == numbers(finished)


def test_a_run_killed_before_its_first_checkpoint_starts_over(finished, run):
    run.create(CONFIG)
    resume(run.path, quiet=True)
    assert numbers(run) == numbers(finished)


@pytest.mark.parametrize(("gone", "message"), [("last", "starting over would replace best"), ("best", "best model so far, of")])
def test_a_deleted_checkpoint_is_named_and_nothing_is_started_over(gone, message, finished, run):
    shutil.copytree(finished.path, run.path)
    getattr(run, gone).unlink()
    before = files(run.path)
    with pytest.raises(RunError, match=rf"{gone}.safetensors.* is missing.*restore it from a copy") as caught:
        resume(run.path, quiet=True)
    assert message in str(caught.value) and files(run.path) == before


def test_a_best_model_deleted_during_training_is_no_divergence(run, monkeypatch):
    at_step(9, monkeypatch, lambda: run.best.unlink())
    with pytest.raises(RunError, match=r"best.safetensors, the best model so far, of step \d+, is missing"):
        train(with_recipe(steps=10, learning_rate=1e-30), run.path, quiet=True)


def test_a_run_in_use_by_another_process_is_left_to_it(finished, run):
    with in_another_process(CONFIG, run) as (process, _):
        for start in (lambda: resume(run.path), lambda: train(CONFIG, run.path), lambda: finish(CONFIG, run.path)):
            with pytest.raises(RunError, match=f"{run.path} is in use by another process"):
                start()
        process.kill()
        process.wait()
    finish(CONFIG, run.path, quiet=True)
    assert numbers(run) == numbers(finished)


def test_resuming_a_finished_run_changes_nothing(finished):
    before = files(finished.path)
    resume(finished.path, quiet=True)
    assert files(finished.path) == before


def test_training_in_a_run_directory_is_refused(finished):
    before = files(finished.path)
    with pytest.raises(RunError, match=f"already holds a run; continue it with '--resume {finished.path}'"):
        train(dataclasses.replace(CONFIG, seed=1), finished.path)
    assert files(finished.path) == before


def test_resuming_needs_a_run(tmp_path):
    with pytest.raises(RunError, match=r"holds no run: config.json is missing"):
        resume(tmp_path)
    assert not files(tmp_path)


def test_a_damaged_last_checkpoint_is_named_and_left_alone(finished, run):
    shutil.copytree(finished.path, run.path)
    run.last.write_bytes(run.last.read_bytes()[:100])
    before = files(run.path)
    with pytest.raises(RunError, match=r"last.safetensors is damaged"):
        resume(run.path, quiet=True)
    assert files(run.path) == before


def test_a_run_that_version_0_1_began_is_shown_and_ends_as_that_version_ended_it(run):
    """It was interrupted after two of four steps; `answers.json` has the scores and the loss that version 0.1 went on to."""
    shutil.copytree(DATA / "run-0.1", run.path)
    told = json.loads((run.path / "answers.json").read_text())
    shown = call("info", run.path)
    assert shown.code == 0 and "best at step 2" in shown.out
    resume(run.path, quiet=True)
    for row, scores in zip(rows(run, "validation"), told["validation"], strict=True):
        assert row["validation"] == pytest.approx(scores, rel=1e-4)
    assert [row["loss"] for row in rows(run, "loss")] == pytest.approx(told["loss"], rel=1e-4)
