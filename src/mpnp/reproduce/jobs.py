"""Jobs: one training run and its tests. They serialise to JSON, so that any machine can run them."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.errors import DivergedError
from mpnp.io.files import environment
from mpnp.reproduce.rows import Run
from mpnp.training.evaluate import score_run
from mpnp.training.loop import finish
from mpnp.training.rundir import RunDirectory

__all__ = ["Job", "Outcome", "Test", "TestScore", "perform"]


@dataclasses.dataclass(frozen=True)
class Test:
    """One test of a trained model."""

    task: str
    num_tasks: int
    num_samples: int


@dataclasses.dataclass(frozen=True)
class Job:
    """A run to finish, and its tests. A learning rate trial has no tests."""

    run: Run
    directory: Path
    tests: tuple[Test, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As nested dictionaries."""
        return {**dataclasses.asdict(self), "directory": str(self.directory)}

    @staticmethod
    def from_json(content: dict[str, Any]) -> "Job":
        """From what `to_json` made."""
        tests = tuple(Test(**test) for test in content["tests"])
        return Job(Run.from_json(content["run"]), Path(content["directory"]), tests)


@dataclasses.dataclass(frozen=True)
class TestScore:
    """The record of a test, and the target log-likelihood of each test task."""

    record: dict[str, Any]
    target: Float[np.ndarray, " task"]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Result of a job: its validation curve, and its test scores unless training failed."""

    config: dict[str, Any]
    curve: list[dict[str, Any]]
    scores: dict[str, TestScore]
    failure: str | None = None
    performed_in: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Versions, commit and machine that did the job."""

    def to_json(self) -> dict[str, Any]:
        """As nested dictionaries."""
        scores = {task: {"record": score.record, "target": score.target.tolist()} for task, score in self.scores.items()}
        return {**dataclasses.asdict(self), "scores": scores}

    @staticmethod
    def from_json(content: dict[str, Any]) -> "Outcome":
        """From what `to_json` made."""
        scores = {
            task: TestScore(score["record"], np.asarray(score["target"], np.float32))
            for task, score in content["scores"].items()
        }
        return Outcome(**{**content, "scores": scores})


def perform(job: Job, *, quiet: bool = True) -> Outcome:
    """Train or resume the run to its end, then test it. Divergence is an outcome, not an error."""
    config = job.run.config()
    try:
        finish(config, job.directory, quiet=quiet)
        scores = {test.task: _score(job.directory, test) for test in job.tests}
    except DivergedError as error:
        return Outcome(config.to_json(), _curve(job.directory), {}, str(error), environment())
    return Outcome(config.to_json(), _curve(job.directory), scores, None, environment())


def _curve(directory: Path) -> list[dict[str, Any]]:
    """Validation scores during training. Non-finite scores become None, because JSON has no infinity."""
    rows = RunDirectory(directory).learning_curve()
    return [
        {name: value if value is not None and math.isfinite(value) else None for name, value in row.items()} for row in rows
    ]


def _score(directory: Path, test: Test) -> TestScore:
    record, scores = score_run(directory, task=test.task, num_tasks=test.num_tasks, num_samples=test.num_samples)
    return TestScore(record, scores["target"].astype(np.float32))
