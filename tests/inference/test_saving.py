"""Saving a model over another: whenever it is interrupted, one of the two loads whole."""

import itertools
import os
import shutil

import numpy as np
import pytest

from helpers.fitted_models import fitted
from mpnp.errors import RunError
from mpnp.inference.files import keep_check
from mpnp.inference.model import load
from mpnp.io.locks import exclusive

AT = np.linspace(12, 47, 6)


class KilledError(BaseException):
    """Ends a process as a kill would: nothing but the operating system cleans up."""


@pytest.fixture(scope="module")
def models():
    return [fitted("cnp"), fitted("canp")]


def answers(model):
    return model.condition([20.0], [300.0]).predict(AT).tolist()


def kill_at(number, patch):
    """End the process just before one of the changes of names that make a save."""
    replace, calls = os.replace, itertools.count()

    def replace_or_die(*paths):
        if next(calls) == number:
            raise KilledError
        replace(*paths)

    patch.setattr(os, "replace", replace_or_die)


@pytest.mark.parametrize("number", range(3))
def test_a_killed_save_leaves_the_old_model_or_the_new_one(number, models, tmp_path, monkeypatch):
    old, new = models
    old.save(tmp_path)
    with monkeypatch.context() as patch, pytest.raises(KilledError):
        kill_at(number, patch)
        new.save(tmp_path, licence="CC0")
    found = load(tmp_path)
    assert (answers(found), found.card.licence) == ((answers(new), "CC0") if number == 2 else (answers(old), None))
    with monkeypatch.context() as patch, pytest.raises(KilledError):
        kill_at(0, patch)  # a second kill must not harm what the first one left
        old.save(tmp_path)
    load(tmp_path)
    new.save(tmp_path)
    assert answers(load(tmp_path)) == answers(new)
    assert sorted(os.listdir(tmp_path)) == ["card.json", "model.safetensors"]


def test_the_same_model_has_the_same_bytes(models, tmp_path):
    contents = set()
    for number in range(8):
        models[0].save(tmp_path / f"{number}")
        contents.add(b"".join((tmp_path / f"{number}" / name).read_bytes() for name in ("card.json", "model.safetensors")))
    assert len(contents) == 1


def test_a_damaged_model_can_be_replaced(models, tmp_path):
    models[0].save(tmp_path)
    (tmp_path / "card.json").write_text("{")
    shutil.copy(tmp_path / "model.safetensors", tmp_path / "next.safetensors")
    models[1].save(tmp_path)
    assert answers(load(tmp_path)) == answers(models[1])


def test_a_check_is_not_written_into_a_card_that_another_process_may_replace(models, tmp_path):
    models[0].save(tmp_path)
    with exclusive(tmp_path), pytest.raises(RunError, match="in use by another process"):
        keep_check(tmp_path, {})
    keep_check(tmp_path, {"tasks": 3})
    assert load(tmp_path).card.about["check"] == {"tasks": 3}


def test_a_directory_in_use_is_not_saved_to(models, tmp_path):
    with exclusive(tmp_path / "model"), pytest.raises(RunError, match="in use by another process"):
        models[0].save(tmp_path / "model")
