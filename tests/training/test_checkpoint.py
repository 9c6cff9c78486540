"""Checkpoints: what was saved comes back bit for bit, and what cannot be read or written is refused and left alone."""

import json
import os
import shutil
import stat

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import safetensors.numpy

from helpers.models import SETTINGS, small_model
from mpnp.errors import RunError
from mpnp.io import tensors
from mpnp.io.files import write_atomically
from mpnp.models.build import build
from mpnp.training import checkpoint
from mpnp.training.config import RunConfig
from mpnp.training.loop import TrainState
from mpnp.training.rundir import RunDirectory, load_model

CARD = {"progress": {"step": 3, "best_score": -0.1, "best_step": None}, "names": ["Matérn", ""], "changed": False}
HEADER = {"format": tensors.FORMAT, "version": str(tensors.VERSION), "card": "{}"}


def train_state():
    """A model with the state of Adam after one step, so that both moments and the count hold something."""
    model = small_model("mpnp")
    optimizer = optax.adam(1e-3)
    _, state = jax.jit(lambda gradient: optimizer.update(gradient, optimizer.init(gradient)))(model)
    return TrainState(model, state)


def bits(tree):
    leaves, structure = jax.tree.flatten(jax.tree.map(np.asarray, tree))
    return structure, [(leaf.dtype, leaf.shape, leaf.tobytes()) for leaf in leaves]


def header_of(content):
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length]), content[8 + length :]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "model.safetensors"
    checkpoint.save(path, small_model("cnp"), CARD)
    return path


@pytest.fixture(scope="module")
def saved_bytes(saved):
    return saved.read_bytes()


@pytest.mark.parametrize(
    "make_tree",
    [train_state, lambda: {"odd": jnp.asarray([np.nan, -np.inf, -0.0, 1e-45]), "none": jnp.zeros((0, 3))}],
    ids=["model and optimiser", "odd numbers"],
)
def test_what_is_saved_is_loaded_bit_for_bit(make_tree, tmp_path):
    tree = make_tree()
    checkpoint.save(tmp_path / "tree.safetensors", tree, CARD)
    loaded, card = checkpoint.load(tmp_path / "tree.safetensors", jax.tree.map(jnp.ones_like, tree))
    assert bits(loaded) == bits(tree)
    assert card == CARD


def test_a_card_is_read_without_a_model(saved):
    assert checkpoint.read_card(saved) == CARD


def test_a_checkpoint_is_a_json_header_and_plain_arrays_to_the_last_byte(saved_bytes):
    header, arrays = header_of(saved_bytes)
    metadata = header.pop("__metadata__")
    assert json.loads(metadata["card"]) == CARD
    assert {entry["dtype"] for entry in header.values()} == {"F32"}
    spans = sorted(tuple(entry["data_offsets"]) for entry in header.values())
    assert [start for start, _ in spans] == [0, *(end for _, end in spans[:-1])]
    assert spans[-1][1] == len(arrays)


def foreign(**metadata):
    return lambda _: safetensors.numpy.save({"w": np.zeros(3)}, metadata=metadata or None)


DAMAGES = {
    "cut in half": (lambda content: content[: len(content) // 2], "damaged"),
    "cut in its header": (lambda content: content[:20], "damaged"),
    "cut at its front": (lambda content: content[8:], "damaged"),
    "empty": (lambda _: b"", "damaged"),
    "random": (lambda _: np.random.default_rng(0).bytes(1000), "damaged"),
    "another program's": (foreign(), "not written by mpnp"),
    "another program's, with metadata": (foreign(format="pt"), "not written by mpnp"),
    "a newer version's": (foreign(**HEADER | {"version": "2"}), "newer mpnp"),
    "of no version": (foreign(**HEADER | {"version": "two"}), "damaged"),
    "of a card that is no JSON": (foreign(**HEADER | {"card": "{"}), "damaged"),
    "without a card": (foreign(format=tensors.FORMAT, version="1"), "damaged"),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGES.values(), ids=DAMAGES)
def test_a_file_that_is_no_checkpoint_is_named_and_left_alone(damage, message, saved_bytes, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(damage(saved_bytes))
    before = path.read_bytes()
    with pytest.raises(RunError, match=message) as caught:
        checkpoint.load(path, small_model("cnp"))
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("like", "message"),
    [
        (lambda: small_model("mpnp"), r"another model or optimiser: \d+ arrays differ, for example '.generator"),
        (lambda: TrainState(small_model("cnp"), ()), "another model or optimiser"),
        (lambda: small_model("cnp", y_dim=2), r"other settings: .*is float32\[2, 8\], expected float32\[3, 8\]"),
        (lambda: jax.tree.map(lambda leaf: leaf.astype(jnp.float16), small_model("cnp")), "other settings: .*expected float16"),
    ],
    ids=["more arrays", "other names", "other shapes", "other precision"],
)
def test_arrays_that_do_not_fit_are_refused(like, message, saved, saved_bytes):
    with pytest.raises(RunError, match=message):
        checkpoint.load(saved, like())
    assert saved.read_bytes() == saved_bytes


def test_a_checkpoint_of_another_model_is_refused_even_if_its_arrays_fit(tmp_path):
    runs = {}
    for name in ("cnp", "neubnp"):
        config = RunConfig(name, settings=SETTINGS)
        runs[name] = RunDirectory(tmp_path / name)
        runs[name].create(config)
        checkpoint.save(runs[name].best, build(name, key=jax.random.key(0), settings=SETTINGS), {"config": config.to_json()})
    shutil.copy(runs["neubnp"].best, runs["cnp"].best)
    with pytest.raises(RunError, match="neubnp"):
        load_model(runs["cnp"].path)


def test_a_missing_checkpoint_is_named(tmp_path):
    with pytest.raises(RunError, match="nothing does not exist"):
        checkpoint.load(tmp_path / "nothing", small_model("cnp"))


@pytest.mark.parametrize(
    ("failure", "raised"),
    [(ValueError("no"), ValueError), (KeyboardInterrupt(), KeyboardInterrupt), (OSError(28, "No space left"), RunError)],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_a_write_that_fails_midway_leaves_the_old_file_and_nothing_else(failure, raised, tmp_path):
    path = tmp_path / "file"
    write_atomically(path, lambda file: file.write(b"old"))

    def write(file):
        file.write(b"half of the new")
        raise failure

    with pytest.raises(raised):
        write_atomically(path, write)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_save_replaces_the_old_checkpoint_whole(tmp_path):
    path = tmp_path / "model.safetensors"
    for name in ("mpnp", "cnp"):
        checkpoint.save(path, small_model(name), CARD)
    loaded, _ = checkpoint.load(path, small_model("cnp"))
    assert bits(loaded) == bits(small_model("cnp"))
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RunError, match=r"cannot write .*file/run/model.safetensors"):
        checkpoint.save(tmp_path / "file" / "run" / "model.safetensors", small_model("cnp"), CARD)
    assert (tmp_path / "file").read_text() == "in the way"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_file_gets_the_permissions_of_the_users_mask(tmp_path):
    mask = os.umask(0o027)
    try:
        write_atomically(tmp_path / "file", lambda file: file.write(b"content"))
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_the_same_arrays_and_card_give_the_same_bytes(saved_bytes, tmp_path):
    for number in range(12):  # the library shuffles the three entries of the metadata
        checkpoint.save(tmp_path / f"{number}", small_model("cnp"), CARD)
        assert (tmp_path / f"{number}").read_bytes() == saved_bytes
