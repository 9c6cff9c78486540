"""The predictor in NumPy alone: units, quantiles, functions, errors."""

import dataclasses
import json
import subprocess
import sys

import jax
import numpy as np
import pytest

from helpers.fitted_models import fitted, some_curves
from mpnp.export.folders import write_numpy
from mpnp.export.numpy_predictor import Predictor
from mpnp.inference.card import CONTEXT_SHARE
from mpnp.inference.model import FittedModel
from mpnp.models.registry import MODELS

X, Y, AT = [20.0, 30.0], [301.0, 296.0], [15.0, 25.0, 35.0, 45.0]


def exported(model, folder) -> Predictor:
    write_numpy({"model": model}, folder)
    return Predictor(folder)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    model = fitted("canp")
    return model, exported(model, tmp_path_factory.mktemp("model"))


def test_predictions_are_those_of_the_model_in_its_units(pair):
    model, predictor = pair
    wanted = model.condition(X, Y).predict(AT, "full", quantiles=[0.01, 0.5, 0.9])
    got = predictor.predict(X, Y, AT, quantiles=[0.01, 0.5, 0.9])
    for name in ("mean", "std", "quantiles"):
        np.testing.assert_allclose(got[name][:, 0], wanted[name], rtol=1e-4)


def test_the_quantiles_of_a_mixture_invert_its_cdf(tmp_path):
    predictor = exported(fitted("mpnp"), tmp_path)
    loc, scale = predictor._functions(X, Y, AT, 8, np.random.default_rng(0))
    for level in (0.1, 0.5, 0.99):
        quantile = predictor._quantile(level, loc, scale)
        np.testing.assert_allclose(predictor._run["cdf"]([quantile, loc, scale])[0], level, atol=1e-5)


@pytest.mark.filterwarnings("ignore::mpnp.OutsideRangeWarning")
def test_curves_are_read_in_units_of_their_context(tmp_path):
    model = fitted("tnp")
    model = FittedModel(model.network, dataclasses.replace(model.card, scaled_by_context=True))
    predictor = exported(model, tmp_path)
    for count in (0, 1, 2):
        wanted = model.condition(X[:count], Y[:count]).predict(AT, "full", quantiles=[0.1, 0.9])
        got = predictor.predict(X[:count], Y[:count], AT, quantiles=[0.1, 0.9])
        for name in ("mean", "std", "quantiles"):
            np.testing.assert_allclose(got[name][:, 0], wanted[name], rtol=1e-4)
    once, moved = predictor.sample(X, Y, AT, 3), predictor.sample(X, np.array(Y) / 10, AT, 3)
    np.testing.assert_allclose(moved, once / 10, rtol=1e-4)
    assert predictor.description["context_share"] == CONTEXT_SHARE  # and the units of one curve do not stay


def test_missing_outputs_are_not_observed(tmp_path):
    model = fitted("cnp", some_curves(outputs=2, missing=True))
    predictor = exported(model, tmp_path)
    y = np.array([[301.0, np.nan], [np.nan, 290.0]])
    np.testing.assert_allclose(predictor.predict(X, y, AT)["mean"], model.condition(X, y).predict(AT), rtol=1e-4)


def test_the_same_bits_are_the_same_noise(tmp_path):
    class BitsOfJax:
        def integers(self, low, high, shape, dtype):
            return np.asarray(jax.random.bits(jax.random.key(7), shape, np.uint32))

    model = fitted("np")
    (got,) = exported(model, tmp_path)._run["noise"]([], BitsOfJax(), samples=5, points=3)
    np.testing.assert_allclose(got, model.network.draw_noise(None, 5, key=jax.random.key(7)), atol=1e-5)


@pytest.mark.parametrize("name", ["cnp", "mpnp", "neubnp"])
def test_resampled_functions_are_distributed_as_those_of_jax(name, tmp_path):
    model, draws = fitted(name), 1_000
    got = exported(model, tmp_path).sample(X, Y, AT, draws, num_future=6)[..., 0]
    wanted = model.condition(X, Y).sample(AT, draws, num_future=6)
    error = np.hypot(got.std(axis=0), wanted.std(axis=0)) / np.sqrt(draws)
    assert np.all(np.abs(got.mean(axis=0) - wanted.mean(axis=0)) < 4 * error)
    np.testing.assert_allclose(got.std(axis=0), wanted.std(axis=0), rtol=0.15)


@pytest.mark.parametrize("name", ["canp", "bnp", "mpanp-dse"])
def test_the_seed_fixes_the_functions(name, tmp_path):
    predictor = exported(fitted(name), tmp_path)
    one, same, other = (predictor.sample(X, Y, AT, 3, seed=seed, num_future=3, noise=True) for seed in (1, 1, 2))
    assert np.array_equal(one, same) and not np.array_equal(one, other)


@pytest.mark.parametrize("name", MODELS)
def test_generated_functions_differ_as_far_as_the_mechanism_lets_them(name, tmp_path):
    model = fitted(name)
    functions = exported(model, tmp_path).sample(X, Y, AT, 5, method="generate")
    assert functions.shape == (5, 4, 1)
    assert (np.ptp(functions, axis=0) > 0).all() == (model.network.num_components(2) > 1)


def test_a_forecast_observes_what_comes_after_the_context(pair):
    model, predictor = pair
    predictor.description["context"] = "prefix"
    rows = predictor._future_inputs(np.array([[20.0], [30.0]]), np.array([[40.0]]), 3, 8, np.random.default_rng(0))
    predictor.description["context"] = "random"
    assert (rows >= model.card.columns.encode_inputs(np.array([[29.99]]))).all() and (np.diff(rows, axis=1) > 0).all()


PROGRAM = """
import sys
from predictor import Predictor
model = Predictor(sys.argv[1])
print(model.predict([20.0], [300.0], [25.0, 30.0])["mean"].shape, model.sample([20.0], [300.0], [25.0], n=2).shape)
print(sorted({name.split(".")[0] for name in sys.modules} & {"jax", "mpnp", "scipy", "pandas", "equinox"}))
"""


def test_the_folder_needs_numpy_alone(pair, tmp_path):
    write_numpy({"model": pair[0]}, tmp_path)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    run = subprocess.run(command, cwd=tmp_path, env={"PATH": ""}, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["(2, 1) (2, 1, 1)", "[]"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.predict([1.0], [1.0, 2.0], AT), "every point needs both"),
        (lambda p: p.predict([[1.0, 2.0]], [1.0], AT), "expected rows of 1 numbers"),
        (lambda p: p.predict([np.nan], [1.0], AT), "must hold finite numbers"),
        (lambda p: p.predict(X, Y, AT, quantiles=[1.0]), "above 0 and below 1"),
        (lambda p: p.predict(X, [1e300, 0.0], AT), "not finite"),
        (lambda p: p.sample(X, Y, AT, method="guess"), "resample"),
    ],
)
def test_bad_input_is_refused(pair, call, message):
    with pytest.raises(ValueError, match=message):
        call(pair[1])


def test_a_graph_outside_the_folder_is_not_read(pair, tmp_path, monkeypatch):
    write_numpy({"model": pair[0]}, tmp_path)
    content = json.loads((tmp_path / "model.json").read_text())
    content["programs"]["predict"] = {"graph": "../../graph.onnx"}
    (tmp_path / "model.json").write_text(json.dumps(content))
    asked = []
    monkeypatch.setattr("mpnp.export.numpy_predictor.Graph", asked.append)
    Predictor(tmp_path)
    assert asked == [tmp_path / "graph.onnx"]


def test_pickled_objects_are_never_read(pair, tmp_path):
    write_numpy({"model": pair[0]}, tmp_path)
    np.savez(tmp_path / "weights.npz", weight=np.array([object()], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        Predictor(tmp_path)


def test_another_format_is_refused(tmp_path):
    (tmp_path / "model.json").write_text('{"format": "mpnp-export", "version": 99}')
    with pytest.raises(ValueError, match="no model that this predictor can read"):
        Predictor(tmp_path)
