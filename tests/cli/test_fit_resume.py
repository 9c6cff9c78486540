"""Interrupted fits: they end as if nothing had happened, and refuse to become another fit."""

import json
import os
import shutil

import numpy as np
import pandas as pd
import pytest

from helpers.command_line import call, files
from mpnp.inference import fit
from mpnp.inference.model import load
from mpnp.io.locks import exclusive
from mpnp.training.loop import _Loop

NAMES = ("--task-column", "day", "--input", "hour", "--output", "temp")
SMALL = ("--model", "cnp", "--steps", 20, "--batch-size", 4, "--width", 8, "--num-heads", 2, "--encoder-depth", 1, "--quiet")
SMALL += ("--held-out-contexts", 20, "--licence", "CC0", "--rivals", "mean,persistence")


def interrupt(*_):
    raise KeyboardInterrupt


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A table, a fit that was interrupted at its fifth step, one that was interrupted as it cleaned up, and a straight one."""
    place, rng = tmp_path_factory.mktemp("place"), np.random.default_rng(0)
    frame = pd.DataFrame({"day": np.repeat([f"d{n}" for n in range(20)], 6), "hour": np.tile(np.arange(6), 20)})
    frame["temp"] = 50 + 3 * frame["hour"] + np.repeat(rng.normal(0, 9, 20), 6)
    frame.to_csv(place / "data.csv", index=False)
    (frame + {"day": "", "hour": 0, "temp": 1}).to_csv(place / "warmer.csv", index=False)
    command = ("fit", place / "data.csv", *NAMES, *SMALL, "--out")
    assert call(*command, place / "straight").code == 0
    with pytest.MonkeyPatch.context() as patch:
        validate = _Loop._validate
        patch.setattr(_Loop, "_validate", lambda self, state, at: interrupt() if at.step == 5 else validate(self, state, at))
        answer = call(*command, place / "unfinished")
    assert answer.code == 130 and f"continue with: mpnp fit --resume {place / 'unfinished'}" in answer.out
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit.shutil, "rmtree", interrupt)
        assert call(*command, place / "uncleaned").code == 130
    return place


@pytest.fixture(autouse=True)
def here(place, tmp_path, monkeypatch):
    shutil.copytree(place, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["unfinished", "uncleaned"])
@pytest.mark.parametrize("repeated", [(), ("data.csv", *NAMES, *SMALL, "--out")], ids=["bare", "with its own options"])
def test_a_resumed_fit_ends_as_a_straight_one(name, repeated, here):
    answer = call("fit", *repeated, *([name] if repeated else []), "--resume", name)
    assert (answer.code, answer.err) == (0, "")
    assert sorted(os.listdir(name)) == ["card.json", "model.safetensors", "rivals.safetensors"]
    for file in ("model.safetensors", "rivals.safetensors"):
        assert (here / name / file).read_bytes() == (here / "straight" / file).read_bytes()
    cards = [load(each).card.to_json() for each in (name, "straight")]
    for card in cards:
        del card["about"]["progress"], card["about"]["cpu_seconds"]  # they hold times
    assert cards[0] == cards[1] and cards[0]["licence"] == "CC0"


DISAGREEMENTS = {
    "--steps 30": "--steps 20, not 30; leave out --steps",
    "--seed 1 --width 16": "--seed 0, not 1, --width 8, not 16; leave out --seed and --width",
    "--mixing 0.5": "--mixing 0.95, not 0.5",
    "--max-minutes 9": "--max-minutes 5.0, not 9.0",
    "--validation 0.3 --context prefix": "--context random, not prefix, --validation 0.15, not 0.3",
    "--output wind": "--output temp, not wind",
    "--group-column day": "no --group-column, not day",
    "--weight-column w --noise-column s": "no --weight-column, not w, no --noise-column, not s",
    "--licence MIT": "--licence CC0, not MIT",
    "warmer.csv": "other rows than those of warmer.csv",
}


@pytest.mark.parametrize(("options", "message"), DISAGREEMENTS.items(), ids=DISAGREEMENTS)
def test_options_that_disagree_are_refused_and_all_are_named(options, message, here):
    before = files(here)
    answer = call("fit", *options.split(), "--resume", "unfinished")
    assert answer.code == 2 and f"unfinished was started with {message}" in answer.err
    assert files(here) == before


def test_a_resumed_fit_stays_where_it_is():
    answer = call("fit", "--resume", "unfinished", "--out", "other")
    assert answer.code == 2 and "--resume continues in unfinished itself; leave out --out other" in answer.err


def test_a_fit_in_use_by_another_process_is_left_to_it(here):
    for command in (("--resume", "unfinished"), ("data.csv", *NAMES, *SMALL, "--out", "unfinished")):
        with exclusive(here / "unfinished"):
            answer = call("fit", *command)
        assert answer.code == 3 and "unfinished is in use by another process" in answer.err


@pytest.mark.parametrize("options", ["no", [], {"steps": "many"}, {"step": 20}, {"seed": -1}], ids=str)
def test_a_damaged_plan_is_refused(options, here):
    plan = here / "unfinished" / "training" / "plan.json"
    plan.write_text(json.dumps(json.loads(plan.read_text()) | {"options": options}))
    for more in ((), ("--steps", 20)):
        answer = call("fit", *more, "--resume", "unfinished")
        assert answer.code == 3 and "unfinished/training is damaged" in answer.err and answer.err.count("\n") == 1


def test_a_fit_killed_before_its_plan_was_written_can_be_started_again(here):
    (here / "unfinished" / "training" / "plan.json").unlink()
    answer = call("fit", "--resume", "unfinished")
    assert answer.code == 3 and "interrupted before its first step; start it again with 'mpnp fit'" in answer.err
