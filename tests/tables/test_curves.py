"""Curves from pairs, frames and files: what is taken, what is refused, and how it is said."""

import gzip

import jax
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.fitted_models import some_curves
from mpnp.errors import InputError
from mpnp.inference.assess import cut_curves
from mpnp.tables.columns import Schema
from mpnp.tables.curves import Curves
from mpnp.tables.dataset import CurveDataset
from mpnp.tables.frames import curves_from_frame, read_table
from mpnp.tables.split import split_curves

COLUMNS = Schema.named(("hour",), ("temp",), "day")
FRAME = pd.DataFrame({"day": ["a", "b", "a", "b", "b"], "hour": [1, 0, 0, 1, 2], "temp": [20.0, 10.0, None, 11.0, 12.0]})


def test_a_frame_becomes_one_curve_a_task_in_order_of_appearance():
    curves = curves_from_frame(FRAME, COLUMNS)
    assert curves.names == ("a", "b") and curves.counts.tolist() == [1, 3]  # a row without an output is no observation
    np.testing.assert_array_equal(curves.pair(0)[0], [[1.0]])
    np.testing.assert_array_equal(curves.pair(1)[1], [[10.0], [11.0], [12.0]])


def test_frames_and_pairs_agree():
    curves = some_curves(outputs=2, missing=True)
    rows = [
        {"task": curves.names[n], "x": x[0], "y0": y[0], "y1": y[1]}
        for n in range(len(curves))
        for x, y in zip(*curves.pair(n), strict=True)
    ]
    frame = pd.DataFrame(rows).sample(frac=1, random_state=0).sort_values("task", kind="stable")
    again = curves_from_frame(frame, Schema.named(("x",), ("y0", "y1")))
    for number, name in enumerate(again.names):
        x, y = curves.pair(curves.names.index(name))
        order, other = np.argsort(x[:, 0]), np.argsort(again.pair(number)[0][:, 0])
        np.testing.assert_array_equal(again.pair(number)[0][other], x[order])
        np.testing.assert_array_equal(again.pair(number)[1][other], y[order])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop(columns="temp"), "unknown column 'temp'"),
        (lambda f: f.assign(hour=[1, None, 0, 1, 2]), "column 'hour' is missing in row 1"),
        (
            lambda f: f.assign(hour=["1", "0", "noon", "1", "2"]),
            "'hour' must hold numbers, but row 2 is 'noon'.* drop such rows",
        ),
        (lambda f: f.assign(temp=["20", "warm", None, "11", "12"]), "'temp' must hold numbers, but row 1 is 'warm'.* leave it"),
        (lambda f: f.assign(temp=[20, np.inf, 1, 2, 3]), "column 'temp' is infinite in row 1; .* leave it empty if unknown"),
        (lambda f: f.assign(day=["a", None, "a", "b", "b"]), "the task column 'day' is empty in row 1"),
        (lambda f: f.assign(temp=np.nan), "no observed point in 2 tasks"),
        (lambda f: f.iloc[:0], "the table has no rows"),
        (lambda f: pd.concat([f, f[["temp"]]], axis=1), "2 columns named 'temp'"),
    ],
)
def test_frames_that_cannot_be_read_are_refused_with_a_reason(change, message):
    with pytest.raises(InputError, match=message):
        curves_from_frame(change(FRAME), COLUMNS)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([], "no observed point in 0 tasks"),
        ([([1, 2], [1.0])], "task 0: X has 2 rows and y has 1"),
        ([([1], [1.0]), ([[1, 2]], [1.0])], "X of task 1 has 2 columns, but that of task 0 has 1"),
        ([([1], ["a"])], "y of task 0 must hold numbers"),
        ([([None], [1.0])], "X of task 0 must be finite, but row 0"),
        ([([1], [np.inf])], "use NaN for an output that was not observed"),
        ([1, 2], "task 0 must be a pair"),
        ("csv", "must be a list of pairs"),
        ([(np.zeros((2, 2, 2)), [1, 2])], r"must have shape \(points,\) or \(points, columns\)"),
    ],
)
def test_pairs_that_cannot_be_read_are_refused_with_a_reason(pairs, message):
    with pytest.raises(InputError, match=message):
        Curves.from_pairs(pairs)


def test_one_column_cannot_play_two_parts():
    with pytest.raises(InputError, match="'hour' is used twice"):
        curves_from_frame(FRAME, Schema.named(("hour",), ("hour",), "day"))


def test_a_task_whose_rows_disagree_about_its_group_is_refused():
    with pytest.raises(InputError, match="have 3 values of 'hour', such as 0 and 1; a task must lie in one part"):
        curves_from_frame(FRAME.dropna(), Schema.named(("temp",), ("hour",), "day", group="hour"))


def test_dates_are_inputs_in_days():
    frame = FRAME.assign(
        hour=pd.to_datetime(["2020-01-01", "2020-01-02T12:00", "2020-01-03", "2020-01-04", "2020-01-05"], format="ISO8601")
    )
    for dates in (frame, frame.assign(hour=frame["hour"].dt.strftime("%Y-%m-%dT%H:%M"))):
        days = curves_from_frame(dates, COLUMNS).x[:, 0]
        assert sorted(days - days.min()) == [0.0, 1.5, 3.0, 4.0]


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
def test_files_give_what_the_frame_gives(tmp_path, ending):
    path = tmp_path / f"table.{ending}"
    if ending == "parquet":
        pytest.importorskip("pyarrow")
        FRAME.to_parquet(path)
    else:
        FRAME.to_csv(path, index=False)
    read, wanted = curves_from_frame(read_table(path), COLUMNS), curves_from_frame(FRAME, COLUMNS)
    np.testing.assert_array_equal(read.x, wanted.x)
    np.testing.assert_array_equal(read.y, wanted.y)
    assert read.names == wanted.names


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.csv", None, "does not exist"),
        ("empty.csv", b"", "cannot read .*empty.csv as a table"),
        (
            "twice.csv",
            b"day,temp,temp\na,1,2\n",
            "^[^(]*twice.csv has more than one column named 'temp'; column names must be unique",
        ),
        ("broken.csv.gz", b"no gzip", "cannot read"),
        ("cut.csv.gz", gzip.compress(b"day,hour\na,1\n" * 99, mtime=0)[:20], "cannot read"),
        ("picture.parquet", b"\x89PNG", "cannot read"),
        ("bytes.csv", bytes(range(256)), "cannot read"),
        ("ragged.csv", b"a,b\n1,2\n1,2,3,4\n", "cannot read"),
    ],
)
def test_files_that_are_no_tables_are_refused_with_a_reason(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_table(tmp_path / name)


cells = st.one_of(
    st.floats(), st.integers(), st.text(max_size=5), st.none(), st.sampled_from(["", "NA", "1e400", "-", "1,5", "0x1F", "True"])
)


@settings(max_examples=150, deadline=None)
@given(
    header=st.lists(st.sampled_from(["day", "hour", "temp", "x", "", "hour "]), min_size=1, max_size=5),
    rows=st.lists(st.lists(cells, max_size=6), max_size=8),
)
def test_any_file_is_either_read_right_or_refused(tmp_path_factory, header, rows):
    path = tmp_path_factory.mktemp("fuzz") / "table.csv"
    lines = [header, *([str(cell) if cell is not None else "" for cell in row] for row in rows)]
    text = "\n".join(",".join(cell.replace("\r", " ").replace("\n", " ") for cell in line) for line in lines)
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        curves = curves_from_frame(read_table(path), COLUMNS)
    except InputError as error:
        assert "\n" not in str(error)
        return
    # What was read is what a person sees in the file: plain numbers, in the rows that have them.
    assert np.isfinite(curves.x).all() and len(curves.x) <= len(rows)
    day, hour, temp = (header.index(name) for name in ("day", "hour", "temp"))
    seen = [row for row in rows if len(row) > max(day, hour, temp)]
    assert {float(x) for x in curves.x[:, 0]} <= {_number(row[hour]) for row in seen}
    assert {float(y) for y in curves.y[:, 0]} <= {_number(row[temp]) for row in seen}


def _number(cell):
    try:
        return float(str(cell).strip())
    except ValueError:
        return float(str(cell).strip() == "True") if str(cell).strip() in ("True", "False") else None


@pytest.mark.parametrize("seed", range(3))
def test_splits_keep_curves_and_groups_whole(seed):
    groups = [number // 3 for number in range(30)]
    curves = Curves.from_pairs([([0.0, 1.0], [n, n]) for n in range(30)], groups=groups)
    parts = split_curves(curves, validation=0.2, test=0.3, seed=seed)
    assert sorted(name for part in parts.values() for name in part.names) == list(range(30))
    assert [len(parts[name]) for name in ("train", "validation", "test")] == [15, 6, 9]
    of_part = [set(part.groups) for part in parts.values()]
    assert not (of_part[0] & of_part[1] or of_part[0] & of_part[2] or of_part[1] & of_part[2])


def test_the_same_table_in_another_order_format_and_unit_is_learnt_from_alike(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"task": np.repeat([f"{n}" for n in range(12)], 6), "hour": np.tile(np.arange(6.0), 12)})
    frame["temp"] = rng.normal(50, 9, size=len(frame)).round(3)
    frame.loc[5, "temp"] = np.nan
    other = frame.sample(frac=1, random_state=0).assign(hour=lambda f: f.hour * 60 + 100, temp=lambda f: f.temp * 1.8 + 32)
    frame.to_csv(tmp_path / "one.csv", index=False)
    other[["temp", "task", "hour"]].to_csv(tmp_path / "other.csv", index=False, sep=";", decimal=",", encoding="utf-16")
    learnt = []
    for name in ("one", "other"):
        curves = curves_from_frame(read_table(tmp_path / f"{name}.csv", ("task",)), Schema.named(["hour"], ["temp"], "task"))
        table = CurveDataset(curves, "random", 0.25, 0.25, mixing=0.5)
        cuts = cut_curves(table.parts["validation"], "random", max_rows=6, num_cuts=2, seed=0)
        encoded = [table.columns.encode_outputs(y) for _, y, *_ in cuts]
        learnt.append([table.problem(), [part.names for part in table.parts.values()], encoded])
    for one, same in zip(jax.tree.leaves(learnt[0]), jax.tree.leaves(learnt[1]), strict=True):
        np.testing.assert_allclose(one, same, rtol=1e-4, atol=1e-5) if not isinstance(one, str) else one == same


def test_a_column_may_say_which_part_a_curve_is_of():
    groups = ["train", "test", "validation", "train"]
    parts = split_curves(Curves.from_pairs([([0.0], [n]) for n in range(4)], groups=groups))
    assert {name: part.names for name, part in parts.items()} == {"train": (0, 3), "validation": (2,), "test": (1,)}


@pytest.mark.parametrize(
    "groups, message",
    [
        (["train", "val", "test"], "look like the parts of a split: call them exactly train, validation, test, got"),
        (["Train", "Validation"], "look like the parts of a split"),
        (["train", "test"], "none of them is 'validation'; mark some tasks as validation"),
    ],
)
def test_parts_that_are_misnamed_or_missing_are_not_guessed(groups, message):
    curves = Curves.from_pairs([([0.0, 1.0], [0.0, 1.0])] * len(groups), groups=groups)
    with pytest.raises(InputError, match=message):
        split_curves(curves)


def test_an_output_that_no_training_task_has_is_refused():
    curves = Curves.from_pairs([([0.0, 1.0], [[0.0, np.nan], [1.0, np.nan]])] * 10)
    with pytest.raises(InputError, match="the output 'y1' is empty in all training tasks"):
        CurveDataset(curves)


@pytest.mark.parametrize("scale", [1e150, 1e-150])
def test_units_whose_squares_no_number_can_hold_are_refused(scale):
    pairs = [([0.0, 1.0], [number * scale, scale]) for number in range(10)]
    with pytest.raises(InputError, match=r"the column 'y' reaches .*; choose other units"):
        CurveDataset(Curves.from_pairs(pairs))
    small, plain = (
        CurveDataset(Curves.from_pairs([(x, np.asarray(y) / scale * unit) for x, y in pairs])) for unit in (1e-99, 1)
    )
    np.testing.assert_allclose(small.columns.output_scale.scale, plain.columns.output_scale.scale * 1e-99)


def test_too_few_curves_to_split_are_refused():
    with pytest.raises(InputError, match="no task is left for train"):
        split_curves(Curves.from_pairs([([0.0], [1.0])]))
    with pytest.raises(InputError, match="validation must be a share"):
        split_curves(some_curves(), validation=1.5)
