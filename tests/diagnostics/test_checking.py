"""Checks of models whose faults are known: the exact process has none, and an overconfident one is found out."""

import dataclasses
import json
import re

import numpy as np
import pytest

from helpers.exact_process import exact_curves, exact_model
from helpers.fitted_models import fitted, some_curves
from mpnp.diagnostics import check
from mpnp.errors import InputError
from mpnp.inference.files import keep_check, read_card
from mpnp.inference.model import FittedModel

CURVES = exact_curves()


@pytest.fixture(scope="module")
def exact():
    return check(exact_model(), CURVES, num_tasks=60, functionals={"range": lambda x, y: np.ptp(y)}, quiet=True)


@pytest.fixture(scope="module")
def overconfident():
    return check(exact_model(stretch=0.5), CURVES, num_tasks=60, quiet=True)


def test_the_exact_process_is_calibrated(exact):
    assert exact["pit"].verdict.endswith("calibrated.") and exact["pit"].verdicts[0].good
    covered = exact["coverage"].numbers["outputs"]["y"]["all"]["all targets"]
    for level in (50, 80, 90, 95):
        found = covered[str(level)]
        assert abs(found["mean"] - level / 100) < 3 * found["standard_error"] < 0.15


def test_functions_of_the_exact_process_are_honest(exact):
    assert set(exact["functionals"].numbers) == {"maximum", "mean", "difference", "argmax", "range"}
    for ways in exact["functionals"].numbers.values():
        found = ways["resampled"]["coverage"]["90"]
        assert abs(found["mean"] - 0.9) < 0.12
    assert "generated" not in exact["functionals"].numbers["maximum"]  # a conditional model has one function only


def test_the_exact_process_is_a_martingale(exact):
    for step in exact["martingale"].numbers.values():
        assert step["drift"]["mean"] < 0.08
        assert abs(step["variance_ratio"]["mean"] - 1) < 0.05
    assert exact["martingale"].verdict.endswith("nearly a martingale.")


def test_the_exact_process_is_consistent(exact):
    assert exact["consistency"].numbers["gap"]["mean"] < 1e-3
    joint = exact["joint"].numbers
    assert joint["chain rule"]["mean"] > joint["product of marginals"]["mean"]


def test_an_overconfident_model_is_found_out(overconfident):
    assert overconfident["pit"].verdict.endswith("predictions are too narrow.")
    assert re.search(r"The 90% band covers [5-6]\d\.\d ± \d\.\d%: too narrow", overconfident["coverage"].verdict)
    assert "too narrow" in overconfident["functionals"].verdict


def test_an_overconfident_model_may_still_be_a_martingale(overconfident):
    # Half the standard deviation everywhere is another Gaussian process, consistent but wrong.
    assert overconfident["consistency"].verdicts[0].good and overconfident["martingale"].verdicts[0].good


def test_a_floor_of_the_standard_deviation_breaks_the_martingale():
    report = check(exact_model(floor=0.8), CURVES, num_tasks=20, quiet=True)
    assert report["martingale"].verdict.endswith("the variance grows.")
    assert report["consistency"].numbers["gap"]["mean"] > 0.01
    assert report["coverage"].verdict.startswith("The 90% band covers 9") and "too wide" in report["coverage"].verdict


def test_the_page_stands_alone_and_the_numbers_lie_beside_it(exact, tmp_path):
    exact.save(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "<script" not in page and "viewport" in page
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)
    for section in exact.sections:
        assert section.title in page and section.verdicts[0].text.replace("'", "&#x27;") in page
    content = json.loads((tmp_path / "report.json").read_text())
    assert {name: part["verdict"] for name, part in content["sections"].items()} == exact.verdicts
    with pytest.raises(InputError, match=r"must end in \.html"):
        exact.save(tmp_path / "report.pdf")


def test_several_outputs_with_gaps_are_checked_one_by_one(tmp_path):
    curves = some_curves(8, outputs=2, missing=True)
    model = fitted("mpnp", curves)
    report = check(model, curves, num_tasks=4, quiet=True)
    assert set(report["coverage"].numbers["outputs"]) == set(curves.columns.outputs)
    assert {"maximum of y0", "maximum of y1"} <= set(report["functionals"].numbers)
    assert set(report["functionals"].numbers["maximum of y0"]) == {"resampled", "generated"}
    assert "slope" in report["spread"].numbers
    model.save(tmp_path / "model")
    assert keep_check(tmp_path / "model", report.summary()) == tmp_path / "model" / "card.json"
    assert read_card(tmp_path / "model").about["check"]["verdicts"] == report.verdicts


def test_models_that_only_look_ahead_are_checked_in_order():
    model, curves = fitted("cnp"), some_curves(8)
    card = dataclasses.replace(model.card, about={**model.card.about, "context": "prefix"})
    report = check(FittedModel(model.network, card), [curves.pair(number) for number in range(8)], num_tasks=4, quiet=True)
    assert "consistency" not in report.verdicts and "martingale" in report.verdicts


def test_what_cannot_be_checked_is_refused():
    model = fitted("cnp")
    with pytest.raises(InputError, match="pass curves that it has not seen, with the columns task, x, y"):
        check(model)
    with pytest.raises(InputError, match="num_tasks must be a whole number of at least 2, got 1"):
        check(model, some_curves(), num_tasks=1)
    with pytest.raises(InputError, match="a check needs at least 2 curves"):
        check(model, some_curves(1))
    with pytest.raises(InputError, match="expected 1 input and 1 output columns, got 1 and 2"):
        check(model, some_curves(outputs=2))


def test_a_functional_that_fails_is_named():
    with pytest.raises(InputError, match="the functional 'broken' must map"):
        check(exact_model(), CURVES, num_tasks=2, functionals={"broken": lambda x, y: y}, quiet=True)
