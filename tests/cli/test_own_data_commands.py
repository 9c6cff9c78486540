"""The commands for a user's own data, with good and bad input."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from helpers.command_line import call
from mpnp.inference.ood import MissingContextWarning, OutsideRangeWarning

SMALL = ("--model", "cnp", "--steps", 20, "--batch-size", 4, "--width", 8, "--num-heads", 2, "--encoder-depth", 1, "--quiet")
SMALL += ("--held-out-contexts", 40, "--rivals", "mean,normal")
NAMES = ("--task-column", "day", "--input", "hour", "--output", "temp", "--output", "wind")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    directory, rng = tmp_path_factory.mktemp("tables"), np.random.default_rng(0)
    frame = pd.DataFrame({"day": np.repeat([f"d{n}" for n in range(20)], 6), "hour": np.tile(np.arange(6), 20)})
    frame["temp"] = 50 + 3 * frame["hour"] + np.repeat(rng.normal(0, 9, 20), 6)
    frame["wind"] = np.where(rng.random(120) < 0.3, np.nan, 0.01 * rng.random(120))
    frame.to_csv(directory / "data.csv", index=False)
    frame[frame["day"].isin(["d3", "d4"]) & (frame["hour"] < 3)].to_csv(directory / "mornings.csv", index=False)
    frame.loc[frame["day"].isin(["d4", "d3"]) & (frame["hour"] >= 3), ["day", "hour"]].to_csv(
        directory / "rest.csv", index=False
    )
    frame[(frame["day"] == "d3") & (frame["hour"] < 3)].drop(columns="day").to_csv(directory / "morning.csv", index=False)
    pd.DataFrame({"hour": [3, 4, 5]}).to_csv(directory / "hours.csv", index=False)
    pd.DataFrame({"hour": []}).to_csv(directory / "nothing-asked.csv", index=False)
    pd.DataFrame({"hour": [0], "temp": [1e60], "wind": [None]}).to_csv(directory / "too-far.csv", index=False)
    pd.DataFrame({"hour": [0], "temp": [None], "wind": [None]}).to_csv(directory / "unobserved.csv", index=False)
    return directory


@pytest.fixture(scope="module")
def model(tables):
    answer = call("fit", tables / "data.csv", *NAMES, *SMALL, "--out", tables / "model")
    assert answer.code == 0, answer.err
    return tables / "model", answer


def test_fit_says_what_it_made(model):
    _, answer = model
    assert "20 tasks, 120 rows, 6 to 6 rows per task" in answer.out
    assert "temp, wind" in answer.out and "hour 0 to 5" in answer.out and "coverage of the 90% band" in answer.out
    assert "mpnp predict" in answer.out.splitlines()[-1]


def test_info_shows_the_card(model):
    shown, as_json = call("info", model[0]), json.loads(call("info", model[0], "--json").out)
    assert shown.code == 0 and "17 tasks" in shown.out
    assert as_json["columns"]["outputs"] == ["temp", "wind"] and as_json["format"] == "mpnp-model"


def test_one_task_is_predicted_and_drawn(model, tables):
    out, picture = tables / "one.csv", tables / "one.png"
    answer = call(
        "predict", model[0], "--context", tables / "morning.csv", "--at", tables / "hours.csv", "--out", out, "--plot", picture
    )
    assert answer.code == 0 and f"wrote {out}: 3 rows" in answer.out and f"wrote {picture}" in answer.out
    table = pd.read_csv(out)
    columns = [
        f"{output}_{part}" for output in ("temp", "wind") for part in ("mean", "std", "q05", "q95", "between_std", "within_std")
    ]
    assert table["hour"].tolist() == [3, 4, 5] and set(columns) <= set(table.columns)
    assert (table["temp_q05"] < table["temp_mean"]).all() and table["temp_mean"].between(0, 120).all()
    assert plt.imread(picture).shape[2] == 4


def test_many_tasks_are_predicted_each_from_its_own_rows(model, tables):
    answer = call("predict", model[0], "--context", tables / "mornings.csv", "--at", tables / "rest.csv", "--quantiles", 0.5)
    assert answer.code == 0, answer.err
    rows = [line.split(",") for line in answer.out.splitlines()]
    assert rows[0][:3] == ["day", "hour", "temp_mean"] and [row[0] for row in rows[1:]] == ["d3"] * 3 + ["d4"] * 3
    one = call("predict", model[0], "--context", tables / "mornings.csv", "--at", tables / "rest.csv", "--task", "d4")
    assert one.code == 0 and {line.split(",")[0] for line in one.out.splitlines()[1:]} == {"d4"}


def test_without_context_the_prior_answers(model, tables):
    answer = call("predict", model[0], "--at", tables / "hours.csv")
    assert answer.code == 0 and len(answer.out.splitlines()) == 4


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["fit"], 2, "name the columns: pass DATA --task-column NAME --input NAME --output NAME"),
        (["fit", "data.csv", *NAMES], 2, "name a directory for the fitted model with --out"),
        (["fit", "nothing.csv", *NAMES, "--out", "x"], 2, "nothing.csv does not exist"),
        (["fit", "data.csv", "--task-column", "dy", *NAMES[2:], "--out", "x"], 2, "unknown column 'dy'. Did you mean 'day'?"),
        (["fit", "data.csv", *NAMES, "--output", "day", "--out", "x"], 2, "the column 'day' is used twice"),
        (["fit", "data.csv", *NAMES, "--model", "mpmp", "--out", "x"], 2, "unknown model 'mpmp'"),
        (["fit", "data.csv", *NAMES, "--max-minutes", "0", "--out", "x"], 2, "max_minutes must be positive"),
        (["fit", "data.csv", *NAMES, "--context", "end", "--out", "x"], 2, "unknown context 'end'"),
        (["fit", "data.csv", *NAMES, "--out", "model"], 3, "model already holds a model"),
        (["fit", "--resume", "model"], 3, "model holds no unfinished fit"),
        (["predict", "model"], 2, "the following arguments are required: --at"),
        (["predict", "data.csv", "--at", "hours.csv"], 3, "holds no model"),
        (["predict", "model", "--at", "hours.csv", "--quantiles", "5"], 2, "quantiles must lie above 0 and below 1"),
        (["predict", "model", "--at", "morning.csv", "--context", "hours.csv"], 2, "unknown column 'temp'"),
        (
            ["predict", "model", "--at", "hours.csv", "--context", "mornings.csv"],
            2,
            "the context holds 2 tasks; choose one with",
        ),
        (["predict", "model", "--at", "rest.csv", "--context", "mornings.csv", "--task", "d9"], 2, "no row has 'd9'"),
        (["predict", "model", "--at", "hours.csv", "--plot", "p.xyz"], 2, "cannot write a figure to"),
        (["predict", "model", "--at", "rest.csv", "--context", "morning.csv"], 2, "does not say which of them it belongs to"),
        (["predict", "model", "--at", "nothing-asked.csv"], 2, "nothing-asked.csv has no rows; give it one row per input"),
        (
            ["predict", "model", "--at", "hours.csv", "--context", "too-far.csv"],
            2,
            "too far from the training data; check units",
        ),
        (["predict", "model", "--at", "hours.csv", "--context", "nothing-asked.csv"], 2, "unknown column 'temp'"),
        (["info", "nowhere"], 3, "holds no model"),
    ],
)
def test_mistakes_are_one_line_that_says_what_to_do(model, tables, monkeypatch, arguments, code, message):
    monkeypatch.chdir(tables)
    before = sorted(path.name for path in tables.iterdir())
    answer = call(*arguments)
    assert (answer.code, len(answer.err.splitlines())) == (code, 1) and message in answer.err
    assert sorted(path.name for path in tables.iterdir()) == before


def test_without_context_the_prior_answers_for_named_tasks_too(model, tables):
    answer = call("predict", model[0], "--at", tables / "rest.csv")
    assert answer.code == 0 and len(answer.out.splitlines()) == 7  # a header and six rows
    assert [line.split(",")[0] for line in answer.out.splitlines()] == ["day", *["d3"] * 3, *["d4"] * 3]


def test_a_context_that_shows_nothing_is_warned_of_and_answered_by_the_prior(model, tables):
    with warnings.catch_warnings():
        warnings.simplefilter("default", MissingContextWarning)
        answer = call("predict", model[0], "--at", tables / "hours.csv", "--context", tables / "unobserved.csv")
    assert answer.code == 0 and "unobserved.csv holds no observed row" in answer.err
    assert answer.out == call("predict", model[0], "--at", tables / "hours.csv").out


def test_a_picture_that_cannot_be_drawn_leaves_nothing_behind(tables):
    flat = ("--task-column", "day", "--input", "hour", "--input", "temp", "--output", "wind")
    # A fit judges itself on validation tasks, of which some lie outside the range of training: no warning to the user.
    assert call("fit", tables / "data.csv", *flat, *SMALL, "--out", tables / "flat").code == 0
    out = tables / "flat.csv"
    answer = call("predict", tables / "flat", "--at", tables / "morning.csv", "--out", out, "--plot", tables / "flat.png")
    assert answer.code == 2 and "only models with one input can be plotted" in answer.err and not out.exists()


def test_a_licence_and_test_scores_are_kept_in_the_card(tables):
    out = tables / "licensed"
    answer = call("fit", tables / "data.csv", *NAMES, *SMALL, "--test", 0.2, "--licence", "CC0", "--out", out)
    assert answer.code == 0 and "test (held out)" in answer.out
    shown = call("info", out).out
    assert "CC0" in shown and "test (held out)" in shown and "validation (selected the best step)" in shown


def test_inputs_beyond_the_range_of_training_are_warned_of(model, tables):
    pd.DataFrame({"hour": [30]}).to_csv(tables / "far.csv", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("default", OutsideRangeWarning)
        answer = call("predict", model[0], "--at", tables / "far.csv")
    assert answer.code == 0 and "mpnp: warning: 1 of 1 rows lie outside the training range: 'hour' is 30" in answer.err


def test_predictions_come_from_the_best_forecaster_or_from_the_one_that_is_named(model, tables):
    best = json.loads(call("info", model[0], "--json").out)["about"]["leaderboard"]["best"]
    assert "forecaster, validation tasks" in model[1].out and "by default" in model[1].out
    asked = ("predict", model[0], "--context", tables / "morning.csv", "--at", tables / "hours.csv")
    answers = {name: call(*asked, "--model", name) for name in ("best", "network", "stack", "mean", "normal")}
    assert all(answer.code == 0 for answer in answers.values()), answers
    assert call(*asked).out == answers["best"].out == answers[best].out
    assert len({answers[name].out for name in ("network", "mean", "normal")}) == 3
    answer = call(*asked, "--model", "pg")
    assert answer.code == 2 and "unknown forecaster 'pg'" in answer.err and "network" in answer.err
    assert call(*asked, "--model", "mean", "--plot", tables / "mean.png").code == 0


def test_a_report_shows_who_forecasts_best_and_what_to_mind(tables):
    answer = call("fit", tables / "data.csv", *NAMES[:6], *SMALL, "--out", tables / "reported", "--report", tables / "r.html")
    assert answer.code == 0, answer.err
    page, numbers = (tables / "r.html").read_text(), json.loads((tables / "r.json").read_text())
    for title in ("Leaderboard", "Learning curve", "Limits", "Example forecasts"):
        assert f">{title}</h2>" in page
    assert {"leaderboard", "learning", "limits", "coverage", "functionals"} <= numbers["sections"].keys()
    assert "validation tasks are few" in numbers["sections"]["limits"]["verdict"]
    answer = call("fit", tables / "data.csv", *NAMES, *SMALL, "--out", tables / "no", "--report", tables / "r.txt")
    assert answer.code == 2 and "must end in .html" in answer.err and not (tables / "no").exists()


def test_weights_and_known_noise_from_fit_to_prediction_and_update(tables):
    frame = pd.read_csv(tables / "data.csv").drop(columns="wind").assign(w=1.5, s=np.tile([0.0, 2.0, 4.0], 40))
    frame.to_csv(tables / "noisy.csv", index=False)
    names = ("--task-column", "day", "--input", "hour", "--output", "temp", "--weight-column", "w", "--noise-column", "s")
    fit = call("fit", tables / "noisy.csv", *names, *SMALL, "--out", tables / "noisy")
    assert fit.code == 0, fit.err
    shown = call("info", tables / "noisy").out.splitlines()
    assert [line.split() for line in shown if line.startswith(("weights", "known noise"))] == [
        ["weights", "w"],
        ["known", "noise", "s"],
    ]
    pd.DataFrame({"hour": [3, 4], "s": [0.0, 30.0]}).to_csv(tables / "noisy-hours.csv", index=False)
    for at in ("hours.csv", "noisy-hours.csv"):
        answer = call(
            "predict", tables / "noisy", "--context", tables / "morning.csv", "--at", tables / at, "--out", tables / f"of-{at}"
        )
        assert answer.code == 0, answer.err
    plain, noisy = (pd.read_csv(tables / f"of-{at}")["std"] for at in ("hours.csv", "noisy-hours.csv"))
    np.testing.assert_allclose(noisy, np.hypot(plain[:2], [0, 30]), rtol=1e-4)
    options = ("--update", tables / "noisy", "--steps", 4, "--quiet", "--rivals", "none", "--out", tables / "newer")
    answer = call("fit", tables / "data.csv", *options)
    assert answer.code == 2 and "unknown column 'w'" in answer.err
    answer = call("fit", tables / "noisy.csv", *options, "--weight-column", "other")
    assert answer.code == 2 and "--weight-column w, not other" in answer.err
    assert call("fit", tables / "noisy.csv", *options).code == 0
    frame.assign(s=-1.0).to_csv(tables / "negative.csv", index=False)
    answer = call("fit", tables / "negative.csv", *names, *SMALL, "--out", tables / "bad")
    assert answer.code == 2 and "column 's': the known noise of a measurement must be a finite number" in answer.err
