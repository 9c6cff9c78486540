"""Models from strangers: absurd cards are refused quickly, before anything is built, and with our own error."""

import dataclasses
import json
import os
import shutil
import time

import pytest

from helpers.command_line import call
from helpers.fitted_models import fitted, some_curves
from mpnp.errors import InputError, MpnpError
from mpnp.inference.fit import update_model
from mpnp.inference.model import FittedModel, load
from mpnp.models.config import ModelSettings
from mpnp.training.config import RunConfig

DEEP = "[" * 200_000


@pytest.fixture(scope="module")
def card(tmp_path_factory):
    """The card of a saved model, which tests change."""
    directory = tmp_path_factory.mktemp("model")
    fitted("mpnp").save(directory)
    return directory / "card.json"


def refusal(directory) -> str:
    started = time.process_time()
    with pytest.raises(MpnpError) as refused:
        load(directory)
    assert time.process_time() - started < 5  # absurd networks would take minutes
    return str(refused.value)


@pytest.mark.parametrize(
    "settings, reason",
    [
        ({"encoder_depth": 10**9}, "encoder_depth must be at most 100, got 1000000000"),
        ({"decoder_depth": 10**400}, "decoder_depth must be at most 100"),
        ({"latent_depth": 101}, "latent_depth must be at most 100, got 101"),
        ({"width": 10**6}, "width must be at most 16384, got 1000000"),
        ({"num_pseudo": 10**7}, "num_pseudo must be at most 10000"),
        ({"encoder_depth": 100, "decoder_depth": 100}, "was saved from another model or optimiser"),
        ({"width": 16_384, "num_heads": 8}, "was saved with other settings"),
        ({"sigma_min": "small"}, "damaged or incomplete"),
    ],
    ids=str,
)
def test_absurd_settings_are_refused_before_anything_is_built(card, tmp_path, settings, reason):
    content = json.loads(card.read_text())
    content["settings"] |= settings
    (tmp_path / "card.json").write_text(json.dumps(content))
    (tmp_path / "model.safetensors").write_bytes((card.parent / "model.safetensors").read_bytes())
    assert reason in refusal(tmp_path)


@pytest.mark.parametrize("text", [DEEP, f'{{"format": {DEEP}', "\x80", "1" * 5000], ids=["list", "object", "no text", "number"])
@pytest.mark.parametrize("name", ["card.json", "config.json"])
def test_brackets_without_end_are_refused(tmp_path, name, text):
    (tmp_path / name).write_bytes(text.encode("latin1"))
    assert f"{name} is not valid JSON" in refusal(tmp_path)
    answer = call("info", tmp_path)
    assert answer.code == 3 and answer.err.count("\n") == 1


def test_a_card_nested_almost_too_deeply_is_read_or_refused(card, tmp_path):
    content = json.loads(card.read_text())
    for depth in (400, 900, 990):
        text = json.dumps(content).replace('"about": {', '"about": {"deep": ' + '{"a":' * depth + "1" + "}" * depth + ", ")
        (tmp_path / "card.json").write_text(text)
        (tmp_path / "model.safetensors").write_bytes((card.parent / "model.safetensors").read_bytes())
        answer = call("info", tmp_path, "--json")
        assert answer.code in (0, 3) and "unforeseen" not in answer.err


def test_weights_of_absurd_size_are_refused_before_they_are_read(card, tmp_path):
    shutil.copytree(card.parent, tmp_path, dirs_exist_ok=True)
    os.truncate(tmp_path / "model.safetensors", 10**12)  # a hole, which takes no room
    assert "1,000,000,000,000 bytes, more than any model of mpnp" in refusal(tmp_path)


@pytest.mark.parametrize("name", ["y", "task"])
def test_a_card_whose_columns_share_a_name_is_refused(card, tmp_path, name):
    shutil.copytree(card.parent, tmp_path, dirs_exist_ok=True)
    content = json.loads(card.read_text())
    content["columns"] |= {"inputs": [name], "outputs": ["y"], "task": "task"}
    (tmp_path / "card.json").write_text(json.dumps(content))
    assert "two columns have the same name" in refusal(tmp_path)


def test_what_a_card_says_cannot_control_the_terminal_or_add_lines(card, tmp_path):
    shutil.copytree(card.parent, tmp_path, dirs_exist_ok=True)
    content, evil = json.loads(card.read_text()), "\x1b[2J\u202e"
    content |= {"licence": f"MIT{evil}\nchecked  yes"}
    content["columns"]["inputs"] = [evil]
    (tmp_path / "card.json").write_text(json.dumps(content))
    (tmp_path / "rows.csv").write_text("x\n1\n")
    told = call("info", tmp_path).out + call("predict", tmp_path, "--at", tmp_path / "rows.csv").err
    assert all(char.isprintable() or char == "\n" for char in told)
    assert r"MIT\x1b[2J\u202e\nchecked" in told and r"unknown column '\x1b[2J\u202e'" in told


@pytest.mark.parametrize("about", [{}, {"context": None}, {"context": ["prefix"]}, {"context": "x"}], ids=str)
def test_a_model_that_does_not_say_what_it_predicts_from_is_not_updated(about):
    model = fitted("cnp")
    card = dataclasses.replace(model.card, about={"recipe": {}, **about})
    with pytest.raises(InputError, match=r"only models that 'mpnp fit' made|context"):
        update_model(FittedModel(model.network, card), some_curves())


@pytest.mark.parametrize("name", ["n" * 300, "nul\0"], ids=["long", "nul"])
def test_names_that_no_file_can_have_are_refused(name):
    for use in (load, fitted("cnp").save):
        with pytest.raises(InputError, match="no file can be named"):
            use(name)
    for arguments in (["info", name], ["predict", "cnp-rbf", "--at", name], ["train", "--model", "cnp", "--out", name]):
        answer = call(*arguments)
        assert answer.code == 2 and "no file can be named" in answer.err and answer.err.count("\n") == 1


def test_models_too_large_for_any_machine_are_not_trained():
    with pytest.raises(InputError, match=r"would have [\d,]+ parameters, more than 1,000,000,000"):
        RunConfig("cnp", settings=ModelSettings(width=16_384, encoder_depth=100))
