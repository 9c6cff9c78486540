"""Columns that people have: dates, times, durations, categories, positive numbers and counts, with values found by hand."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import lognorm, norm

from helpers.fitted_models import fitted
from mpnp.errors import InputError
from mpnp.inference.prediction import Prediction
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.tables.columns import Column, Schema
from mpnp.tables.curves import Curves
from mpnp.tables.encoders.logarithm import LogEncoder
from mpnp.tables.encoders.numeric import NumericEncoder
from mpnp.tables.encoders.registry import COLUMN_ENCODERS, COLUMN_KINDS
from mpnp.tables.frames import curves_from_frame, read_table
from mpnp.tables.rows import read_context, read_inputs


def read(cells, kind=None):
    """The values of an input column named `c`, of this kind or of the kind that its cells have."""
    name = "c" if kind is None else f"c:{kind}"
    frame = pd.DataFrame({"task": 0, "c": cells, "y": 0.0})
    return curves_from_frame(frame, Schema.named([name], ["y"])).x[:, 0].tolist()


DAY = 19_874.0  # days from 1970-01-01 to 2024-05-31: 54 years with 13 leap days, and 151 days less the 0th
assert DAY == 54 * 365 + 13 + 151


@pytest.mark.parametrize(
    ("cells", "kind", "wanted"),
    [
        (["2024-05-31", "2024-05-31T12:00"], None, [DAY, DAY + 0.5]),
        (pd.to_datetime(["2024-05-31 00:00", "2024-06-01 06:00"]), None, [DAY, DAY + 1.25]),
        (["2024-05-31T12:00Z", "2024-05-31T14:00+02:00"], None, [DAY + 0.5, DAY + 0.5]),
        (pd.to_datetime(["2024-05-31T14:00"]).tz_localize("Europe/Berlin"), None, [DAY + 0.5]),
        (["31/05/2024", "1.6.2024"], "date-dmy", [DAY, DAY + 1]),
        (["05/31/2024", "6/1/2024"], "date-mdy", [DAY, DAY + 1]),
        (["03/04/2024"], "date-dmy", [DAY - 58]),  # the 3rd of April
        (["03/04/2024"], "date-mdy", [DAY - 88]),  # the 4th of March
        (pd.to_timedelta(["2h", "90min"]), None, [2.0, 1.5]),
        (pd.to_timedelta(["2h"]).astype("timedelta64[s]"), None, [2.0]),
        (pd.to_timedelta(["2h"]).astype("timedelta64[ms]"), None, [2.0]),
        (pd.to_timedelta(["2h"]).astype("timedelta64[ns]"), None, [2.0]),
        (["2h", "1 days 00:30:00"], "duration", [2.0, 24.5]),
        (["0 days 02:00:00", "1 days 00:30:00.9", "3 days", "-1 days +23:00:00"], None, [2.0, 24.50025, 72.0, -1.0]),
        (["00:00", "06:30", "23:59:24"], "time-of-day", [0.0, 6.5, 23.99]),
        (["2024-05-31T18:00", "2024-06-01T03:00+05:00"], "time-of-day", [18.0, 3.0]),
        (pd.to_datetime(["2024-05-31T12:00"]).tz_localize("UTC").tz_convert("America/New_York"), "time-of-day", [8.0]),
        (["2024-05-31", "2024-06-02"], "day-of-week", [4.0, 6.0]),  # a Friday and a Sunday
        (["Monday", "sun"], "day-of-week", [0.0, 6.0]),
        (["b", "a", "b"], "category", [1.0, 0.0, 1.0]),
        ([1, 10, 2], "category", [0.0, 1.0, 2.0]),  # names in alphabetical order: 1, 10, 2
        (pd.Categorical(["u", "v"]), None, [0.0, 1.0]),
    ],
)
def test_cells_become_the_numbers_worked_out_by_hand(cells, kind, wanted):
    np.testing.assert_allclose(read(cells, kind), wanted, atol=1e-9)


@pytest.mark.parametrize(
    ("cells", "kind", "message"),
    [
        ([1.0, 2.0], "date", r"must hold dates.*got numbers or durations, whose unit could be mistaken"),
        ([2.0], "duration", r"must hold durations.*pd.to_timedelta\(numbers, unit='h'\)"),
        ([14], "time-of-day", r"must hold times of day, such as 14:30"),
        ([3], "day-of-week", "must hold dates or names of days"),
        (["2024-13-01", "x"], "date", "row 0 is '2024-13-01'"),
        (["31/05/2024"], "date", "say 'c:date-dmy'"),
        (["31/05/2024"], "date-mdy", "the month first"),
        (["05/31/2024"], "date-dmy", "the day first"),
        (["2:30 PM"], "time-of-day", "must hold a time of day such as 14:30.*but row 0 is '2:30 PM'"),
        (["someday"], "day-of-week", "or the name of a day such as Monday; but row 0 is 'someday'"),
        (["25:00"], "time-of-day", "from 00:00 to 23:59, but row 0"),
        (["soon"], "duration", "a duration, such as 2h; but row 0 is 'soon'"),
        (["red", "1"], None, r"must hold numbers, but row 0 is 'red'.*'c:category'"),
        (["2h", "5m"], None, r"must hold numbers, but row 0 is '2h'.*'c:duration'"),  # 5 minutes, or metres?
        ([f"n{n}" for n in range(60)], "category", "has 60 levels; a category may have at most 50"),
        ([0.0, None], "category", "is missing in row 1"),
    ],
)
def test_cells_that_could_be_mistaken_are_refused(cells, kind, message):
    with pytest.raises(InputError, match=message):
        read(cells, kind)


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        ([1.0, 0.0], "positive", r"must hold positive numbers, but row 1 is 0.*'y:count'"),
        ([1.0, -2.0], "count", "numbers that are not negative, but row 1 is -2"),
        (["2024-05-31", "2024-06-01"], "date", "'y' cannot be an output: its encoder 'date' has no inverse"),
        (["a", "b"], "category", "'y' cannot be an output"),
    ],
)
def test_outputs_outside_their_support_are_refused(values, kind, message):
    with pytest.raises(InputError, match=message):
        curves_from_frame(pd.DataFrame({"task": 0, "x": [0, 1], "y": values}), Schema.named(["x"], [f"y:{kind}"]))


def test_an_unknown_kind_is_refused_with_the_known_ones():
    frame = pd.DataFrame({"task": 0, "c": ["a", "b"], "y": 0.0})
    with pytest.raises(
        InputError, match=r"unknown column 'c:categorical'.*no kind 'categorical'; choose one of: number, date,"
    ):
        curves_from_frame(frame, Schema.named(["c:categorical"], ["y"]))


def test_features_are_those_worked_out_by_hand():
    midnight, six = COLUMN_KINDS["time-of-day"].encode(np.array([0.0, 6.0]))
    np.testing.assert_allclose([midnight, six], [[0, 2], [2, 0]], atol=1e-12)
    np.testing.assert_allclose(COLUMN_KINDS["time-of-day"].encode(np.array([24.0]))[0], midnight, atol=1e-12)
    assert COLUMN_KINDS["day-of-week"].encode(np.array([6.0])).tolist() == [[0, 0, 0, 0, 0, 0, 1]]
    category = COLUMN_KINDS["category"].adapt(pd.Series(["b", "a"]), "c")
    assert category.encode(np.array([1.0, 0.0])).tolist() == [[0, 1], [1, 0]]


def test_values_are_shown_as_the_user_wrote_them():
    category = COLUMN_KINDS["category"].adapt(pd.Series(["b", "a"]), "c")
    shown = [COLUMN_KINDS["date"].show(DAY), COLUMN_KINDS["date"].show(DAY + 0.25), COLUMN_KINDS["duration"].show(1.5)]
    shown += [COLUMN_KINDS["time-of-day"].show(6.5), COLUMN_KINDS["day-of-week"].show(4.0), category.show(1.0)]
    assert shown == ["2024-05-31", "2024-05-31T06:00:00", "1.5 h", "06:30", "Friday", "b"]


@pytest.mark.parametrize("kind", COLUMN_KINDS)
def test_every_encoder_survives_its_file(kind):
    encoder = COLUMN_KINDS[kind].adapt(pd.Series(["a", "b"]), "c").learn_input(np.array([1.0, 2.0, 4.0]))
    assert COLUMN_ENCODERS[encoder.kind].from_json(encoder.to_json()) == encoder


def kinds_frame(num=12, zone=None):
    """Tasks with a column of each kind."""
    rng, rows = np.random.default_rng(0), []
    for task in range(num):
        for hour in range(6):
            when = pd.Timestamp("2024-03-01") + pd.Timedelta(days=task, hours=4 * hour)
            rows.append((f"{task:03}", when, when, pd.Timedelta(hours=hour), "ab"[task % 2], rng.poisson(3), rng.gamma(2.0)))
    frame = pd.DataFrame(rows, columns=["task", "when", "clock", "lead", "site", "cases", "dose"])
    return frame if zone is None else frame.assign(when=frame["when"].dt.tz_localize("UTC").dt.tz_convert(zone))


KINDS = Schema.named(["when", "clock:time-of-day", "lead", "site:category"], ["cases:count", "dose:positive"])


def kinds_model(frame):
    return fitted("cnp", curves_from_frame(frame, KINDS))


def test_predictions_do_not_depend_on_the_zone_or_the_unit_of_storage():
    frame = kinds_frame()
    model = kinds_model(frame)
    wanted = model.condition(frame.iloc[:3]).predict(frame.iloc[3:6], "full").drop(columns=["when", "lead"])
    other = kinds_frame(zone="Asia/Tokyo").assign(lead=frame["lead"].astype("timedelta64[s]"))
    for model_of in (model, kinds_model(other)):
        found = model_of.condition(other.iloc[:3]).predict(other.iloc[3:6], "full").drop(columns=["when", "lead"])
        pd.testing.assert_frame_equal(found, wanted, rtol=1e-6)
    shuffled = model.condition(frame.iloc[[2, 0, 1]]).predict(frame.iloc[3:6], "full").drop(columns=["when", "lead"])
    pd.testing.assert_frame_equal(shuffled, wanted, rtol=1e-5)


def test_no_quantile_leaves_the_support_of_its_output():
    frame = kinds_frame()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = kinds_model(frame).condition().predict(frame.iloc[:6], "full", quantiles=[0.001, 0.5, 0.999])
    assert (answer[["cases_q00.1", "cases_q50"]] >= 0).all(axis=None) and (answer["dose_q00.1"] > 0).all()
    draws = kinds_model(frame).condition().sample(frame.iloc[:6], 20, method="generate", noise=True)
    assert (draws >= 0).all()


def test_an_unknown_level_is_refused_with_the_known_ones():
    frame = kinds_frame()
    with pytest.raises(InputError, match=r"unknown level of 'site' 'c'.*The model knows: a, b"):
        kinds_model(frame).condition(frame.iloc[:3].assign(site="c"))


def log_normal(mean, std):
    """A prediction of one positive output, log-normal with a factor of 10 for each unit of the network."""
    schema = Schema((Column("x"),), (Column("y", LogEncoder(0.0, NumericEncoder(0.0, np.log(10)))),))
    answer = Predictive(np.array([[[mean]]]) / np.log(10), np.array([[[std]]]) / np.log(10))
    return Prediction.decode(answer, schema)


def test_a_positive_output_is_log_normal():
    prediction, exact = log_normal(1.0, 0.5), lognorm(s=0.5, scale=np.e)
    y = np.array([[2.0]])
    np.testing.assert_allclose(prediction.quantiles([0.05, 0.5, 0.95])[0, 0], exact.ppf([0.05, 0.5, 0.95]))
    np.testing.assert_allclose(prediction.cdf(y), exact.cdf(y))
    np.testing.assert_allclose(prediction.marginal_log_prob(y), exact.logpdf(y))
    np.testing.assert_allclose(prediction.mean, exact.mean(), rtol=0.01)
    np.testing.assert_allclose(prediction.std, exact.std(), rtol=0.05)
    draws = exact.rvs(size=(2, 200_000), random_state=0)
    crps = np.abs(draws[0] - 2.0).mean() - np.abs(draws[0] - draws[1]).mean() / 2
    np.testing.assert_allclose(prediction.crps(y), crps, rtol=0.02)


def test_affine_outputs_keep_their_closed_forms():
    schema = Schema((Column("x"),), (Column("y", NumericEncoder(10.0, 2.0)),))
    prediction = Prediction.decode(Predictive(np.array([[[1.0]], [[3.0]]]), np.array([[[0.5]], [[1.5]]])), schema)
    assert prediction.mean.item() == 14.0 and prediction.between_std.item() == 2.0
    np.testing.assert_allclose(prediction.within_std, np.sqrt((1 + 9) / 2))
    y = np.array([[13.0]])
    density = (norm.pdf(13, 12, 1) + norm.pdf(13, 16, 3)) / 2
    np.testing.assert_allclose(prediction.marginal_log_prob(y), np.log(density))
    np.testing.assert_allclose(prediction.cdf(y), (norm.cdf(13, 12, 1) + norm.cdf(13, 16, 3)) / 2)


@pytest.mark.parametrize("encoder", [LogEncoder(offset, NumericEncoder(0.3, 0.7)) for offset in (0.0, 1.0)])
def test_slopes_are_derivatives_and_decoding_inverts(encoder):
    encoded = np.array([0.2, 0.2 + 1e-6, 1.5, 1.5 + 1e-6])
    decoded = encoder.decode(encoded)
    np.testing.assert_allclose(encoder.encode(decoded)[:, 0], encoded, atol=1e-9)
    np.testing.assert_allclose(np.diff(decoded)[::2] / 1e-6, encoder.slope(encoded)[::2], rtol=1e-4)


def test_a_series_of_dates_means_what_a_frame_of_dates_means():
    columns = Schema.named(["when"], ["y"]).adapt(pd.DataFrame({"when": pd.to_datetime(["2024-05-31"]), "y": [0.0]}))
    dates = pd.Series(pd.to_datetime(["2024-05-31", "2024-06-01"]))
    for cells in (dates, dates.to_frame("when"), dates.to_numpy(), dates.dt.tz_localize("UTC")):
        assert read_inputs(columns, cells)[:, 0].tolist() == [DAY, DAY + 1]
    leads = Schema.named(["lead:duration"], ["y"])
    for unit in ("s", "ms", "ns"):
        assert read_inputs(leads, np.array([2, 3], "timedelta64[h]").astype(f"timedelta64[{unit}]"))[:, 0].tolist() == [2, 3]


def test_masked_entries_are_missing():
    y = np.ma.masked_array([1.0, 999.0, 3.0], mask=[False, True, False])
    curves = Curves.from_pairs([([0.0, 1.0, 2.0], y)])
    assert curves.y[:, 0].tolist() == [1.0, 3.0]
    with pytest.raises(InputError, match="must be finite"):
        Curves.from_pairs([(y, [0.0, 1.0, 2.0])])


def test_tasks_are_told_apart_by_what_is_written(tmp_path):
    (tmp_path / "t.csv").write_text("id,x,y\n007,0,1\n07,1,2\n7,2,3\n7,3,4\n")
    curves = curves_from_frame(read_table(tmp_path / "t.csv", ("id", None)), Schema.named(["x"], ["y"], "id"))
    assert curves.names == ("007", "07", "7") and curves.counts.tolist() == [1, 1, 2]


TABLE = pd.DataFrame({"tag": ["ä", "b"], "x": [0.5, 1.5], "y": [20.25, None]})


@pytest.mark.parametrize("sep", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_separators_decimals_and_encodings_are_found(sep, encoding, decimal, name, tmp_path):
    if sep == decimal:
        return
    TABLE.to_csv(tmp_path / name, sep=sep, decimal=decimal, encoding=encoding, index=False)
    pd.testing.assert_frame_equal(read_table(tmp_path / name), TABLE)


def test_a_column_of_text_with_commas_is_no_number(tmp_path):
    (tmp_path / "t.csv").write_text("x;note;y\n1.5;a,b;2\n2.5;c;3\n")
    assert read_table(tmp_path / "t.csv")["x"].tolist() == [1.5, 2.5]


def test_rows_of_different_lengths_are_refused():
    with pytest.raises(InputError, match="X must hold numbers in rows of equal length"):
        read_context(Schema.numbered(1, 1), [[1.0, 2.0], [3.0]], [1.0, 2.0])
