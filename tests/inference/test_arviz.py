"""Drawn functions as ArviZ reads them."""

import sys

import numpy as np
import pytest

from helpers.fitted_models import fitted, some_curves

GRID = np.linspace(12, 46, 9)[:, None]


def test_without_arviz_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r"to_arviz needs arviz.*pip install 'mpnp\[arviz\]'"):
        fitted("cnp").condition().to_arviz(GRID, 3)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_functions_context_and_inputs_are_groups():
    pytest.importorskip("arviz", reason="needs the extra: pip install 'mpnp[arviz]'")
    curves = some_curves(outputs=2)
    posterior = fitted("cnp", curves).condition(*curves.pair(4))
    data = posterior.to_arviz(GRID, 5, seed=3)
    functions = posterior.sample(GRID, 5, seed=3)
    assert data["posterior"]["y1"].dims == ("chain", "draw", "row")
    np.testing.assert_array_equal(data["posterior"]["y1"].values[0], functions[..., 1])
    np.testing.assert_array_equal(data["observed_data"]["y0_context"].values, curves.pair(4)[1][:, 0])
    np.testing.assert_array_equal(data["constant_data"]["x"].values, GRID[:, 0])
