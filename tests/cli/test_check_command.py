"""`mpnp check` as a user types it."""

import json

import numpy as np
import pandas as pd
import pytest

from helpers.command_line import call, files
from helpers.fitted_models import fitted, renamed, some_curves


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    directory = tmp_path_factory.mktemp("check")
    curves = renamed(some_curves(8), ("hour",), ("temp",), "day")
    fitted("cnp", curves).save(directory / "model")
    table = pd.DataFrame({"day": np.repeat(curves.names, curves.counts), "hour": curves.x[:, 0], "temp": curves.y[:, 0]})
    table.to_csv(directory / "curves.csv", index=False)
    table.drop(columns="temp").to_csv(directory / "no-outputs.csv", index=False)
    return directory


def test_a_fitted_model_is_checked_on_its_own_curves(place):
    out = place / "page" / "report.html"
    answer = call("check", place / "model", "--data", place / "curves.csv", "--out", out, "--tasks", 4, "--quiet")
    assert answer.code == 0, answer.err
    assert "Coverage of bands" in answer.out and "The 90% band covers" in answer.out and "8 of your curves" in answer.out
    assert out.read_text().startswith("<!doctype html>")
    assert json.loads(out.with_suffix(".json").read_text())["format"] == "mpnp-check"
    shown = call("info", place / "model")
    assert "check of bands" in shown.out and "The 90% band covers" in shown.out


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (("model",), "was fitted to curves, which its card does not hold", 2),
        (("model", "--data", "missing.csv"), "missing.csv does not exist", 2),
        (("model", "--data", "no-outputs.csv"), "unknown column 'temp'", 2),
        (("model", "--data", "curves.csv", "--out", "report.pdf"), "must end in .html", 2),
        (("model", "--data", "curves.csv", "--tasks", "0"), "num_tasks must be a whole number of at least 2, got 0", 2),
        (("model", "--data", "curves.csv", "--seed", "-1"), "seed must lie between 0 and", 2),
        (("model", "--data", "curves.csv", "--task", "rbf"), "either curves or a task family", 2),
        (("canp-rbf", "--task", "rbf-4d"), "the model reads 1 input and 1 output dimensions", 2),
        (("canp-rbf", "--task", "rbff"), "unknown task 'rbff'", 2),
        (("nowhere",), "holds no model", 3),
    ],
)
def test_bad_input_is_refused_in_one_line_and_writes_nothing(place, monkeypatch, arguments, message, code):
    monkeypatch.chdir(place)
    before = files(place)
    answer = call("check", *arguments)
    assert answer.code == code and message in answer.err and answer.err.count("\n") == 1
    assert files(place) == before
