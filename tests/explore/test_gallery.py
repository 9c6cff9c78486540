"""What the page knows of its models, and the document that holds it."""

import json
import re

import numpy as np
import pytest

from helpers.fitted_models import fitted, some_curves
from mpnp.errors import InputError
from mpnp.explore.document import render
from mpnp.explore.gallery import Gallery, as_numbers
from mpnp.explore.html import pack_weights, write_html


def test_models_with_the_same_axes_stand_side_by_side():
    same, other = fitted("cnp"), fitted("cnp", some_curves(seed=1))
    description = Gallery({"a": same, "b": fitted("mpnp"), "c": other}).describe()
    assert [model["group"] for model in description["models"]] == [0, 0, 1]
    assert [model["generates"] for model in description["models"]] == [False, True, False]


def test_real_curves_are_what_one_starts_with():
    curves = some_curves()
    (group,) = Gallery({"a": fitted("cnp")}, curves).describe()["groups"]
    whole = group["starts"][1]
    assert (group["first"], group["truth"]) == (0, "the whole curve")
    assert whole["name"] == "0" and np.all(np.diff(whole["x"]) > 0)
    np.testing.assert_allclose(np.sort(whole["x"]), np.sort(curves.pair(0)[0][:, 0]), rtol=1e-4)


def test_models_with_several_inputs_are_refused():
    with pytest.raises(InputError, match="one input"):
        Gallery({"a": fitted("cnp", some_curves(inputs=2))})


def test_numbers_are_short_and_missing_ones_null():
    assert as_numbers(np.array([[1 / 3, np.nan]])) == [[0.33333, None]]


def test_no_name_can_leave_the_script():
    text = render({"groups": [], "models": [{"name": "</script><script>alert(1)</script>"}], "engine": {}}, alone=False)
    assert "alert(1)</script>" not in text
    data = text.partition('id="data">')[2].partition("</script>")[0]
    assert json.loads(data)["models"][0]["name"].startswith("</script>")


def test_weights_survive_packing():
    rng = np.random.default_rng(0)
    exact_in_half = rng.normal(size=(3, 5)).astype(np.float16).astype(np.float32)
    weights = {"a": exact_in_half, "b": rng.normal(size=7).astype(np.float32), "c": np.array([1, 2], np.int32)}
    index, data = pack_weights(weights)
    assert [each["type"] for each in index] == ["float16", "float32", "int32"]
    for each in index:
        size = int(np.prod(each["shape"]))
        read = np.frombuffer(data, each["type"], size, each["start"]).reshape(each["shape"])
        np.testing.assert_array_equal(read.astype(weights[each["name"]].dtype), weights[each["name"]])


def test_the_file_names_no_address_and_forbids_the_network(tmp_path):
    (path,) = write_html({"mine": fitted("cnp")}, tmp_path / "model.html")
    text = path.read_text()
    assert "default-src 'none'" in text
    assert set(re.findall(r"https?://[^\s\"'`)]*", text)) <= {"http://www.w3.org/2000/svg"}
