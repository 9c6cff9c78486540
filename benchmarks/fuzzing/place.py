"""A directory with small models and tables, which cases copy and damage."""

import dataclasses
import functools
import shutil
import tempfile
from pathlib import Path

import jax
import numpy as np

from mpnp.inference.card import ModelCard, Reference, TrainingDomain
from mpnp.inference.fit import FitOptions
from mpnp.inference.leaderboard import NETWORK, STACK, Leaderboard, Standing
from mpnp.inference.model import FittedModel
from mpnp.inference.placement import Placement
from mpnp.inference.plan import FitPlan
from mpnp.models.build import build
from mpnp.models.config import ModelSettings
from mpnp.nn.likelihoods.calibration import Calibration
from mpnp.rivals.base import AbstractRival, Points
from mpnp.rivals.registry import RIVALS
from mpnp.tables.columns import Schema
from mpnp.tables.curves import Curves
from mpnp.tables.dataset import CurveDataset
from mpnp.tables.storage import save_dataset
from mpnp.tasks.registry import TABLE
from mpnp.training import checkpoint
from mpnp.training.config import RunConfig
from mpnp.training.rundir import RunDirectory

__all__ = ["FIT", "MODELS", "copy", "place", "small_model"]

SETTINGS = ModelSettings(width=8, num_heads=2, encoder_depth=1, latent_depth=1, decoder_depth=1, num_pseudo=3)
MODELS, FIT = ("cnp", "mpnp"), "unfinished"
PROGRESS = {"step": 0, "best_score": -1.0, "best_step": 1, "cpu_seconds": 1.0, "wall_seconds": 1.0}


@functools.cache
def small_model(name: str = "mpnp") -> FittedModel:
    """A tiny network with random weights."""
    schema = Schema.named(["hour"], ["temp"], task="day").learn(np.array([[0.0], [24.0]]), np.array([[10.0], [30.0]]))
    rng = np.random.default_rng(0)
    rivals = _rivals()
    scores = {"log_likelihood": -1.0, "crps": 0.5, "rmse": 1.0, "coverage_90": 0.9, "behind": 0.0, "behind_error": 0.1}
    names = (NETWORK, STACK, *rivals)
    board = Leaderboard(tuple(Standing(n, **scores) for n in names), (), STACK, {NETWORK: 0.5, "mean": 0.5}, {"gp": "no"}, 9)
    card = ModelCard(
        model=name,
        settings=SETTINGS,
        columns=schema,
        seen=TrainingDomain(9, 90, np.array([0.0]), np.array([24.0]), 10, Placement.anywhere(1)),
        reference=Reference(rng.integers(1, 9, 20), rng.normal(size=20)),
        about={"progress": PROGRESS, "environment": {"mpnp": "0"}, "tasks": {"train": 9}, "leaderboard": board.to_json()},
        calibration=Calibration((0.1, 1.0), (0.2, 1.0)),
    )
    return FittedModel(build(name, key=jax.random.key(0), settings=SETTINGS), card, rivals)


def _rivals() -> dict[str, AbstractRival]:
    """Simple forecasts of the same column."""
    rng, x = np.random.default_rng(0), np.linspace(-2, 2, 9)
    curves = [Points(x[:, None], np.zeros(9, int), np.sin(x) + rng.normal(size=9)) for _ in range(9)]
    return {name: RIVALS[name].learn(curves, context="random", seed=0) for name in ("mean", "persistence", "normal")}


@functools.cache
def place() -> Path:
    """Saved models, runs and tables. Never changed by a case."""
    folder = Path(tempfile.mkdtemp())
    for name in MODELS:
        small_model(name).save(folder / f"model-{name}")
        run, config = RunDirectory(folder / f"run-{name}"), RunConfig(name, settings=SETTINGS)
        run.create(config)
        header = {"config": config.to_json(), "progress": PROGRESS, "environment": {"mpnp": "0"}}
        checkpoint.save(run.best, config.build_model(), header)
        run.timing.write_text('{"step": 0, "cpu_seconds": 1.0, "wall_seconds": 1.0}\n')
        run.metrics.write_text('{"step": 0, "validation": {"task": -1.0}}\n')
    _unfinished_fit(folder / FIT / "training")
    (folder / "context.csv").write_text("hour,temp\n1,12\n5,20\n")
    (folder / "at.csv").write_text("hour\n2\n3\n")
    rows = [f"{day},{hour},{10 + day + hour}" for day in range(9) for hour in range(4)]
    (folder / "table.csv").write_text("\n".join(["day,hour,temp", *rows]) + "\n")
    (folder / "file").touch()
    return folder


def _unfinished_fit(training: Path) -> None:
    """What a fit that was killed in its first step leaves behind."""
    rng, options = np.random.default_rng(0), FitOptions("cnp", steps=9)
    curves = Curves.from_pairs([(np.arange(6.0), rng.normal(size=6)) for _ in range(20)])
    run = RunConfig("cnp", TABLE, recipe=options.recipe(), settings=SETTINGS, own_dims=(1, 1))
    save_dataset(RunDirectory(training).table, CurveDataset(curves, mixing=options.mixing))
    FitPlan(run, dataclasses.asdict(options)).write(training)


def copy(folder: Path, *names: str) -> None:
    """Copy some of the place into a folder."""
    for name in names:
        source = place() / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
