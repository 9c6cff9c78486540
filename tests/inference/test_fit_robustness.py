"""What a fit promises on any data and machine: a plan, the best of its candidates, and plain words when data are few."""

import dataclasses
import json
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GroupKFold, cross_val_score

from helpers.command_line import call
from helpers.models import SETTINGS
from mpnp.errors import InputError
from mpnp.inference import budget
from mpnp.inference.budget import FewStepsWarning
from mpnp.inference.estimator import NeuralProcessRegressor
from mpnp.inference.fit import FewTasksWarning, fit_curves, resume_fit, update_model
from mpnp.inference.fit_options import FitOptions
from mpnp.inference.model import FittedModel, load
from mpnp.tables.curves import Curves
from mpnp.tables.dataset import CurveDataset
from mpnp.training.loop import _Loop

OPTIONS = FitOptions("cnp", steps=20, batch_size=4, num_samples=2, held_out_contexts=40, rivals="none")


def lines(num=30, shift=0.0):
    """Straight lines of one slope."""
    rng = np.random.default_rng(0)
    return Curves.from_pairs([(x := rng.uniform(0, 10, 6), 3 * x + 100 + shift + 20 * rng.normal()) for _ in range(num)])


class Clock:
    """Each look at the CPU time finds it and the time on the wall further on."""

    def __init__(self, cpu_tick, wall_tick):
        self.ticks, self.cpu_tick, self.wall_tick = 0, cpu_tick, wall_tick

    def process_time(self):
        self.ticks += 1
        return self.ticks * self.cpu_tick

    def monotonic(self):
        return self.ticks * self.wall_tick


def test_the_steps_follow_from_cpu_time_alone(monkeypatch):
    """A machine that is busy with something else takes longer, but the fit is the same."""
    options = FitOptions("cnp", max_minutes=1.0)
    steps = []
    for busy in (0.02, 2.0):  # seconds on the wall for 0.02 CPU seconds
        clock = Clock(0.02, busy)
        monkeypatch.setattr(time, "process_time", clock.process_time)
        monkeypatch.setattr(time, "monotonic", clock.monotonic)
        steps.append(budget.plan_run(CurveDataset(lines()), options, SETTINGS, None).run.recipe.steps)
    assert steps[0] == steps[1] == budget._round_down(60 * 0.8 * max(1, 0.7 * budget.num_cores()) / 0.02)


def test_a_time_limit_that_is_too_short_is_warned_of():
    with pytest.warns(FewStepsWarning, match=r"only 100 training steps.*allow at least \d+ minutes"):
        budget.plan_run(CurveDataset(lines()), FitOptions("cnp", max_minutes=1e-6), SETTINGS, None)


def test_the_plan_is_printed_before_training_and_stopping_early_is_announced(capsys):
    options = dataclasses.replace(OPTIONS, steps=200, patience=2, learning_rate=1.0)
    model = fit_curves(lines(), options, settings=SETTINGS)
    out = capsys.readouterr().out
    assert "tasks: 26 for train, 4 for validation" in out and "plan: 200 steps of 4 tasks for cnp; a validation every 8" in out
    assert out.index("plan:") < out.index("scoring the network on")
    about = model.card.about
    assert about["steps_done"] < 200 and about["progress"]["best_step"] <= about["steps_done"] - 16
    steps = [row["step"] for row in about["learning_curve"]]
    assert steps == sorted(steps) and steps[-1] == about["steps_done"]


@pytest.mark.parametrize("winner", ["cnp", "mpnp"])
def test_the_core_is_delivered_if_it_validates_better(winner, monkeypatch, tmp_path):
    monkeypatch.setattr(FittedModel, "mean_log_prob", lambda model, cuts: float(model.card.model == winner))
    options = dataclasses.replace(OPTIONS, model="mpnp", rivals="mean")
    model = fit_curves(lines(), options, settings=SETTINGS, out=tmp_path / "model", quiet=True)
    assert model.card.model == winner
    assert [row["model"] for row in model.card.about["candidates"]] == ["mpnp", "cnp"]
    assert model.card.about["progress"]["best_step"] == model.card.about["candidates"][winner == "cnp"]["step"]
    at = np.linspace(1, 9, 5)
    again = load(tmp_path / "model").condition([1.0], [100.0]).predict(at)
    np.testing.assert_array_equal(again, model.condition([1.0], [100.0]).predict(at))


def test_the_candidates_are_scored_on_held_out_curves():
    """A core that was trained for longer than the whole model, which hardly learnt, is the better one."""
    options = dataclasses.replace(OPTIONS, model="mpnp", steps=60, learning_rate=3e-3)
    model = fit_curves(lines(), options, settings=SETTINGS, quiet=True)
    rows = {row["model"]: row["log_likelihood"] for row in model.card.about["candidates"]}
    assert model.card.model == max(rows, key=rows.get)


def test_few_tasks_are_warned_of_and_one_is_refused():
    with pytest.warns(FewTasksWarning, match=r"8 tasks are hardly enough.*'gp'.*mpnp.load\('curves'\)"):
        fit_curves(lines(8), dataclasses.replace(OPTIONS, steps=2), settings=SETTINGS, quiet=True)
    with pytest.raises(InputError, match=r"there is only 1\. A pretrained model needs no others: mpnp.load"):
        fit_curves(lines(1), OPTIONS, settings=SETTINGS, quiet=True)


@pytest.fixture(scope="module")
def earlier():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit_curves(lines(), dataclasses.replace(OPTIONS, steps=120), settings=SETTINGS, quiet=True)


def test_an_update_starts_where_the_model_was_and_keeps_its_scales(earlier):
    nothing_learnt = update_model(
        earlier, lines(20, shift=5.0), dataclasses.replace(OPTIONS, steps=1, learning_rate=1e-9), quiet=True
    )
    assert nothing_learnt.card.columns == earlier.card.columns
    plain = (nothing_learnt.uncalibrated(), earlier.uncalibrated())
    answers = [model.condition([1.0, 4.0], [100.0, 112.0]).predict([2.0, 3.0]) for model in plain]
    np.testing.assert_allclose(*answers, rtol=1e-4)
    seen = nothing_learnt.card.seen
    assert seen.num_tasks == earlier.card.seen.num_tasks + 17 and (seen.low <= earlier.card.seen.low).all()


def test_an_update_learns_the_new_tasks(earlier):
    new = lines(40, shift=80.0)
    updated = update_model(earlier, new, dataclasses.replace(OPTIONS, steps=120, learning_rate=3e-3), quiet=True)
    pairs = [new.pair(number) for number in range(10)]
    errors = [
        np.mean([(np.asarray(model.condition(x[:2], y[:2]).predict(x[2:])) - y[2:, 0]) ** 2 for x, y in pairs])
        for model in (earlier.uncalibrated(), updated.uncalibrated())
    ]
    assert errors[1] < errors[0]


def test_an_interrupted_update_resumes_to_the_same_model(earlier, tmp_path, monkeypatch):
    options, validate = dataclasses.replace(OPTIONS, learning_rate=3e-3), _Loop._validate

    def interrupt(self, state, progress):
        if progress.step == 10:
            raise KeyboardInterrupt
        return validate(self, state, progress)

    straight = update_model(earlier, lines(20), options, quiet=True)
    monkeypatch.setattr(_Loop, "_validate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        update_model(earlier, lines(20), options, out=tmp_path / "model", quiet=True)
    monkeypatch.setattr(_Loop, "_validate", validate)
    resumed = resume_fit(tmp_path / "model", quiet=True)
    at = [2.0, 3.0]
    np.testing.assert_array_equal(resumed.condition([1.0], [100.0]).predict(at), straight.condition([1.0], [100.0]).predict(at))
    assert resumed.card.seen.num_tasks == straight.card.seen.num_tasks


def test_a_packaged_model_cannot_be_updated():
    with pytest.raises(InputError, match="only models that 'mpnp fit' made can be updated"):
        update_model(load("canp-rbf"), lines())


def test_the_update_command_reads_the_columns_from_the_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    curves = lines(20)
    frame = pd.DataFrame({"task": np.repeat(curves.names, curves.counts), "x": curves.x[:, 0], "y": curves.y[:, 0]})
    frame.to_csv("first.csv", index=False)
    (frame + {"task": 0, "x": 0, "y": 3}).to_csv("more.csv", index=False)
    small = ("--steps", 4, "--batch-size", 4, "--held-out-contexts", 20, "--rivals", "none", "--quiet")
    size = ("--model", "cnp", "--width", 8, "--num-heads", 2, "--encoder-depth", 1)
    names = ("--task-column", "task", "--input", "x", "--output", "y")
    assert call("fit", "first.csv", *names, *size, *small, "--out", "model").code == 0
    answer = call("fit", "more.csv", "--update", "model", *small, "--out", "newer")
    assert answer.code == 0, answer.err
    assert json.loads(call("info", "newer", "--json").out)["seen"]["num_tasks"] == 34
    answer = call("fit", "more.csv", "--update", "model", "--output", "x", "--out", "other")
    assert answer.code == 2 and "model was started with --output y, not x" in answer.err
    answer = call("fit", "--update", "model", "--out", "other")
    assert answer.code == 2 and "an update needs further rows and a new directory" in answer.err


def test_cross_validation_splits_by_task():
    regressor = NeuralProcessRegressor("cnp", steps=5, batch_size=4, rivals="none", settings=SETTINGS, verbose=False)
    curves = lines(24)
    scores = cross_val_score(regressor, [curves.pair(number) for number in range(24)], cv=2, error_score="raise")
    assert scores.shape == (2,) and np.isfinite(scores).all()
    frame = pd.DataFrame({"t": np.repeat(curves.names, curves.counts), "x": curves.x[:, 0], "y": curves.y[:, 0]})
    again = cross_val_score(
        regressor,
        frame,
        groups=frame["t"],
        cv=GroupKFold(2),
        params={"task": "t", "inputs": "x", "outputs": "y"},
        error_score="raise",
    )
    assert np.isfinite(again).all()


def test_a_score_is_the_log_likelihood_of_what_contexts_leave_open():
    regressor = NeuralProcessRegressor("cnp", steps=5, batch_size=4, rivals="none", settings=SETTINGS, verbose=False).fit(
        [lines().pair(number) for number in range(30)]
    )
    pair = ([1.0, 4.0], [100.0, 112.0])
    either = [regressor.condition(*(part[:1] for part in pair)).log_prob(*(part[1:] for part in pair))[0]]
    either.append(regressor.condition(*(part[1:] for part in pair)).log_prob(*(part[:1] for part in pair))[0])
    assert min(either) - 1e-3 <= regressor.score([pair]) <= max(either) + 1e-3
    with pytest.raises(InputError, match="score takes many tasks"):
        regressor.score([pair], [1.0])
