"""Model directories from strangers: damaged weights are refused; strange cards are refused or predict finite numbers."""

import hashlib
import json
from pathlib import Path

import numpy as np

from fuzzing.junk import damage, junk, odd_array, replace_anywhere, require
from fuzzing.place import FIT, MODELS, copy
from mpnp.errors import MpnpError
from mpnp.inference.files import read_card
from mpnp.inference.fit import unfinished_curves, unfinished_plan
from mpnp.inference.model import load
from mpnp.io.tensors import load_named, save_named
from mpnp.training.rundir import RunDirectory, load_model

__all__ = ["CASES"]

PREDICTING = 0.05
"""Share of the loaded models that also predict, which takes a second."""


def _name(rng: np.random.Generator, kind: str) -> str:
    return f"{kind}-{MODELS[rng.integers(len(MODELS))]}"


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8", errors="surrogatepass")


def weights(rng: np.random.Generator, folder: Path) -> None:
    """Weights with any byte changed are not the ones that the card describes."""
    name = _name(rng, "model")
    copy(folder, name)
    path = folder / name / "model.safetensors"
    whole = path.read_bytes()
    damaged = damage(rng, whole)
    path.write_bytes(damaged)
    load(folder / name)
    require(damaged == whole, "damaged weights were loaded")


def card(rng: np.random.Generator, folder: Path) -> None:
    """A card with anything at any place."""
    name = _name(rng, "model")
    copy(folder, name)
    path = folder / name / "card.json"
    if rng.random() < 0.3:
        path.write_bytes(damage(rng, path.read_bytes()))
    else:
        _write_json(path, replace_anywhere(rng, json.loads(path.read_text()), junk(rng)))
    model = load(folder / name)
    if rng.random() < PREDICTING:
        std = model.condition([1.0, 4.0], [12.0, 14.0]).predict([2.0, 3.0], "std")
        require(np.isfinite(std).all() and (std > 0).all(), "a standard deviation is not positive and finite")


def rivals(rng: np.random.Generator, folder: Path) -> None:
    """Rivals with an odd array, and a card that describes just them: they are refused, or forecast distributions."""
    name = _name(rng, "model")
    copy(folder, name)
    path = folder / name / "rivals.safetensors"
    header, arrays = load_named(path)
    chosen = list(arrays)[rng.integers(len(arrays))]
    save_named(path, {**arrays, chosen: odd_array(rng, arrays[chosen])}, header)
    card = folder / name / "card.json"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    _write_json(card, json.loads(card.read_text()) | {"rivals_sha256": digest})
    rival = load(folder / name).use(chosen.partition(".")[0])
    std = rival.condition([1.0, 4.0], [12.0, 14.0]).predict([2.0, 3.0], "std")
    require(np.isfinite(std).all() and (std > 0).all(), "a standard deviation is not positive and finite")


def run(rng: np.random.Generator, folder: Path) -> None:
    """A run with a strange configuration, checkpoint or log."""
    name = _name(rng, "run")
    copy(folder, name)
    directory = RunDirectory(folder / name)
    path = [directory.config_file, directory.best, directory.timing, directory.metrics][rng.integers(4)]
    if path == directory.config_file and rng.random() < 0.7:
        _write_json(path, replace_anywhere(rng, json.loads(path.read_text()), junk(rng)))
    else:
        path.write_bytes(damage(rng, path.read_bytes()))
    for read in (directory.cpu_seconds, directory.learning_curve, lambda: read_card(directory.path)):
        try:
            read()
        except MpnpError:
            continue
    load_model(directory.path)


def fit(rng: np.random.Generator, folder: Path) -> None:
    """An unfinished fit whose plan, or whose curves, have anything at any place."""
    copy(folder, FIT)
    training = folder / FIT / "training"
    if rng.random() < 0.5:
        plan = training / "plan.json"
        _write_json(plan, replace_anywhere(rng, json.loads(plan.read_text()), junk(rng)))
    else:
        header, arrays = load_named(training / "table.safetensors")
        name = list(arrays)[rng.integers(len(arrays))]
        arrays[name] = odd_array(rng, arrays[name])
        odd = junk(rng)
        finite = not isinstance(odd, float) or np.isfinite(odd)  # headers are strict JSON
        header = replace_anywhere(rng, header, odd) if finite and rng.random() < 0.5 else header
        save_named(training / "table.safetensors", arrays, header)
    plan, curves = unfinished_plan(folder / FIT), unfinished_curves(folder / FIT)
    require(plan is not None and len(plan.choices()) > 9, "the choices of a fit are incomplete")
    require(curves.counts.sum() == len(curves.x) == len(curves.y), "curves are inconsistent")


CASES = (weights, card, card, rivals, run, fit)
