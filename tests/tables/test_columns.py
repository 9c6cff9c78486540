"""The schema of a table: encoders by column, and their way to disk and back."""

import dataclasses
import json
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.fitted_models import fitted, some_curves
from mpnp.errors import InputError, RunError
from mpnp.inference.card import ModelCard
from mpnp.inference.prediction import Prediction
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.tables.columns import Column, Schema
from mpnp.tables.curves import Curves
from mpnp.tables.dataset import CurveDataset
from mpnp.tables.encoders.base import AbstractColumnEncoder
from mpnp.tables.encoders.numeric import NumericEncoder
from mpnp.tables.encoders.registry import COLUMN_ENCODERS
from mpnp.tables.frames import curves_from_frame
from mpnp.tables.points import context_points, target_inputs
from mpnp.tables.storage import load_dataset, save_dataset


@dataclasses.dataclass(frozen=True)
class Bands(AbstractColumnEncoder):
    """A toy: the logarithm of a positive input, and whether it is above the training mean. Two features."""

    middle: float = 0.0
    kind: ClassVar[str] = "bands"

    @property
    def width(self):
        return 2

    def adapt(self, cells, name):
        return self

    def show(self, value):
        return f"{value:g} kg"

    def read(self, cells, name, remedy):
        return cells.str.removesuffix(" kg").astype(float).to_numpy()

    def learn_input(self, values):
        return Bands(float(np.log(values).mean()))

    def encode(self, values):
        return np.stack([np.log(values) - self.middle, np.log(values) > self.middle], axis=-1)

    def to_json(self):
        return {"middle": self.middle}

    @classmethod
    def from_json(cls, content):
        return cls(float(content["middle"]))


TOY = Schema((Column("mass", Bands()), Column("hour")), (Column("temp"), Column("wind")), "day")
FRAME = pd.DataFrame(
    {
        "day": [0, 0, 1, 1, 2, 2],
        "mass": ["1 kg", "2 kg", "4 kg", "8 kg", "2 kg", "4 kg"],
        "hour": [0, 1, 2, 3, 4, 5],
        "temp": [20.0, 21.0, None, 23.0, 24.0, 25.0],
        "wind": [3.0, None, 5.0, 6.0, 7.0, 8.0],
    }
)


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setitem(COLUMN_ENCODERS, "bands", Bands)
    curves = curves_from_frame(FRAME, TOY)
    return curves, TOY.learn(curves.x, curves.y)


def test_a_new_encoder_reads_learns_and_encodes_its_column_and_no_other(toy):
    curves, schema = toy
    np.testing.assert_array_equal(curves.x[:, 0], [1, 2, 4, 8, 2, 4])
    encoded = schema.encode_inputs(curves.x)
    np.testing.assert_allclose(encoded[:, 0], np.log(curves.x[:, 0]) - np.log(curves.x[:, 0]).mean())
    np.testing.assert_array_equal(encoded[:, 1], [0, 0, 1, 1, 0, 1])
    np.testing.assert_allclose(encoded[:, 2], np.linspace(-2, 2, 6))


def test_the_points_of_a_network_have_the_features_of_a_new_encoder(toy):
    curves, schema = toy
    assert schema.dims == (2 + 1 + 2, 1)  # two features of the mass, the hour, and which of two outputs a point is
    points = context_points(schema, curves.x, curves.y)
    assert points.x.shape == (10, 5) and target_inputs(schema, curves.x).shape == (12, 5)
    training = CurveDataset(curves, validation=0.4).problem().training
    assert training.x_dim == 5 and training.x.shape[1] == 3


def test_a_new_encoder_survives_the_files_of_a_run_and_of_a_model(toy, tmp_path):
    curves, schema = toy
    assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema
    table = CurveDataset(curves, validation=0.4)
    save_dataset(tmp_path / "table.safetensors", table)
    assert load_dataset(tmp_path / "table.safetensors").columns == table.columns
    card = fitted("cnp", curves).card
    content = json.loads(json.dumps(card.to_json()))
    assert content["version"] == 2 and ModelCard.from_json(content, "card.json").columns == card.columns
    COLUMN_ENCODERS.pop("bands")
    with pytest.raises(RunError, match=r"card.json is damaged or incomplete \(no 'bands'\)"):
        ModelCard.from_json(content, "card.json")


def test_an_encoder_without_an_inverse_is_refused_for_outputs():
    with pytest.raises(InputError, match="'mass' cannot be an output: its encoder 'bands' has no inverse"):
        Schema((Column("hour"),), (Column("mass", Bands()),))


def test_shifts_and_scales_are_those_of_numbers_alone(toy):
    with pytest.raises(InputError, match="expected numeric columns, but not all of mass, hour are"):
        _ = toy[1].input_scale
    np.testing.assert_array_equal(toy[1].output_scale.shift, [np.mean([20, 21, 23, 24, 25]), np.mean([3, 5, 6, 7, 8])])


def test_cards_of_numeric_columns_keep_the_first_format():
    content = fitted("cnp", some_curves(outputs=2)).card.to_json()
    assert content["version"] == 1
    assert content["columns"] == {"inputs": ["x"], "outputs": ["y0", "y1"], "task": "task", "group": None}
    assert {axis: {name: len(values) for name, values in scales.items()} for axis, scales in content["normaliser"].items()} == {
        "x": {"shift": 1, "scale": 1},
        "y": {"shift": 2, "scale": 2},
    }


def test_encoders_are_learnt_from_training_curves_alone():
    table = CurveDataset(some_curves(12, outputs=2, missing=True), test=0.25)
    x, y = table.columns.encode_inputs(table.parts["train"].x), table.columns.encode_outputs(table.parts["train"].y)
    np.testing.assert_allclose([x.min(), x.max()], [-2, 2])
    np.testing.assert_allclose(np.nanmean(y, axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(np.nanstd(y, axis=0), 1)
    np.testing.assert_allclose(table.columns.decode_outputs(table.columns.encode_outputs(table.curves.y)), table.curves.y)


def test_columns_that_do_not_vary_keep_their_units():
    curves = Curves.from_pairs([([5.0, 5.0], [0.1, 0.1]), ([5.0], [0.1])])
    schema = curves.columns.learn(curves.x, curves.y)
    assert schema.input_scale.scale.tolist() == [1.0] and schema.output_scale.scale.tolist() == [1.0]


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e3), st.floats(-10, 10))
def test_the_slope_of_a_numeric_column_is_the_derivative_of_its_decoder(shift, scale, value):
    encoder, encoded = NumericEncoder(shift, scale), np.array([value, value + 1])
    np.testing.assert_allclose(np.diff(encoder.decode(encoded)), encoder.slope(encoded), rtol=1e-5)
    np.testing.assert_allclose(encoder.encode(encoder.decode(encoded))[:, 0], encoded, atol=1e-5)


@pytest.mark.parametrize(
    ("shift", "scale"), [(np.nan, 1.0), (np.inf, 1.0), (0.0, 0.0), (0.0, -1.0), (0.0, np.nan), (0.0, np.inf)]
)
def test_scales_that_make_no_numbers_are_refused(shift, scale):
    with pytest.raises(ValueError, match="a finite shift and a positive, finite scale"):
        NumericEncoder(shift, scale)


def test_normal_distributions_are_moved_and_stretched_to_the_users_units():
    schema = Schema((Column("x"),), (Column("a", NumericEncoder(10.0, 2.0)), Column("b", NumericEncoder(-1.0, 0.5))))
    loc, scale = np.array([[[1.0], [2.0], [3.0], [4.0]]]), np.array([[[1.0], [1.0], [2.0], [2.0]]])
    prediction = Prediction.decode(Predictive(loc, scale), schema)
    np.testing.assert_array_equal(prediction.loc, [[[12.0, 0.0], [16.0, 1.0]]])
    np.testing.assert_array_equal(prediction.std, [[2.0, 0.5], [4.0, 1.0]])
    with pytest.raises(InputError, match="the prediction is not finite"):
        Prediction.decode(Predictive(loc * np.nan, scale), schema)
