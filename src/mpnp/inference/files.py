"""Model files: a directory with weights and card. Reading them executes no code."""

import dataclasses
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mpnp.errors import RunError, first_line
from mpnp.inference.card import ModelCard, TrainingDomain
from mpnp.inference.placement import Placement
from mpnp.io.files import read_json, write_json
from mpnp.io.locks import exclusive
from mpnp.io.tensors import read_card as read_header
from mpnp.models.config import ModelSettings
from mpnp.tables.columns import Schema
from mpnp.tasks.registry import TABLE, is_own_family, is_scaled_by_context, task_dims, task_reach
from mpnp.training.config import MOST_PARAMETERS, read_own_dims
from mpnp.training.rundir import PRETRAINED, RunDirectory, find_run, load_model

if TYPE_CHECKING:
    import mpnp.models.base
    from mpnp.rivals.base import AbstractRival

__all__ = ["CARD", "WEIGHTS", "keep_check", "load_model_files", "read_card", "save_model"]

WEIGHTS, CARD, RIVALS = "model.safetensors", "card.json", "rivals.safetensors"

NEXT, DIGEST = "next.safetensors", "weights_sha256"
"""Weights that are being saved, and the entry of the card that says which weights it describes."""

NEXT_RIVALS, RIVALS_DIGEST = "next-rivals.safetensors", "rivals_sha256"
"""The same of the rivals."""

DESCRIBED = ((WEIGHTS, NEXT, DIGEST), (RIVALS, NEXT_RIVALS, RIVALS_DIGEST))
"""Files that the card describes: their name, their name until the card is written, and the entry of the card."""

LARGEST_FILE = 5 * MOST_PARAMETERS
"""Bytes of the largest file of weights that is read: four per parameter, and room for a header."""

LICENCE = "Apache-2.0"
"""Licence of the models that come with the package."""


def save_model(
    directory: Path,
    network: "mpnp.models.base.AbstractNeuralProcess",
    card: ModelCard,
    rivals: "Mapping[str, AbstractRival]",
) -> None:
    """Write all files as one change: a directory holds the old model until its card is replaced, then the new one."""
    from mpnp.rivals.storage import save_rivals
    from mpnp.training import checkpoint

    _finish_save(directory)
    checkpoint.save(directory / NEXT, network, {"model": card.model})
    digests = {DIGEST: _digest(directory / NEXT)}
    if rivals:
        save_rivals(directory / NEXT_RIVALS, rivals)
        digests[RIVALS_DIGEST] = _digest(directory / NEXT_RIVALS)
    write_json(directory / CARD, {**card.to_json(), **digests})
    _finish_save(directory)
    if not rivals:
        (directory / RIVALS).unlink(missing_ok=True)


def _finish_save(directory: Path) -> None:
    """Give new files their names if the card describes them, and remove them if it does not."""
    for name, name_before, entry in DESCRIBED:
        new = directory / name_before
        if not new.is_file():
            continue
        try:
            described = read_json(directory / CARD).get(entry)
        except (AttributeError, RunError):  # there is no card yet, or a damaged one
            described = None
        if _digest(new) == described:
            os.replace(new, directory / name)
        else:
            new.unlink()


def load_model_files(
    directory: Path,
) -> tuple["mpnp.models.base.AbstractNeuralProcess", ModelCard, "dict[str, AbstractRival]"]:
    """Network, card and rivals of a saved model, of a training run, or of a model that comes with the package."""
    directory = find_run(directory)
    if (directory / CARD).is_file():
        card, weights = _saved_model(directory)
        return _load_network(weights, card), card, _load_rivals(directory, card)
    card = read_card(directory)
    return load_model(directory)[0], card, {}


def read_card(directory: Path) -> ModelCard:
    """The card of a saved model, of a training run, or of a model that comes with the package. Needs no JAX."""
    directory = find_run(directory)
    if (directory / CARD).is_file():
        return _saved_model(directory)[0]
    if RunDirectory(directory).config_file.is_file():
        return _run_card(directory)
    packaged = ", ".join(sorted(path.name for path in PRETRAINED.iterdir() if path.is_dir()))
    raise RunError(
        f"{directory} holds no model: expected a directory with {CARD} and {WEIGHTS}, a training run, or the name of a model "
        f"that comes with mpnp ({packaged})"
    )


def keep_check(directory: Path, summary: Mapping[str, Any]) -> Path | None:
    """Store the summary of a check in the card of a model; returns the file written, or None if the model is not the user's.

    Models that come with the package, and directories that the user may not write to, are left alone.
    """
    directory = find_run(directory)
    card = directory / CARD
    if directory.parent == PRETRAINED or not os.access(directory, os.W_OK):
        return None
    if not card.is_file():
        write_json(RunDirectory(directory).check, summary)
        return RunDirectory(directory).check
    with exclusive(directory):  # a save in between would be undone
        content = read_json(card)
        write_json(card, {**content, "about": {**content["about"], "check": dict(summary)}})
    return card


def _saved_model(directory: Path) -> tuple[ModelCard, Path]:
    """The card, and the file with the weights that it describes."""
    content = read_json(directory / CARD)
    card = ModelCard.from_json(content, directory / CARD)
    return card, _described(directory, WEIGHTS, NEXT, content.get(DIGEST))


def _load_rivals(directory: Path, card: ModelCard) -> "dict[str, AbstractRival]":
    """The rivals that the card describes, if any."""
    digest = read_json(directory / CARD).get(RIVALS_DIGEST)
    if digest is None:
        return {}
    from mpnp.rivals.points import read_places  # here, because they need JAX
    from mpnp.rivals.storage import load_rivals
    from mpnp.tables.points import target_inputs

    x = np.nan_to_num(card.seen.low)[None]
    places = read_places(card.columns, target_inputs(card.columns, x))
    return load_rivals(_described(directory, RIVALS, NEXT_RIVALS, digest), places)


def _described(directory: Path, name: str, name_before: str, digest: Any) -> Path:
    """The file that the card describes. It has its name of before if a save was killed right after it wrote the card."""
    for path in (directory / name, directory / name_before):
        if path.is_file() and _digest(path) == digest:
            return path
    if not (directory / name).is_file():
        raise RunError(f"{directory / name} does not exist")
    raise RunError(f"{directory / name} is not the file that {CARD} describes; restore both from one copy")


def _load_network(weights: Path, card: ModelCard) -> "mpnp.models.base.AbstractNeuralProcess":
    import jax

    from mpnp.models.build import build
    from mpnp.training import checkpoint

    x_dim, y_dim = card.columns.dims
    try:
        shapes = jax.eval_shape(
            lambda: build(card.model, key=jax.random.key(0), x_dim=x_dim, y_dim=y_dim, settings=card.settings)
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise RunError(f"{weights.parent / CARD} describes no model that this mpnp can build ({first_line(error)})") from None
    return checkpoint.load(weights, shapes)[0]


def _run_card(directory: Path) -> ModelCard:
    """The card of a model trained on a registered task, whose units are the network's own."""
    run = RunDirectory(directory)
    config = read_json(run.config_file)
    try:
        if config["task"] == TABLE:
            raise RunError(f"{directory} is part of an unfinished fit; finish it with 'mpnp fit --resume', then load the model")
        return _describe(run, config, read_header(run.validated()))
    except (AttributeError, KeyError, TypeError, OSError) as error:  # an OSError for names that no file can have
        raise RunError(f"{directory} is damaged, or was written by another version of mpnp ({first_line(error)})") from None


def _describe(run: RunDirectory, config: Mapping[str, Any], header: Mapping[str, Any]) -> ModelCard:
    """The card of a run, from its configuration and the header of its best checkpoint."""
    x_dim, y_dim = (is_own_family(config["task"]) and read_own_dims(config)) or task_dims(config["task"])
    low, high, slots = task_reach(config["task"])
    num_tasks = config["recipe"]["batch_size"] * header["progress"]["best_step"]
    calibration = run.calibration()
    return ModelCard(
        model=config["model"],
        settings=ModelSettings(**config["settings"]),
        columns=dataclasses.replace(Schema.numbered(x_dim, y_dim), y_dim=y_dim),
        seen=TrainingDomain(
            num_tasks=num_tasks,
            num_rows=num_tasks * slots,
            low=np.full(x_dim, low),
            high=np.full(x_dim, high),
            largest_context=slots - 3,
            placement=Placement.anywhere(x_dim),
        ),
        reference=None,
        about={
            "task": config["task"],
            "progress": header["progress"],
            "environment": header["environment"],
            "scores": read_json(scores) if (scores := run.scores(config["task"])).is_file() else None,
            **({"check": read_json(run.check)} if run.check.is_file() else {}),
            **({} if calibration is None else {"recalibration": read_json(run.calibration_file)["report"]}),
        },
        licence=LICENCE if run.path.parent == PRETRAINED else None,
        calibration=calibration,
        scaled_by_context=is_scaled_by_context(config["task"]),
    )


def _digest(path: Path) -> str:
    if (size := path.stat().st_size) > LARGEST_FILE:  # a hole in the file of a stranger takes no room, but time to read
        raise RunError(f"{path} has {size:,} bytes, more than any model of mpnp; restore it from a copy")
    with path.open("rb") as file:  # some at a time: a file from a stranger may claim any size
        return hashlib.file_digest(file, "sha256").hexdigest()
