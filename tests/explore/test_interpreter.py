"""Models in the browser say what they say in NumPy, which agrees with JAX (tests/export)."""

import numpy as np
import pytest

from helpers.exports import arguments_of_predict, question
from helpers.fitted_models import fitted
from helpers.javascript import NODE, run_programs
from mpnp.explore.html import pack
from mpnp.export.numpy_interpreter import Program
from mpnp.export.programs import export_model
from mpnp.models.registry import MODELS

pytestmark = pytest.mark.skipif(NODE is None, reason="needs Node.js, which runs the page's scripts")


@pytest.mark.parametrize("name", MODELS)
def test_it_agrees(name):
    model = fitted(name)
    exported = export_model(model)
    content = pack(exported)
    run = {part: Program(program, exported.weights) for part, program in content["model"]["programs"].items()}
    inputs = [arguments_of_predict(run, *question(model, size)) for size in (0, 5)]
    for got, each in zip(run_programs(content, [("predict", each) for each in inputs]), inputs, strict=True):
        for one, other in zip(got, run["predict"](each), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_the_normal_distribution():
    exported = export_model(fitted("cnp"))
    run = {name: Program(exported.programs[name].to_json(), exported.weights) for name in ("cdf", "quantile")}
    values = np.linspace(-4, 4, 41, dtype=np.float32)[:, None]
    loc, scale = np.zeros((1, 41, 1), np.float32), np.ones((1, 41, 1), np.float32)
    levels = np.array([0.3], np.float32)
    (cdf,), (quantile,) = run_programs(pack(exported), [("cdf", [values, loc, scale]), ("quantile", [levels])])
    np.testing.assert_allclose(cdf, run["cdf"]([values, loc, scale])[0], atol=1e-6)
    np.testing.assert_allclose(quantile, run["quantile"]([levels])[0], atol=1e-6)
