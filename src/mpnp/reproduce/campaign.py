"""A campaign: the runs and records of one budget, on disk."""

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.errors import InputError, RunError
from mpnp.records import read_json, write_atomically, write_json
from mpnp.reproduce.budgets import Budget, Effort
from mpnp.reproduce.jobs import Job, Outcome, Test
from mpnp.reproduce.lines import Line, Run
from mpnp.runs import RunDirectory
from mpnp.stores import load_arrays
from mpnp.tasks.image_sets import SHAPES, store_of

__all__ = ["Campaign", "Record"]


@dataclasses.dataclass(frozen=True)
class Record:
    """What became of a line with one seed."""

    content: dict[str, Any]
    target: Float[np.ndarray, " task"] | None
    """Target log-likelihood of each test task, in their order; none if training diverged."""

    @property
    def failure(self) -> str | None:
        """Why there is no score, if there is none."""
        return self.content["failure"]

    @property
    def score(self) -> dict[str, Any]:
        """The record of the test."""
        return self.content["score"]

    @property
    def curve(self) -> list[dict[str, Any]]:
        """Validation scores during training."""
        return self.content["curve"]

    def mean(self, metric: str) -> float:
        """The mean over tasks."""
        return self.score["scores"][metric]["mean"]


@dataclasses.dataclass(frozen=True)
class Campaign:
    """Where everything of one budget lies, and what of it is there already.

    Records are kept in `out/BUDGET` and are enough for all tables; runs, in `runs/BUDGET`, may be deleted once they have their
    records, at the price of the figures that show a model at work.
    """

    budget: Budget
    num_seeds: int
    out: Path
    runs: Path
    ceilings: Path

    def __post_init__(self) -> None:
        if self.num_seeds < 1:
            raise InputError(f"--seeds must be at least 1, got {self.num_seeds}")

    @property
    def folder(self) -> Path:
        """Where records, tables and figures of the budget are."""
        return self.out / self.budget.name

    def effort(self, line: Line) -> Effort:
        """What is spent on the line."""
        return self.budget.efforts[line.group]

    def directory(self, run: Run) -> Path:
        """The directory of a run."""
        return self.runs / self.budget.name / run.name

    def obstacle(self, line: Line) -> str | None:
        """What has to be done before the line can be run, if anything."""
        if line.task in SHAPES and load_arrays(store_of(line.task)) is None:
            return f"{line.task} is not prepared: run 'mpnp data {line.task} --from FOLDER'"
        return None

    def trials(self, line: Line) -> dict[float, dict[str, Any] | None]:
        """Outcomes of the learning rates to try, none for those still to be tried."""
        return {trial.recipe.learning_rate: self._read(trial, self._trial_path(trial)) for trial in self._trial_runs(line)}

    def rate(self, line: Line) -> float | None:
        """The rate that is best on validation, or nothing as long as some are still to be tried.

        If all diverged it is the smallest, so that the line gets a run and a record that says what became of it.
        """
        effort = self.effort(line)
        if len(effort.rates) == 1:
            return effort.rates[0]
        outcomes = self.trials(line)
        if any(outcome is None for outcome in outcomes.values()):
            return None
        scores = {rate: outcome["best"] for rate, outcome in outcomes.items() if outcome and outcome["best"] is not None}
        return max(scores, key=lambda rate: scores[rate]) if scores else min(effort.rates)

    def run(self, line: Line, seed: int) -> Run | None:
        """The run behind a line, as soon as its learning rate is known."""
        rate = self.rate(line)
        return None if rate is None else line.run(self.effort(line), seed, rate)

    def record(self, line: Line, seed: int) -> Record | None:
        """The record of a line, if it is there."""
        run = self.run(line, seed)
        if run is None or (content := self._read(run, self._record_path(run, line.tested_on))) is None:
            return None
        if content["failure"] is not None:
            return Record(content, None)
        self._require_test(content["score"]["evaluation"], self._test(line), self._record_path(run, line.tested_on))
        path = self._record_path(run, line.tested_on).with_suffix(".npy")
        try:
            return Record(content, np.load(path, allow_pickle=False))
        except (OSError, ValueError, EOFError) as error:
            raise RunError(f"{path} is missing or damaged ({error}); delete the record beside it to make both again") from None

    def records(self, line: Line) -> list[Record]:
        """Those of all seeds that are there and have a score."""
        found = (self.record(line, seed) for seed in range(self.num_seeds))
        return [record for record in found if record is not None and record.failure is None]

    def trained(self, lines: Sequence[Line]) -> dict[str, Path]:
        """Directories of the runs of seed 0 that are there, by the label of their line: for figures that need the model."""
        runs = {line.label: self.run(line, 0) for line in lines}
        folders = {label: self.directory(run) for label, run in runs.items() if run is not None}
        return {label: folder for label, folder in folders.items() if RunDirectory(folder).best.exists()}

    def missing_trials(self, lines: Iterable[Line]) -> list[Job]:
        """Learning rates still to be tried, each once."""
        runs = {trial: None for line in lines for trial in self._trial_runs(line) if not self._trial_path(trial).exists()}
        return [Job(run, self.directory(run)) for run in runs]

    def missing_runs(self, lines: Sequence[Line]) -> list[Job]:
        """Runs that lack a record, with the tests that they lack; learning rates must have been chosen."""
        tests: dict[Run, list[Test]] = {}
        for seed in range(self.num_seeds):
            for line in lines:
                run = self.run(line, seed)
                if run is not None and not self._record_path(run, line.tested_on).exists():
                    wanted = tests.setdefault(run, [])
                    wanted += [test] if (test := self._test(line)) not in wanted else []
        return [Job(run, self.directory(run), tuple(wanted)) for run, wanted in tests.items()]

    def missing_models(self, lines: Sequence[Line]) -> list[Job]:
        """Runs of seed 0 that have their records but whose directories are gone."""
        there = self.trained(lines)
        gone = [line for line in lines if line.label not in there]
        runs = {self.run(line, 0): None for line in gone if (record := self.record(line, 0)) and record.failure is None}
        return [Job(run, self.directory(run)) for run in runs if run is not None]

    def count_missing(self, lines: Sequence[Line]) -> int:
        """Runs still to be made, trials included, as far as can be said before they are."""
        unknown = {
            (line.model, line.task, line.settings, line.num_tasks, seed)
            for line in lines
            if self.rate(line) is None
            for seed in range(self.num_seeds)
        }
        return len(self.missing_trials(lines)) + len(self.missing_runs(lines)) + len(unknown)

    def keep(self, job: Job, outcome: Outcome) -> None:
        """Write down what became of a job."""
        content = {"budget": self.budget.name, "config": outcome.config, "failure": outcome.failure}
        if not job.tests:
            scores = [row["task"] for row in outcome.curve if row["task"] is not None]
            best = max(scores, default=None) if outcome.failure is None else None
            write_json(self._trial_path(job.run), {"kind": "trial", **content, "best": best, "curve": outcome.curve})
        for test in job.tests:
            path, score = self._record_path(job.run, test.task), outcome.scores.get(test.task)
            if score is not None:
                write_atomically(path.with_suffix(".npy"), lambda file, score=score: np.save(file, score.target))
            record = None if score is None else score.record
            write_json(path, {"kind": "reproduction", **content, "score": record, "curve": outcome.curve})

    def _trial_runs(self, line: Line) -> list[Run]:
        return line.trials(self.effort(line))

    def _test(self, line: Line) -> Test:
        effort = self.effort(line)
        num_tasks = effort.num_test if line.tested_on == line.task else effort.num_elsewhere
        return Test(line.tested_on, num_tasks or effort.num_test, effort.num_samples)

    def _trial_path(self, run: Run) -> Path:
        return self.folder / "trials" / f"{run.name}.json"

    def _record_path(self, run: Run, tested_on: str) -> Path:
        return self.folder / "records" / run.name / f"{tested_on}.json"

    def _read(self, run: Run, path: Path) -> dict[str, Any] | None:
        """A record that exists, if it is of this run and budget."""
        if not path.exists():
            return None
        content = read_json(path)
        if not isinstance(content, dict) or content.get("budget") != self.budget.name or "config" not in content:
            raise RunError(f"{path} is not a record of the budget '{self.budget.name}'; move it away, or choose another --out")
        if not run.agrees_with(content["config"]):
            raise RunError(
                f"{path} was made with another recipe than the budget '{self.budget.name}' has now; choose another --out"
            )
        return content

    def _require_test(self, evaluation: dict[str, Any], test: Test, path: Path) -> None:
        if (evaluation["num_tasks"], evaluation["num_samples"]) != (test.num_tasks, test.num_samples):
            raise RunError(
                f"{path} was tested on {evaluation['num_tasks']} tasks with {evaluation['num_samples']} samples, but the "
                f"budget '{self.budget.name}' wants {test.num_tasks} and {test.num_samples}; choose another --out"
            )
