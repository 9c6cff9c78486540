"""Stored curves come back as they were; damaged ones are refused before anything is allocated for them."""

import numpy as np
import pytest

from helpers.fitted_models import some_curves
from mpnp.errors import RunError
from mpnp.io.tensors import load_named, save_named
from mpnp.tables.dataset import CurveDataset
from mpnp.tables.storage import load_dataset, save_dataset


@pytest.fixture
def path(tmp_path):
    save_dataset(tmp_path / "table.safetensors", CurveDataset(some_curves(8), "prefix", 0.25, 0.25, 3, 0.5))
    return tmp_path / "table.safetensors"


def test_a_data_set_comes_back_as_it_was(path):
    found, wanted = load_dataset(path), CurveDataset(some_curves(8), "prefix", 0.25, 0.25, 3, 0.5)
    assert found.curves.same_rows(wanted.curves) and found.curves.columns == wanted.curves.columns
    assert (found.context, found.validation, found.test, found.seed, found.mixing) == ("prefix", 0.25, 0.25, 3, 0.5)


ARRAYS = {
    "a curve less": lambda arrays: {"counts": arrays["counts"][1:]},
    "billions of rows": lambda arrays: {"counts": np.full_like(arrays["counts"], 2**40)},
    "counts whose sum wraps around": lambda arrays: {"counts": np.full_like(arrays["counts"], 2**61)},
    "negative counts": lambda arrays: {"counts": -arrays["counts"]},
    "counts that are no whole numbers": lambda arrays: {"counts": arrays["counts"] / 1},
    "a row less": lambda arrays: {"y": arrays["y"][1:]},
    "a column more": lambda arrays: {"x": np.hstack([arrays["x"]] * 2)},
    "no columns": lambda arrays: {"y": arrays["y"].ravel()},
    "whole numbers": lambda arrays: {"x": arrays["x"].astype(int)},
}

CARDS = {
    "a name less": lambda card: {"names": card["names"][1:]},
    "a group more": lambda card: {"groups": [*card["groups"], "a"]},
    "names that are a number": lambda card: {"names": 3},
    "another rule": lambda card: {"context": "suffix"},
    "a rule that is a list": lambda card: {"context": []},
    "a seed that is a text": lambda card: {"seed": "0"},
    "mixing without end": lambda card: {"mixing": 1.0},
    "a scale beyond all numbers": lambda card: {"normaliser": {"x": {"shift": [10**400], "scale": [1]}, "y": {}}},
    "columns that are a text": lambda card: {"columns": "x"},
}


@pytest.mark.parametrize("change", ARRAYS.values(), ids=ARRAYS)
def test_damaged_arrays_are_refused(path, change):
    card, arrays = load_named(path)
    save_named(path, arrays | change(arrays), card)
    with pytest.raises(RunError, match="does not hold the curves of a run"):
        load_dataset(path)


@pytest.mark.parametrize("change", CARDS.values(), ids=CARDS)
def test_a_damaged_card_is_refused(path, change):
    card, arrays = load_named(path)
    save_named(path, arrays, card | change(card))
    with pytest.raises(RunError, match="does not hold the curves of a run"):
        load_dataset(path)
