"""Predictions on padded shapes are those of the model itself, and sizes that vary compile nothing new."""

import concurrent.futures

import jax
import numpy as np
import pytest

from helpers.models import NUM_SAMPLES, small_model
from mpnp.errors import InputError
from mpnp.inference.predictor import Predictor, round_up
from mpnp.models.registry import MODELS
from mpnp.tasks.task import PointSet

RNG = np.random.default_rng(5)
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def question(num_context, num_targets):
    return PointSet.observed(*RNG.normal(size=(2, num_context))), RNG.normal(size=(num_targets, 1)).astype(np.float32)


@pytest.mark.parametrize("name", list(MODELS))
def test_padding_changes_no_prediction(name):
    model = small_model(name)
    predictor = Predictor(model, num_samples=NUM_SAMPLES, seed=3)
    context, x_target = question(5, 9)
    got, wanted = predictor(context, x_target), model.predict(context, x_target, key=jax.random.key(3), num_samples=NUM_SAMPLES)
    assert got.loc.shape == wanted.loc.shape
    np.testing.assert_allclose(got.loc, wanted.loc, **CLOSE)
    np.testing.assert_allclose(got.scale, wanted.scale, **CLOSE)


def test_nothing_is_compiled_as_sizes_vary():
    predictor = Predictor(small_model("mpnp"), num_samples=NUM_SAMPLES)
    for num_context, num_targets in [(5, 9), (0, 10), (8, 12), (1, 11)]:
        assert predictor(*question(num_context, num_targets)).loc.shape == (NUM_SAMPLES, num_targets, 1)
    assert predictor._predict._cache_size() == 1


def test_many_tasks_are_answered_in_order_each_with_its_own_draws():
    model = small_model("mpnp")
    predictor = Predictor(model, num_samples=NUM_SAMPLES, seed=1)
    questions = [question(*sizes) for sizes in [(3, 4), (20, 5), (3, 6), (0, 30)]]
    answers = predictor.many(*zip(*questions, strict=True))
    for number, ((context, x_target), answer) in enumerate(zip(questions, answers, strict=True)):
        key = jax.random.fold_in(jax.random.key(1), number)
        wanted = model.predict(context, x_target, key=key, num_samples=NUM_SAMPLES)
        np.testing.assert_allclose(answer.loc, wanted.loc, **CLOSE)
        np.testing.assert_allclose(answer.scale, wanted.scale, **CLOSE)


@pytest.mark.parametrize("name", ["canp", "bnp", "mpanp", "mpnp-dse"])
def test_many_targets_are_predicted_in_chunks_of_the_same_functions(name):
    model, (context, x_target) = small_model(name), question(5, 50)
    whole, chunked = (Predictor(model, num_samples=NUM_SAMPLES, rows_at_once=rows) for rows in (10_000, 40))
    assert chunked.targets_at_once < 50 < whole.targets_at_once
    for got, wanted in (
        (chunked(context, x_target), whole(context, x_target)),
        (chunked.many([context], [x_target])[0], whole.many([context], [x_target])[0]),
    ):
        np.testing.assert_allclose(got.loc, wanted.loc, **CLOSE)
        np.testing.assert_allclose(got.scale, wanted.scale, **CLOSE)


def test_sixteen_threads_get_the_answers_of_one():
    predictor = Predictor(small_model("mpanp"), num_samples=NUM_SAMPLES)
    questions = [question(3 + number % 5, 4 + number % 7) for number in range(64)]
    alone = [np.asarray(predictor(*asked).loc) for asked in questions]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        together = list(pool.map(lambda asked: np.asarray(predictor(*asked).loc), questions))
    for got, wanted in zip(together, alone, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_sizes_are_rounded_up_to_few_numbers_without_much_waste():
    sizes = np.arange(1, 10_001)
    rounded = np.array([round_up(int(size)) for size in sizes])
    assert (rounded >= sizes).all() and (rounded[8:] < 1.51 * sizes[8:]).all()
    assert len(set(rounded)) < 25 and round_up(0) == 8
    assert [round_up(size) for size in (8, 9, 12, 13, 24, 25)] == [8, 12, 12, 16, 24, 32]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda p: p(*question(3, 4)[:1], np.zeros((4, 2))), r"x_target must have shape \(targets, 1\)"),
        (lambda p: p.many([question(3, 4)[0]], []), "got 1 contexts and 0 sets of targets"),
        (lambda p: Predictor(p.model, num_samples=0), "num_samples must be a whole number of at least 1"),
        (lambda p: Predictor(p.model, seed=-1), "seed"),
    ],
)
def test_questions_that_make_no_sense_are_refused(ask, message):
    with pytest.raises(InputError, match=message):
        ask(Predictor(small_model("cnp")))
