"""Jobs: one training run each, with the tests that follow it. They travel as JSON, so that any machine can do them."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.errors import DivergedError
from mpnp.evaluate import score_run
from mpnp.reproduce.lines import Run
from mpnp.runs import RunDirectory
from mpnp.train import finish

__all__ = ["Job", "Outcome", "Test", "TestScore", "perform"]


@dataclasses.dataclass(frozen=True)
class Test:
    """What a trained model is asked."""

    task: str
    num_tasks: int
    num_samples: int


@dataclasses.dataclass(frozen=True)
class Job:
    """A run to bring to its end, and what to test it on; a trial of a learning rate needs no test."""

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
    """The record of a test, and the target log-likelihood of each of its tasks."""

    record: dict[str, Any]
    target: Float[np.ndarray, " task"]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a job: how validation rose, and how the tests went, unless training failed."""

    config: dict[str, Any]
    curve: list[dict[str, Any]]
    scores: dict[str, TestScore]
    failure: str | None = None

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
    """Train from wherever the run is to its end, then test. A model that diverges is an outcome too."""
    config = job.run.config()
    try:
        finish(config, job.directory, quiet=quiet)
        scores = {test.task: _score(job.directory, test) for test in job.tests}
    except DivergedError as error:
        return Outcome(config.to_json(), _curve(job.directory), {}, str(error))
    return Outcome(config.to_json(), _curve(job.directory), scores)


def _curve(directory: Path) -> list[dict[str, Any]]:
    """Validation during training; a score that is not finite is none, because JSON knows no infinity."""
    rows = RunDirectory(directory).learning_curve()
    return [
        {name: value if value is not None and math.isfinite(value) else None for name, value in row.items()} for row in rows
    ]


def _score(directory: Path, test: Test) -> TestScore:
    record, scores = score_run(directory, task=test.task, num_tasks=test.num_tasks, num_samples=test.num_samples)
    return TestScore(record, scores["target"].astype(np.float32))
