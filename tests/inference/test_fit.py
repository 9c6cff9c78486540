"""From curves to a model on disk, and back."""

import dataclasses
import functools
import json
import operator
import pickle
import shutil

import equinox as eqx
import jax
import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import mpnp
from helpers.command_line import call
from helpers.documents import DATA
from helpers.fitted_models import fitted, renamed, some_curves
from helpers.models import SETTINGS
from mpnp.errors import InputError, RunError
from mpnp.inference.card import ModelCard
from mpnp.inference.estimator import NeuralProcessRegressor, _seed
from mpnp.inference.fit import FitOptions, fit_curves, resume_fit
from mpnp.inference.model import load
from mpnp.tables.curves import Curves
from mpnp.training.init import starting_model
from mpnp.training.loop import _Loop
from mpnp.training.rundir import RunDirectory

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

OPTIONS = FitOptions("cnp", steps=60, batch_size=8, num_samples=2, learning_rate=1e-2, held_out_contexts=40, rivals="none")
GRID = np.linspace(12, 47, 6)


def lines(num_curves=30):
    """Straight lines of one slope: easy to learn, and a constant shift decides each."""
    rng = np.random.default_rng(0)
    return Curves.from_pairs(
        [(x := rng.uniform(0, 10, 6), 3 * x + 100 + 20 * shift) for shift in rng.normal(size=num_curves)],
    )


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    out = tmp_path_factory.mktemp("fit") / "model"
    model = fit_curves(lines(), OPTIONS, settings=SETTINGS, out=out, quiet=True)
    return model, out


def test_a_fit_learns_and_says_how_well(saved):
    model, out = saved
    assert sorted(path.name for path in out.iterdir()) == ["card.json", "model.safetensors"]
    about = model.card.about
    assert about["tasks"] == {"train": 26, "validation": 4, "test": 0}
    assert about["validation"]["y"]["squared_error"] < np.var(lines().y)
    assert 0 <= about["validation"]["y"]["coverage_90"] <= 1 and about["recipe"]["steps"] == 60
    assert len(model.card.reference.sizes) == 40 and model.card.seen.largest_context == 5


def test_a_saved_model_answers_as_before(saved):
    model, out = saved
    context = ([1.0, 4.0], [100.0, 112.0])
    again = mpnp.load(out)
    np.testing.assert_array_equal(again.condition(*context).predict([2.0, 3.0]), model.condition(*context).predict([2.0, 3.0]))
    assert again.card.to_json() == model.card.to_json()
    assert again.plausibility(*context) == model.plausibility(*context)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda card: "no json", "not valid JSON"),
        (lambda card: {**card, "format": "other"}, "not written by mpnp"),
        (lambda card: {**card, "version": 99}, "newer mpnp"),
        (lambda card: {**card, "version": None}, "format version is None"),
        (lambda card: {name: value for name, value in card.items() if name != "dims"}, "damaged or incomplete"),
        (lambda card: {**card, "settings": {"wdth": 3}}, "damaged or incomplete"),
        (lambda card: {**card, "weights_sha256": "0"}, "not the file that card.json describes"),
        (lambda card: {**card, "model": "canp"}, "another model"),
        (lambda card: [], "not written by mpnp"),
    ],
)
def test_cards_that_are_not_right_are_refused(saved, tmp_path, damage, message):
    shutil.copytree(saved[1], tmp_path / "model")
    path = tmp_path / "model" / "card.json"
    content = damage(json.loads(path.read_text()))
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(RunError, match=message):
        load(tmp_path / "model")


junk = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.floats(), st.text(max_size=3), st.just([]), st.just({}))


def places(content, path=()):
    """Every place of nested JSON, but one item a list."""
    yield path
    items = content.items() if isinstance(content, dict) else enumerate(content[:1]) if isinstance(content, list) else ()
    for key, value in items:
        yield from places(value, (*path, key))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_card_with_junk_in_any_place_is_refused_or_answers_in_finite_numbers(saved, tmp_path_factory, data):
    card = json.loads((saved[1] / "card.json").read_text())
    path = data.draw(st.sampled_from([path for path in places(card) if path and path[:2] != ("about", "recipe")]))
    functools.reduce(operator.getitem, path[:-1], card)[path[-1]] = data.draw(junk)
    directory = tmp_path_factory.mktemp("junk")
    shutil.copy(saved[1] / "model.safetensors", directory)
    (directory / "card.json").write_text(json.dumps(card))
    answer = call("info", directory)
    assert answer.code in (0, 3) and len(answer.err.splitlines()) == (answer.code == 3)
    try:
        model = load(directory)
    except RunError as error:
        assert "\n" not in str(error)
        return
    assert np.isfinite(model.condition([1.0, 4.0], [100.0, 112.0]).predict([2.0, 3.0], "std")).all()


def test_truncated_foreign_and_missing_weights_are_refused(saved, tmp_path):
    shutil.copytree(saved[1], tmp_path / "model")
    path = tmp_path / "model" / "model.safetensors"
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"\x80\x04K\x01.", b""):
        path.write_bytes(content)
        with pytest.raises(RunError, match=r"is not the file that card.json describes; restore both"):
            load(tmp_path / "model")
    path.unlink()
    with pytest.raises(RunError, match="does not exist"):
        load(tmp_path / "model")
    with pytest.raises(RunError, match="holds no model"):
        load(tmp_path)


def test_a_model_file_of_format_1_still_loads():
    """The file was written by version 0.1 and must be read for ever."""

    directory = DATA / "model-format-1"
    model = load(directory)
    told = json.loads((directory / "answers.json").read_text())
    posterior = model.condition(told["x"], told["y"])
    np.testing.assert_allclose(posterior.predict(told["at"]), told["mean"], rtol=1e-4)
    np.testing.assert_allclose(posterior.predict(told["at"], "std"), told["std"], rtol=1e-3)


def test_a_training_run_that_comes_with_the_package_loads_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # wherever one is
    model = load("mpanp-rbf")
    posterior = model.condition([-1.0, 0.5], [0.3, -0.2])
    assert posterior.predict([0.0, 1.0]).shape == (2,) and model.plausibility([0.0], [1.0]) is None
    (tmp_path / "mpanp-rbf").mkdir()
    with pytest.raises(RunError, match=r"holds no model.*mpanp-rbf"):
        load("mpanp-rbf")  # a directory of the user's own comes first


def test_a_model_of_images_knows_how_far_it_has_seen():
    seen = load("mpanp-mnist").card.seen
    assert (seen.low == -0.5).all() and (seen.high == 0.5).all() and seen.largest_context == 197


def test_an_interrupted_fit_resumes_to_the_same_model(saved, tmp_path, monkeypatch):
    validate = _Loop._validate

    def interrupt(self, state, progress):
        if progress.step == 30:
            raise KeyboardInterrupt
        return validate(self, state, progress)

    out = tmp_path / "model"
    monkeypatch.setattr(_Loop, "_validate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fit_curves(lines(), OPTIONS, settings=SETTINGS, out=out, quiet=True)
    with pytest.raises(RunError, match="holds an unfinished fit"):
        fit_curves(lines(), OPTIONS, settings=SETTINGS, out=out, quiet=True)
    monkeypatch.setattr(_Loop, "_validate", validate)
    model = resume_fit(out, quiet=True)
    resumed, straight = (safetensors.numpy.load_file(path / "model.safetensors") for path in (out, saved[1]))
    assert all((resumed[name] == straight[name]).all() for name in straight) and not (out / "training").exists()
    assert model.card.about["validation"] == saved[0].card.about["validation"]
    with pytest.raises(RunError, match="no unfinished fit"):
        resume_fit(out)
    with pytest.raises(RunError, match="already holds a model"):
        fit_curves(lines(), OPTIONS, settings=SETTINGS, out=out, quiet=True)


def weights(model) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(model.network)]


def test_a_martingale_model_learns_as_its_core_first_and_resumes_in_either_phase(tmp_path, monkeypatch):
    options = dataclasses.replace(OPTIONS, model="mpnp", steps=20, patience=99)
    straight = fit_curves(lines(), options, settings=SETTINGS, out=tmp_path / "straight", quiet=True)
    assert straight.card.about["recipe"]["core_share"] == 0.35  # of 20 steps, the first 7
    validate, met = _Loop._validate, {}

    def interrupt_once_in_each_phase(self, state, progress):
        if progress.step in (6, 15) and progress.step not in met:
            met[progress.step] = state.model
            raise KeyboardInterrupt
        return validate(self, state, progress)

    out = tmp_path / "broken"
    monkeypatch.setattr(_Loop, "_validate", interrupt_once_in_each_phase)
    with pytest.raises(KeyboardInterrupt):
        fit_curves(lines(), options, settings=SETTINGS, out=out, quiet=True)
    with pytest.raises(KeyboardInterrupt):
        resume_fit(out, quiet=True)
    run = RunDirectory(out / "training")
    begun = starting_model(run.config(), run.problem(run.config()).training)
    assert eqx.tree_equal(begun.generator, met[6].generator) and not eqx.tree_equal(begun.decoder, met[6].decoder)
    assert not eqx.tree_equal(begun.generator, met[15].generator)
    resumed = resume_fit(out, quiet=True)
    assert all((a == b).all() for a, b in zip(weights(resumed), weights(straight), strict=True))


@pytest.mark.parametrize("name", ["cnp", "mpanp-dsi"])
def test_models_without_a_core_learn_as_a_whole_from_the_start(name):
    assert FitOptions(name).recipe().core_share == 0


def test_an_unfinished_fit_of_an_older_version_is_refused(tmp_path):
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "plan.json").write_text(json.dumps([{"model": "cnp"}, {"model": "mpnp"}]))
    with pytest.raises(RunError, match=r"begun by an older mpnp.*remove it and start again"):
        resume_fit(tmp_path)
    with pytest.raises(RunError, match="holds an unfinished fit"):
        fit_curves(lines(), OPTIONS, settings=SETTINGS, out=tmp_path, quiet=True)


def test_coverage_is_found_in_older_cards_under_its_old_name(saved):
    content = json.loads(json.dumps(saved[0].card.to_json()).replace("coverage_90", "inside_90"))
    assert ModelCard.from_json(content, "card.json").about == saved[0].card.about


def test_training_stops_when_validation_no_longer_improves():
    options = dataclasses.replace(OPTIONS, steps=200, patience=2, learning_rate=1.0)
    progress = fit_curves(lines(), options, settings=SETTINGS, quiet=True).card.about["progress"]
    assert progress["best_step"] < 200


@pytest.mark.parametrize("name", ["cnp", "mpnp"])
def test_the_time_allowed_decides_the_steps_down_to_the_fewest(name):
    options = dataclasses.replace(OPTIONS, model=name, steps=None, max_minutes=1e-6, min_steps=7)
    assert fit_curves(lines(), options, settings=SETTINGS, quiet=True).card.about["recipe"]["steps"] == 7


def test_the_regressor_keeps_scikit_learns_habits():
    regressor = NeuralProcessRegressor(
        "cnp", steps=10, batch_size=4, rivals="none", settings=SETTINGS, verbose=False, random_state=3
    )
    assert clone(regressor).get_params() == regressor.get_params()
    with pytest.raises(NotFittedError):
        regressor.condition([1.0], [2.0])
    curves = renamed(lines(), ("hour",), ("temp",), "day")
    frame = pd.concat(
        [pd.DataFrame({"day": n, "hour": curves.pair(n)[0][:, 0], "temp": curves.pair(n)[1][:, 0]}) for n in range(len(curves))]
    )
    from_frame = clone(regressor).fit(frame, task="day", inputs="hour", outputs="temp")
    from_pairs = clone(regressor).fit([(curves.pair(n)[0], curves.pair(n)[1]) for n in range(len(curves))])
    at = pd.DataFrame({"hour": GRID[:3] / 5})
    np.testing.assert_array_equal(
        from_frame.condition(frame.iloc[:3]).predict(at),
        from_pairs.condition(frame[["hour"]].iloc[:3].to_numpy(), frame["temp"].iloc[:3]).predict(at.to_numpy()),
    )
    assert from_frame.n_features_in_ == 1 and from_frame.predict(at).shape == (3,)
    assert len(from_frame.predict_tasks([([1.0], [100.0])] * 2, [GRID / 5] * 2)) == 2


def test_a_regressor_fits_a_file_and_is_saved_and_pickled_with_its_answers(tmp_path):
    curves = lines()
    frame = pd.DataFrame({"task": np.repeat(curves.names, curves.counts), "x": curves.x[:, 0], "y": curves.y[:, 0]})
    frame.to_csv(tmp_path / "lines.csv", index=False)
    regressor = NeuralProcessRegressor("cnp", batch_size=4, rivals="none", settings=SETTINGS, verbose=False).set_params(
        steps=np.int64(3)
    )
    regressor.fit(tmp_path / "lines.csv", task="task", inputs="x", outputs="y")
    context, at = ([1.0, 4.0], [100.0, 112.0]), [2.0, 3.0]
    wanted = regressor.condition(*context).predict(at)
    regressor.save(tmp_path / "model", licence="CC0")
    for again in (load(tmp_path / "model"), pickle.loads(pickle.dumps(regressor))):
        np.testing.assert_array_equal(again.condition(*context).predict(at), wanted)
        assert again.plausibility(*context) == regressor.plausibility(*context)
    assert load(tmp_path / "model").card.licence == "CC0"


def test_a_random_state_is_what_scikit_learn_takes_for_one():
    one, same, other = (_seed(np.random.RandomState(seed)) for seed in (1, 1, 2))
    assert one == same != other and _seed(7) == _seed(np.int64(7)) == 7 and _seed(None) >= 0
    for wrong in (1.5, "a"):
        with pytest.raises(ValueError, match="cannot be used to seed"):
            _seed(wrong)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda r: r.fit([[1.0, 2.0]], [1.0]), "takes many tasks"),
        (lambda r: r.fit(pd.DataFrame({"a": [1]})), "a frame needs names"),
        (lambda r: r.set_params(model="mpmp").fit([]), "unknown model 'mpmp'"),
        (lambda r: r.set_params(max_minutes=-1.0).fit([]), "max_minutes must be positive"),
        (lambda r: r.fit([([1.0], [1.0])] * 12, context="suffix"), "unknown context 'suffix'"),
    ],
)
def test_fits_that_cannot_be_are_refused(ask, message):
    with pytest.raises(InputError, match=message):
        ask(NeuralProcessRegressor("cnp", verbose=False))


def test_random_weights_make_a_random_model_but_a_valid_file(tmp_path):
    model = fitted("mpanp-dsi", some_curves(outputs=2))
    model.save(tmp_path)
    np.testing.assert_array_equal(load(tmp_path).condition().predict(GRID), model.condition().predict(GRID))
