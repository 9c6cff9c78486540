"""Exports say what JAX says, for every model and contexts of any size, the empty one included."""

import dataclasses
import functools

import numpy as np
import pytest

from helpers.exports import answer_of_jax, arguments_of_predict, question
from helpers.fitted_models import fitted, some_curves
from mpnp.export.folders import write_numpy
from mpnp.export.numpy_predictor import Predictor
from mpnp.inference.model import FittedModel
from mpnp.models.registry import MODELS
from mpnp.nn.likelihoods.calibration import Calibration

SIZES = (0, 5)
TOLERANCE = 1e-5

OF_WAVES = 3e-5
"""For models that fold: cosines of large angles are rounded differently by each library, and a steep kernel magnifies that."""


def check(model, folder, tmp_path, wanted, tolerance=TOLERANCE):
    folder({"model": model}, tmp_path)
    predictor = Predictor(tmp_path)
    for given, answer in wanted:
        got = predictor._run["predict"](arguments_of_predict(predictor._run, *given))
        for one, other in zip(got, answer, strict=True):
            np.testing.assert_allclose(one[0], other, rtol=tolerance, atol=tolerance)


def questions(model):
    given = [question(model, size) for size in SIZES]
    return [(each, answer_of_jax(model, *each)) for each in given]


@functools.cache
def questions_to(name):
    model = fitted(name)
    return model, questions(model)


@pytest.mark.parametrize("name", MODELS)
def test_numpy(name, tmp_path):
    model, wanted = questions_to(name)
    check(model, write_numpy, tmp_path, wanted)


@pytest.mark.parametrize("name", MODELS)
def test_onnx(name, tmp_path):
    pytest.importorskip("onnxruntime", reason="needs the extra: pip install 'mpnp[export]'")
    from mpnp.export.onnx_graphs import write_onnx

    model, wanted = questions_to(name)
    check(model, write_onnx, tmp_path, wanted, OF_WAVES if MODELS[name].backbone == "seasonal" else TOLERANCE)


def test_outputs_that_are_points_of_their_own(tmp_path):
    model = fitted("mpanp", some_curves(inputs=2, outputs=2, missing=True))
    check(model, write_numpy, tmp_path, questions(model))


def test_recalibrated_models(tmp_path):
    model = fitted("banp")
    calibration = Calibration((0.05, 0.2, 1.0), (0.1, 0.2, 1.5))
    model = FittedModel(model.network, dataclasses.replace(model.card, calibration=calibration))
    check(model, write_numpy, tmp_path, questions(model))
