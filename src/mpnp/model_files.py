"""Files of a model that people exchange: weights and card in a directory. Reading them executes nothing."""

import hashlib
from pathlib import Path

import jax
import numpy as np

from mpnp import checkpoint
from mpnp.card import ModelCard, Seen
from mpnp.data.curves import Columns
from mpnp.data.normaliser import Affine, Normaliser
from mpnp.errors import RunError, first_line
from mpnp.models.catalogue import build
from mpnp.models.contract import AbstractNeuralProcess
from mpnp.records import read_json, write_json
from mpnp.runs import PRETRAINED, RunDirectory, find_run, load_model
from mpnp.tasks.catalogue import task_reach
from mpnp.tasks.tables import TABLE

__all__ = ["CARD", "WEIGHTS", "load_model_files", "save_model"]

WEIGHTS, CARD = "model.safetensors", "card.json"

LICENCE = "Apache-2.0"
"""Of the models that come with the package: its own."""


def save_model(directory: Path, network: AbstractNeuralProcess, card: ModelCard) -> None:
    """Write the weights, then the card that names them: a directory without a card holds no model."""
    checkpoint.save(directory / WEIGHTS, network, {"model": card.model})
    write_json(directory / CARD, {**card.to_json(), "weights_sha256": _digest(directory / WEIGHTS)})


def load_model_files(directory: Path) -> tuple[AbstractNeuralProcess, ModelCard]:
    """The network and the card of a saved model, of a training run, or of a model that comes with the package."""
    directory = find_run(directory)
    if (directory / CARD).is_file():
        return _load_saved(directory)
    if RunDirectory(directory).config_file.is_file():
        return _load_run(directory)
    packaged = ", ".join(sorted(path.name for path in PRETRAINED.iterdir() if path.is_dir()))
    raise RunError(
        f"{directory} holds no model: expected a directory with {CARD} and {WEIGHTS}, a training run, or the name of a model "
        f"that comes with mpnp ({packaged})"
    )


def _load_saved(directory: Path) -> tuple[AbstractNeuralProcess, ModelCard]:
    content = read_json(directory / CARD)
    card = ModelCard.from_json(content, directory / CARD)
    try:
        shapes = jax.eval_shape(
            lambda: build(card.model, key=jax.random.key(0), x_dim=card.dims[0], y_dim=card.dims[1], settings=card.settings)
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise RunError(f"{directory / CARD} describes no model that this mpnp can build ({first_line(error)})") from None
    network, _ = checkpoint.load(directory / WEIGHTS, shapes)
    if content.get("weights_sha256") != _digest(directory / WEIGHTS):
        raise RunError(f"{directory / WEIGHTS} is not the file that {CARD} describes; restore both from one copy")
    return network, card


def _load_run(directory: Path) -> tuple[AbstractNeuralProcess, ModelCard]:
    """A model trained on a task of the catalogue, whose units are the network's own."""
    if RunDirectory(directory).config().task == TABLE:
        raise RunError(f"{directory} is part of an unfinished fit; finish it with 'mpnp fit --resume', then load the model")
    network, config, header = load_model(directory)
    x_dim, y_dim = config.dims
    low, high, slots = task_reach(config.task)
    card = ModelCard(
        model=config.model,
        settings=config.settings,
        dims=(x_dim, y_dim),
        columns=Columns.numbered(x_dim, y_dim),
        normaliser=Normaliser(Affine.identity(x_dim), Affine.identity(y_dim)),
        seen=Seen(
            num_tasks=config.recipe.batch_size * header["progress"]["best_step"],
            num_rows=config.recipe.batch_size * header["progress"]["best_step"] * slots,
            low=np.full(x_dim, low),
            high=np.full(x_dim, high),
            largest_context=slots - 3,
        ),
        reference=None,
        about={
            "task": config.task,
            "progress": header["progress"],
            "environment": header["environment"],
            "scores": read_json(scores) if (scores := RunDirectory(directory).scores(config.task)).is_file() else None,
        },
        licence=LICENCE if directory.parent == PRETRAINED else None,
    )
    return network, card


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
