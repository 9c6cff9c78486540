"""Stored data sets: whenever a save is interrupted, the old set or the new one is read whole, and nothing is left over."""

import os

import numpy as np
import pytest

from mpnp.errors import RunError
from mpnp.io import store
from mpnp.io.files import write_json
from mpnp.io.locks import exclusive


class KilledError(BaseException):
    """Ends a process as a kill would: nothing but the operating system cleans up."""


def killed(*_):
    raise KilledError


@pytest.fixture
def directory(tmp_path):
    store.save_arrays(tmp_path / "set", {"a": np.arange(3), "b": np.ones(1)}, {"what": "old"})
    return tmp_path / "set"


def save_new(directory):
    store.save_arrays(directory, {"a": np.zeros(3)}, {"what": "new"})


def read(directory):
    arrays, about = store.load_arrays(directory)
    return {name: array.tolist() for name, array in arrays.items()}, about["what"]


OLD, NEW = ({"a": [0, 1, 2], "b": [1]}, "old"), ({"a": [0, 0, 0]}, "new")


def test_what_is_saved_is_read_and_replaces_the_old(directory):
    assert store.load_arrays(directory.with_name("nothing")) is None
    assert read(directory) == OLD
    save_new(directory)
    assert read(directory) == NEW and len(os.listdir(directory)) == 2


@pytest.mark.parametrize(("change", "found"), [("write_json", OLD), ("write_atomically", OLD), ("_remove_outdated", NEW)])
def test_a_killed_save_leaves_the_old_set_or_the_new_one_and_the_next_cleans_up(change, found, directory, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(KilledError):
        patch.setattr(store, "_remove_outdated", killed)
        patch.setattr(store, change, killed)
        save_new(directory)
    assert read(directory) == found
    save_new(directory)
    assert read(directory) == NEW and len(os.listdir(directory)) == 2


def test_a_failed_save_leaves_nothing(directory):
    for place in (directory, directory.with_name("other")):
        with pytest.raises(ValueError, match="allow_pickle"):
            store.save_arrays(place, {"a": np.zeros(3), "b": np.asarray([object()])}, {})
    assert read(directory) == OLD and os.listdir(directory.parent) == ["set"] and len(os.listdir(directory)) == 2


def test_what_another_process_is_writing_is_left_to_it(directory):
    with exclusive(directory / "theirs"):
        (directory / "theirs" / "a.npy").touch()
        save_new(directory)
        assert (directory / "theirs" / "a.npy").exists()
    save_new(directory)
    assert not (directory / "theirs").exists()


def test_a_set_of_an_older_version_is_read(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(3))
    write_json(tmp_path / "about.json", {"what": "older", "arrays": ["a"]})
    assert read(tmp_path) == ({"a": [0, 1, 2]}, "older")


@pytest.mark.parametrize("about", ["[]", "{", '{"arrays": 1}', '{"arrays": ["a"], "folder": 3}', '{"folder": "x"}'])
def test_a_damaged_description_is_an_error(directory, about):
    (directory / "about.json").write_text(about)
    with pytest.raises(RunError, match=r"is damaged|is not valid JSON"):
        store.load_arrays(directory)


def test_a_damaged_array_is_an_error(directory):
    next(directory.glob("*/a.npy")).write_bytes(b"nonsense")
    with pytest.raises(RunError, match="is damaged"):
        store.load_arrays(directory)
