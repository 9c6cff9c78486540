"""Weights of rows and known noise of measurements, from tables and pairs to training tasks; numbers computed by hand."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from mpnp.errors import InputError
from mpnp.tables.augment import mix_curves
from mpnp.tables.columns import Schema
from mpnp.tables.curves import Curves
from mpnp.tables.dataset import CurveDataset
from mpnp.tables.frames import curves_from_frame, read_noise
from mpnp.tables.storage import load_dataset, save_dataset

HOURS = np.arange(4.0)
FRAME = pd.DataFrame(
    {
        "day": np.repeat(["b", "a"], 3),
        "hour": [2.0, 0.0, 1.0, 0.0, 1.0, 2.0],
        "temp": [12.0, 10.0, 11.0, 20.0, np.nan, 22.0],
        "w": [3.0, 1.0, 2.0, 4.0, 5.0, 6.0],
        "s": [0.3, 0.1, 0.2, 0.4, np.nan, 0.6],
    }
)
COLUMNS = Schema.named(("hour",), ("temp",), "day", weight="w", noise=("s",))


def pairs(num=20):
    rng = np.random.default_rng(0)
    return [(HOURS, 50 + 5 * rng.normal(size=4)) for _ in range(num)]


def test_weights_and_noise_stay_with_their_rows():
    curves = curves_from_frame(FRAME, COLUMNS)
    assert (curves.names, curves.y[:, 0].tolist()) == (("b", "a"), [12, 10, 11, 20, 22])  # the row without an output is gone
    assert (curves.weights.tolist(), curves.noise[:, 0].tolist()) == ([3, 1, 2, 4, 6], [0.3, 0.1, 0.2, 0.4, 0.6])
    ordered = curves.in_order()
    assert ordered.names == ("a", "b") and ordered.weights.tolist() == [4, 6, 1, 2, 3]
    assert ordered.select([1]).noise[:, 0].tolist() == [0.1, 0.2, 0.3] and ordered.select([]).weights.shape == (0,)
    shuffled = curves_from_frame(FRAME.sample(frac=1, random_state=0), COLUMNS).in_order()
    assert shuffled.same_rows(ordered)
    for other in ({"weights": ordered.weights + 1}, {"noise": ordered.noise + 1}, {"weights": None}):
        assert not dataclasses.replace(ordered, **other).same_rows(ordered)


def test_pairs_take_an_array_each():
    curves = Curves.from_pairs(
        [(HOURS, HOURS), (HOURS[:2], [1.0, np.nan])], weights=[[1, 2, 3, 4], [5, 6]], noise=[[0.1] * 4, [0.5, np.nan]]
    )
    assert curves.weights.tolist() == [1, 2, 3, 4, 5] and curves.noise[-1].tolist() == [0.5]
    assert curves.columns.noise == ("y_noise",)


def test_a_data_set_keeps_them_on_disk(tmp_path):
    table = CurveDataset(Curves.from_pairs(pairs(), weights=[HOURS + 1] * 20, noise=[HOURS] * 20))
    save_dataset(tmp_path / "table.safetensors", table)
    again = load_dataset(tmp_path / "table.safetensors")
    assert again.curves.same_rows(table.curves) and again.curves.columns == table.curves.columns
    assert Schema.from_json(table.columns.to_json()) == table.columns


def test_the_typical_noise_is_the_root_mean_square_in_training():
    x, y, noise = np.zeros((3, 1)), np.array([[0.0], [10.0], [np.nan]]), np.array([[3.0], [4.0], [99.0]])
    schema = Schema.named(["x"], ["y"], noise=["s"]).learn(x, y, noise)
    np.testing.assert_allclose(schema.output_columns[0].noise.typical, np.sqrt(12.5))
    np.testing.assert_allclose(schema.typical_noise, np.sqrt(12.5) / 5)  # the outputs' standard deviation is 5
    np.testing.assert_allclose(schema.encode_noise(noise[:2]), [[0.6], [0.8]])


def test_within_a_task_rows_count_by_their_weights_and_tasks_are_drawn_by_theirs():
    weights = [[1.0, 3.0, 0.0, 4.0], [6.0, 6.0, 6.0, 6.0], [1.0] * 4]
    curves = Curves.from_pairs(
        [(HOURS, HOURS + number) for number in range(3)], weights=weights, groups=["train", "train", "validation"]
    )
    family = CurveDataset(curves).problem().training
    tasks = jax.vmap(family.sample)(jax.random.split(jax.random.key(0), 4_000))
    order = jnp.argsort(tasks.x[..., 0], axis=1)
    by_hour = np.asarray(jnp.take_along_axis(tasks.loss_weights, order, axis=1))
    first = np.ptp(by_hour, axis=1) > 0
    np.testing.assert_allclose(by_hour[first], np.tile([0.5, 1.5, 0.0, 2.0], (first.sum(), 1)), rtol=1e-5)
    np.testing.assert_allclose(by_hour[~first], 1, rtol=1e-5)
    np.testing.assert_allclose(first.mean(), 2 / (2 + 6), atol=0.02)  # mean weights 2 and 6


def test_the_unit_of_weights_does_not_matter():
    first, second = (
        CurveDataset(Curves.from_pairs(pairs(), weights=[factor * (HOURS + 1)] * 20), mixing=0.5).problem().training
        for factor in (1.0, 1e-6)
    )
    key = jax.random.key(0)
    for one, other in zip(jax.tree.leaves(first.sample(key)), jax.tree.leaves(second.sample(key)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_noise_reaches_the_tasks_in_units_of_the_network():
    curves = Curves.from_pairs(pairs(), noise=[HOURS] * 20)
    table = CurveDataset(curves)
    task = table.problem().training.sample(jax.random.key(3))
    hour = table.columns.input_scale.scale[0] * task.x[:, 0] + table.columns.input_scale.shift[0]
    np.testing.assert_allclose(task.known_noise, hour / table.columns.output_scale.scale[0], atol=1e-5)


def test_blends_multiply_weights_and_blend_variances_of_noise():
    curves = Curves.from_pairs(pairs(2), weights=[[1.0] * 4, [3.0] * 4], noise=[[0.3] * 4, [0.4] * 4])
    mixed = mix_curves(curves, 200, seed=0)
    blends = mixed.select(range(2, 202))
    np.testing.assert_allclose(mixed.weights[:8], [0.5] * 4 + [1.5] * 4)  # relative to the mean weight
    assert set(np.round(blends.weights, 9)) == {0.25, 0.75, 2.25}
    both = blends.noise[np.isclose(blends.weights, 0.75)]
    assert both.min() > 0.3 and both.max() < 0.4  # cos² 0.09 + sin² 0.16


BAD_CELLS = {
    "a negative weight": ({"w": [3.0, -1.0, 2.0, 4.0, 5.0, 6.0]}, "column 'w': a weight must be .* row 1 is -1"),
    "a missing weight": ({"w": [3.0, 1.0, np.nan, 4.0, 5.0, 6.0]}, "column 'w': a weight .* row 2 is missing"),
    "an infinite weight": ({"w": [np.inf, 1.0, 1.0, 4.0, 5.0, 6.0]}, "'w' is infinite in row 0"),
    "a weight that is a text": ({"w": ["much"] * 6}, "'w'"),
    "a negative noise": ({"s": [0.3, 0.1, 0.2, -0.4, 0.5, 0.6]}, "column 's': the known noise .* row 3 is -0.4"),
    "a missing noise": ({"s": [0.3, np.nan, 0.2, 0.4, 0.5, 0.6]}, "column 's': the known noise .* row 1 is missing"),
}


@pytest.mark.parametrize(("cells", "message"), BAD_CELLS.values(), ids=BAD_CELLS)
def test_bad_cells_are_named(cells, message):
    with pytest.raises(InputError, match=message):
        curves_from_frame(FRAME.assign(**cells), COLUMNS)


BAD_PAIRS = {
    "weights of other tasks": ({"weights": [[1.0] * 4]}, "weights must hold one array for each of 2 tasks, got 1"),
    "a weight too few": ({"weights": [[1.0] * 4, [1.0] * 3]}, "weights of task 1 must hold one number for each of 4 rows"),
    "a negative weight": ({"weights": [[1.0] * 4, [1, 1, 1, -1]]}, "weights of task 1: .* row 3 is -1"),
    "noise of two outputs": ({"noise": [np.ones((4, 2))] * 2}, "noise of task 0 must have the shape of the outputs"),
    "no noise of an output": ({"noise": [[np.nan] * 4] * 2}, "noise of task 0: .* row 0 is missing"),
}


@pytest.mark.parametrize(("known", "message"), BAD_PAIRS.values(), ids=BAD_PAIRS)
def test_bad_arrays_are_named(known, message):
    with pytest.raises(InputError, match=message):
        Curves.from_pairs([(HOURS, HOURS)] * 2, **known)


def test_noise_needs_outputs_in_plain_numbers_and_a_column_for_each():
    with pytest.raises(InputError, match="the noise of 'cases' is in its units, but the network reads its logarithm"):
        Schema.named(["day"], ["cases:count"], noise=["s"])
    with pytest.raises(InputError, match="every output needs its column of known noise: got 1"):
        Schema.named(["day"], ["temp", "wind"], noise=["s"])
    with pytest.raises(InputError, match="all rows of the validation tasks have weight 0"):
        groups = ["train", "train", "validation"]
        CurveDataset(Curves.from_pairs(pairs(3), weights=[[1.0] * 4] * 2 + [[0.0] * 4], groups=groups))
    with pytest.raises(InputError, match="unknown column 'w'"):
        curves_from_frame(FRAME.drop(columns="w"), COLUMNS)


def test_rows_to_predict_may_have_a_column_of_noise():
    assert read_noise(COLUMNS, FRAME[["hour"]]) is None and read_noise(COLUMNS, [0.0, 1.0]) is None
    assert read_noise(COLUMNS, FRAME[["hour", "s"]].dropna())[:, 0].tolist() == [0.3, 0.1, 0.2, 0.4, 0.6]
    with pytest.raises(InputError, match="row 4 is missing"):
        read_noise(COLUMNS, FRAME)
