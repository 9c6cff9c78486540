"""Runs: what a training run is, and the directory it lives in."""

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from mpnp import checkpoint
from mpnp.errors import InputError, RunError
from mpnp.models.catalogue import build, find_model
from mpnp.models.contract import AbstractNeuralProcess
from mpnp.models.initialisations import INITIALISATIONS
from mpnp.models.settings import ModelSettings
from mpnp.options import require_seed
from mpnp.recipes import Recipe
from mpnp.records import read_json, write_atomically, write_json
from mpnp.table_files import load_table
from mpnp.tasks.catalogue import find_problem, require_learnable, task_dims
from mpnp.tasks.families import AbstractTaskFamily
from mpnp.tasks.sources import Problem, TaskSource, training_indices
from mpnp.tasks.tables import TABLE

__all__ = ["PRETRAINED", "RunConfig", "RunDirectory", "find_run", "load_model", "starting_model"]

PRETRAINED = Path(__file__).parent / "pretrained"
"""Runs that come with the package, each under its name."""


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """Everything that decides a run's numbers."""

    model: str
    task: str = "rbf"
    seed: int = 0
    num_tasks: int | None = None
    recipe: Recipe = dataclasses.field(default_factory=Recipe)
    settings: ModelSettings = dataclasses.field(default_factory=ModelSettings)
    start_from: str | None = None
    """Directory of a run whose trained weights this one starts with, such as a cnp's for an mpnp; new weights if none."""
    table_dims: tuple[int, int] | None = None
    """Input and output dimensions of a table of curves, which lies in the run's directory; any other task knows its own."""

    def __post_init__(self) -> None:
        find_model(self.model)
        require_learnable(self.task)
        if (self.task == TABLE) != (self.table_dims is not None):
            raise InputError(f"table_dims belong to the task '{TABLE}' and to no other; the task is '{self.task}'")
        require_seed(self.seed)
        if self.num_tasks is not None and self.num_tasks < self.recipe.batch_size:
            raise InputError(
                f"num_tasks must be at least one batch of {self.recipe.batch_size}, got {self.num_tasks}; "
                "enlarge it or lower the batch size"
            )
        jax.eval_shape(self.build_model)  # settings that no model can have are refused here, before anything is written

    @property
    def dims(self) -> tuple[int, int]:
        """Input and output dimensions."""
        if self.table_dims is not None:
            return self.table_dims
        return task_dims(self.task)

    @property
    def core_steps(self) -> int:
        """The first steps, in which a new martingale model learns as its core; one that starts from another run has none."""
        return int(self.recipe.core_share * self.recipe.steps) if self.start_from is None else 0

    def keys(self) -> Key[Array, " 3"]:
        """The keys of weights, of tasks, and of the model's own draws."""
        return jax.random.split(jax.random.key(self.seed), 3)

    def build_model(self) -> AbstractNeuralProcess:
        """The model with its initial weights."""
        x_dim, y_dim = self.dims
        return build(self.model, key=self.keys()[0], x_dim=x_dim, y_dim=y_dim, settings=self.settings)

    def to_json(self) -> dict[str, Any]:
        """As nested dictionaries."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(content: Any) -> "RunConfig":
        """From what `to_json` made."""
        try:
            parts = {"recipe": Recipe(**content["recipe"]), "settings": ModelSettings(**content["settings"])}
            if (dims := content.get("table_dims")) is not None:
                parts["table_dims"] = tuple(dims)
            return RunConfig(**{**content, **parts})
        except (KeyError, TypeError) as error:
            raise RunError(f"the configuration of this run was written by another version of mpnp ({error})") from None

    def require_own(self, path: Path, card: Mapping[str, Any]) -> None:
        """Refuse a checkpoint of another run: two models may have arrays of the same names and shapes."""
        other = RunConfig.from_json(card.get("config"))
        if other != self:
            raise RunError(f"{path} was saved by another run, of {other.model} on {other.task}; restore this run's own")


@dataclasses.dataclass(frozen=True)
class RunDirectory:
    """The files of a run.

    `config.json` what was asked for; `metrics.jsonl` losses and validation scores, the same on every repetition of the run;
    `timing.jsonl` what they cost; `last` and `best.safetensors` the checkpoints; `scores/` records of evaluations;
    `table.safetensors` the curves of a run on a table.
    """

    path: Path

    @property
    def config_file(self) -> Path:
        """The configuration; a directory without it holds no run."""
        return self.path / "config.json"

    @property
    def last(self) -> Path:
        """The checkpoint that training continues from: model, optimiser and step."""
        return self.path / "last.safetensors"

    @property
    def best(self) -> Path:
        """The model with the best validation score so far."""
        return self.path / "best.safetensors"

    @property
    def metrics(self) -> Path:
        """Losses and validation scores."""
        return self.path / "metrics.jsonl"

    @property
    def timing(self) -> Path:
        """Seconds spent."""
        return self.path / "timing.jsonl"

    @property
    def table(self) -> Path:
        """The curves that a run on a table learns from."""
        return self.path / "table.safetensors"

    def scores(self, task: str) -> Path:
        """The record of an evaluation on test tasks of a family."""
        return self.path / "scores" / f"{task.replace(':', '.')}.json"

    def problem(self, config: RunConfig) -> Problem:
        """What the run learns."""
        if config.task == TABLE:
            return load_table(self.table).problem()
        return find_problem(config.task)

    def cpu_seconds(self) -> float | None:
        """CPU time of the run up to its last validation."""
        rows = _rows(self.timing)
        return rows[-1]["cpu_seconds"] if rows else None

    def learning_curve(self) -> list[dict[str, Any]]:
        """One row a validation: step, CPU-seconds and scores. One that a kill left without its time is not among them."""
        seconds = {row["step"]: row["cpu_seconds"] for row in _rows(self.timing)}
        rows = [row for row in _rows(self.metrics) if "validation" in row and row["step"] in seconds]
        return [{"step": row["step"], "cpu_seconds": seconds[row["step"]], **row["validation"]} for row in rows]

    def create(self, config: RunConfig) -> None:
        """Start a run here, unless there is one already."""
        if self.config_file.exists():
            raise RunError(f"{self.path} already holds a run; continue it with '--resume {self.path}' or choose another --out")
        write_json(self.config_file, config.to_json())

    def config(self) -> RunConfig:
        """The configuration of the run."""
        if not self.config_file.exists():
            raise RunError(f"{self.path} holds no run: {self.config_file.name} is missing; train one with 'mpnp train'")
        return RunConfig.from_json(read_json(self.config_file))

    def rewind_logs(self, step: int) -> None:
        """Forget what was logged after a step: a run that resumes there will write it again."""
        for log in (self.metrics, self.timing):
            rows = [line for line in _lines(log) if _step(line) <= step]
            write_atomically(log, lambda file, rows=rows: file.write("".join(rows).encode()))


def find_run(path_or_name: str | Path) -> Path:
    """The directory of that path, or the one of the pre-trained model of that name that comes with the package."""
    path = Path(path_or_name)
    packaged = PRETRAINED / path.name
    return packaged if path == Path(path.name) and packaged.is_dir() and not path.exists() else path


def load_model(directory: str | Path) -> tuple[AbstractNeuralProcess, RunConfig, dict[str, Any]]:
    """The model of a run at its best validation score, with the run's configuration and the checkpoint's card."""
    run = RunDirectory(find_run(directory))
    config = run.config()
    if not run.best.exists():
        raise RunError(f"{directory} has no validated checkpoint yet; continue it with 'mpnp train --resume {directory}'")
    model, card = checkpoint.load(run.best, jax.eval_shape(config.build_model))
    config.require_own(run.best, card)
    return model, config, card


def starting_model(config: RunConfig, training: AbstractTaskFamily) -> AbstractNeuralProcess:
    """The model before its first step: new weights, or those of the run it starts from wherever that has some."""
    model = eqx.filter_jit(_new_model)(config, training)
    if config.start_from is None:
        return model
    trained, other, _ = load_model(config.start_from)
    try:
        return checkpoint.transplant(trained, model)
    except RunError as error:
        raise InputError(f"{config.model} cannot start from {config.start_from}, which is {other.model}: {error}") from None


def _new_model(config: RunConfig, training: AbstractTaskFamily) -> AbstractNeuralProcess:
    """New weights, which may look at the tasks of the first step."""
    recipe, (key, data_key, _) = config.recipe, config.keys()
    indices = training_indices(0, recipe.batch_size, num_tasks=config.num_tasks, seed=config.seed)
    initialise = INITIALISATIONS[recipe.initialisation]
    tasks = TaskSource(training, data_key).batch(jnp.asarray(indices))
    return initialise(config.build_model(), tasks, jax.random.fold_in(key, 1))


def _lines(log: Path) -> list[str]:
    return log.read_text().splitlines(keepends=True) if log.exists() else []


def _rows(log: Path) -> list[dict[str, Any]]:
    """What a log says, without a line that a kill cut short."""
    return [json.loads(line) for line in _lines(log) if math.isfinite(_step(line))]


def _step(line: str) -> int | float:
    """The step of a log line; one that a kill cut short counts as later than any step."""
    try:
        return json.loads(line)["step"]
    except (ValueError, KeyError, TypeError):
        return float("inf")
