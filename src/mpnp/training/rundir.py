"""The directory of a training run. Looking into it needs no JAX."""

import dataclasses
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpnp.errors import RunError, first_line
from mpnp.io.files import read_json, write_atomically, write_json
from mpnp.io.paths import usable_path
from mpnp.nn.likelihoods.calibration import Calibration
from mpnp.options import LARGEST
from mpnp.tasks.registry import TABLE, find_problem
from mpnp.training.config import RunConfig

if TYPE_CHECKING:
    import mpnp.models.base
    import mpnp.tasks.base

__all__ = ["PRETRAINED", "RunDirectory", "find_run", "load_core", "load_model"]

PRETRAINED = Path(__file__).parents[1] / "pretrained"
"""Directory of the pretrained runs that come with the package."""


@dataclasses.dataclass(frozen=True)
class RunDirectory:
    """The files of a run.

    `config.json` holds the configuration; `metrics.jsonl` losses and validation scores, identical on every repetition of the
    run; `timing.jsonl` CPU and wall time; `last.safetensors`, `best.safetensors` and `best-core.safetensors` the checkpoints;
    `scores/` evaluation records; `check.json` what the last check found; `calibration.json` how the standard deviations of a
    packaged model are corrected; and `table.safetensors` the curves of a run on the user's own data.
    """

    path: Path

    @property
    def config_file(self) -> Path:
        """The configuration. A directory without it is not a run."""
        return self.path / "config.json"

    @property
    def last(self) -> Path:
        """The checkpoint to resume from: model, optimiser state and progress."""
        return self.path / "last.safetensors"

    @property
    def best(self) -> Path:
        """The model with the best validation score so far."""
        return self.path / "best.safetensors"

    @property
    def best_core(self) -> Path:
        """The best core, scored while it was trained alone. Only martingale models whose core is trained first have it."""
        return self.path / "best-core.safetensors"

    def validated(self) -> Path:
        """The best checkpoint. Raises an error if there is none yet."""
        if not self.best.exists():
            raise RunError(f"{self.path} has no validated checkpoint yet; continue it with 'mpnp train --resume {self.path}'")
        return self.best

    @property
    def metrics(self) -> Path:
        """Log of losses and validation scores."""
        return self.path / "metrics.jsonl"

    @property
    def timing(self) -> Path:
        """Log of CPU and wall time."""
        return self.path / "timing.jsonl"

    @property
    def table(self) -> Path:
        """The curves of a run on the user's own data."""
        return self.path / "table.safetensors"

    def scores(self, task: str) -> Path:
        """The record of an evaluation on a test task."""
        return self.path / "scores" / f"{task.replace(':', '.')}.json"

    @property
    def check(self) -> Path:
        """The summary of the last check."""
        return self.path / "check.json"

    @property
    def calibration_file(self) -> Path:
        """The correction of standard deviations, and how it was learnt."""
        return self.path / "calibration.json"

    def calibration(self) -> Calibration | None:
        """The correction of standard deviations; None if the run has none."""
        if not self.calibration_file.is_file():
            return None
        try:
            return Calibration.from_json(read_json(self.calibration_file)["calibration"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise RunError(f"{self.calibration_file} is damaged ({first_line(error)}); restore it from a copy") from None

    def problem(self, config: RunConfig) -> "mpnp.tasks.base.Problem":
        """The learning problem of the run."""
        if config.task == TABLE:
            from mpnp.tables.storage import load_dataset

            return load_dataset(self.table).problem()
        return find_problem(config.task)

    def cpu_seconds(self) -> float | None:
        """CPU time of the run until its last validation."""
        rows = _rows(self.timing, "cpu_seconds")
        return rows[-1]["cpu_seconds"] if rows else None

    def learning_curve(self) -> list[dict[str, Any]]:
        """One row per validation: step, CPU seconds and scores. Damaged rows are left out."""
        seconds = {row["step"]: row["cpu_seconds"] for row in _rows(self.timing, "cpu_seconds")}
        rows = [row for row in _rows(self.metrics, "validation") if row["step"] in seconds]
        return [{"step": row["step"], "cpu_seconds": seconds[row["step"]], **row["validation"]} for row in rows]

    def create(self, config: RunConfig) -> None:
        """Start a run in this directory. Raises an error if it already holds one."""
        if self.config_file.exists():
            raise RunError(f"{self.path} already holds a run; continue it with '--resume {self.path}' or choose another --out")
        write_json(self.config_file, config.to_json())

    def config(self) -> RunConfig:
        """The configuration of the run."""
        if not self.config_file.exists():
            raise RunError(f"{self.path} holds no run: {self.config_file.name} is missing; train one with 'mpnp train'")
        return RunConfig.from_json(read_json(self.config_file))

    def rewind_logs(self, step: int) -> None:
        """Drop log rows after a step, because the resumed run writes them again."""
        for log in (self.metrics, self.timing):
            rows = [line for line in _lines(log) if _step(line) <= step]
            write_atomically(log, lambda file, rows=rows: file.write("".join(rows).encode()))


def find_run(path_or_name: str | Path) -> Path:
    """Directory of a run, given its path or the name of a pretrained model."""
    path = usable_path(path_or_name)
    packaged = PRETRAINED / path.name
    return packaged if path == Path(path.name) and packaged.is_dir() and not path.exists() else path


def load_model(directory: str | Path) -> tuple["mpnp.models.base.AbstractNeuralProcess", RunConfig, dict[str, Any]]:
    """The model of a run at its best validation score, the run's configuration, and the checkpoint's card.

    If the run has a calibration, the model's standard deviations are corrected.
    """
    import jax

    from mpnp.training import checkpoint

    run = RunDirectory(find_run(directory))
    config = run.config()
    model, card = checkpoint.load(run.validated(), jax.eval_shape(config.build_model))
    config.require_own(run.best, card)
    return model.calibrated(run.calibration()), config, card


def load_core(directory: str | Path) -> tuple["mpnp.models.base.AbstractNeuralProcess", dict[str, Any]] | None:
    """The best core that a run saved while it trained it alone, and the checkpoint's card; None if there is none."""
    import jax

    from mpnp.training import checkpoint

    run = RunDirectory(find_run(directory))
    if not run.best_core.exists():
        return None
    config = run.config()
    core, card = checkpoint.load(run.best_core, jax.eval_shape(lambda: config.build_model().core))
    config.require_own(run.best_core, card)
    return core, card


def _lines(log: Path) -> list[str]:
    """Lines of a log. Bytes that are no text are replaced: a disk error in one line must not cost the others."""
    try:
        return log.read_text(errors="replace").splitlines(keepends=True) if log.is_file() else []
    except OSError as error:
        raise RunError(f"cannot read {log}: {error.strerror}") from None


def _rows(log: Path, field: str) -> list[dict[str, Any]]:
    """Rows of a log that have this field, without damaged lines, such as one cut short by a kill."""
    rows = [json.loads(line) for line in _lines(log) if math.isfinite(_step(line))]
    return [row for row in rows if field in row]


def _step(line: str) -> int | float:
    """The step of a log line; infinite if the line is damaged."""
    try:
        step = json.loads(line)["step"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return math.inf
    return step if isinstance(step, int) and step <= LARGEST else math.inf
