"""A campaign: the runs and records of one budget, on disk."""

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.datasets.prepared import SHAPES, store_of
from mpnp.errors import RunError
from mpnp.io.files import read_json, write_atomically, write_json
from mpnp.io.store import load_arrays
from mpnp.options import require_count
from mpnp.reproduce.budgets import Budget, Effort
from mpnp.reproduce.jobs import Job, Outcome, Test
from mpnp.reproduce.rows import ExperimentRow, Run
from mpnp.training.rundir import RunDirectory

__all__ = ["Campaign", "Record"]


@dataclasses.dataclass(frozen=True)
class Record:
    """Result of one experiment row with one seed."""

    content: dict[str, Any]
    target: Float[np.ndarray, " task"] | None
    """Target log-likelihood of each test task, in order; None if training diverged."""

    @property
    def failure(self) -> str | None:
        """Why training failed; None if it succeeded."""
        return self.content["failure"]

    @property
    def score(self) -> dict[str, Any]:
        """The test record."""
        return self.content["score"]

    @property
    def curve(self) -> list[dict[str, Any]]:
        """Validation scores during training."""
        return self.content["curve"]

    def mean(self, metric: str) -> float:
        """The mean of a metric over test tasks."""
        return self.score["scores"][metric]["mean"]


MOST_SEEDS = 1_000


@dataclasses.dataclass(frozen=True)
class Campaign:
    """The files of one budget: what exists, and what is still missing.

    Records in `out/BUDGET` suffice for all tables. Runs in `runs/BUDGET` may be deleted once they have records, except that
    figures of model predictions need them.
    """

    budget: Budget
    num_seeds: int
    out: Path
    runs: Path
    ceilings: Path

    def __post_init__(self) -> None:
        require_count("--seeds", self.num_seeds, most=MOST_SEEDS)

    @property
    def folder(self) -> Path:
        """Folder of the budget's records, tables and figures."""
        return self.out / self.budget.name

    def effort(self, row: ExperimentRow) -> Effort:
        """The effort that the budget grants the row."""
        return self.budget.efforts[row.group]

    def directory(self, run: Run) -> Path:
        """The directory of a run."""
        return self.runs / self.budget.name / run.name

    def obstacle(self, row: ExperimentRow) -> str | None:
        """What must be done before the row can be run; None if it can be run."""
        if row.task in SHAPES and load_arrays(store_of(row.task)) is None:
            return f"{row.task} is not prepared: run 'mpnp data {row.task} --from FOLDER'"
        return None

    def trials(self, row: ExperimentRow) -> dict[float, dict[str, Any] | None]:
        """Outcome of each learning rate trial; None for those still to be run."""
        return {trial.recipe.learning_rate: self._read(trial, self._trial_path(trial)) for trial in self._trial_runs(row)}

    def rate(self, row: ExperimentRow) -> float | None:
        """The learning rate with the best validation score; None while trials are missing.

        If all trials diverged, it is the smallest rate, so that the row still gets a run and a record of its failure.
        """
        effort = self.effort(row)
        if len(effort.rates) == 1:
            return effort.rates[0]
        outcomes = self.trials(row)
        if any(outcome is None for outcome in outcomes.values()):
            return None
        scores = {rate: outcome["best"] for rate, outcome in outcomes.items() if outcome and outcome["best"] is not None}
        return max(scores, key=lambda rate: scores[rate]) if scores else min(effort.rates)

    def run(self, row: ExperimentRow, seed: int) -> Run | None:
        """The run of a row; None until its learning rate is known."""
        rate = self.rate(row)
        return None if rate is None else row.run(self.effort(row), seed, rate)

    def record(self, row: ExperimentRow, seed: int) -> Record | None:
        """The record of a row; None if it does not exist yet."""
        run = self.run(row, seed)
        if run is None or (content := self._read(run, self._record_path(run, row.tested_on))) is None:
            return None
        if content["failure"] is not None:
            return Record(content, None)
        self._require_test(content["score"]["evaluation"], self._test(row), self._record_path(run, row.tested_on))
        path = self._record_path(run, row.tested_on).with_suffix(".npy")
        try:
            return Record(content, np.load(path, allow_pickle=False))
        except (OSError, ValueError, EOFError) as error:
            raise RunError(f"{path} is missing or damaged ({error}); delete the record beside it, then rerun") from None

    def records(self, row: ExperimentRow) -> list[Record]:
        """The records of all seeds that exist and have a score."""
        found = (self.record(row, seed) for seed in range(self.num_seeds))
        return [record for record in found if record is not None and record.failure is None]

    def trained(self, rows: Sequence[ExperimentRow]) -> dict[str, Path]:
        """Existing run directories of seed 0, by row label. Figures of model predictions need them."""
        runs = {row.label: self.run(row, 0) for row in rows}
        folders = {label: self.directory(run) for label, run in runs.items() if run is not None}
        return {label: folder for label, folder in folders.items() if RunDirectory(folder).best.exists()}

    def missing_trials(self, rows: Iterable[ExperimentRow]) -> list[Job]:
        """Jobs of the missing learning rate trials, without duplicates."""
        runs = {trial: None for row in rows for trial in self._trial_runs(row) if not self._trial_path(trial).exists()}
        return [Job(run, self.directory(run)) for run in runs]

    def missing_runs(self, rows: Sequence[ExperimentRow]) -> list[Job]:
        """Jobs of the runs that lack records, with the missing tests. Learning rates must have been chosen."""
        tests: dict[Run, list[Test]] = {}
        for seed in range(self.num_seeds):
            for row in rows:
                run = self.run(row, seed)
                if run is not None and not self._record_path(run, row.tested_on).exists():
                    wanted = tests.setdefault(run, [])
                    wanted += [test] if (test := self._test(row)) not in wanted else []
        return [Job(run, self.directory(run), tuple(wanted)) for run, wanted in tests.items()]

    def without_runs(self, rows: Sequence[ExperimentRow]) -> list[ExperimentRow]:
        """Rows whose seed 0 has a record but no run directory any more."""
        there = self.trained(rows)
        gone = [row for row in rows if row.label not in there]
        return [row for row in gone if (record := self.record(row, 0)) and record.failure is None]

    def missing_models(self, rows: Sequence[ExperimentRow]) -> list[Job]:
        """Jobs that retrain the runs of seed 0 that have records but no directory any more."""
        runs = {self.run(row, 0): None for row in self.without_runs(rows)}
        return [Job(run, self.directory(run)) for run in runs if run is not None]

    def count_missing(self, rows: Sequence[ExperimentRow]) -> int:
        """Number of missing runs and trials, as far as it is known before learning rates are chosen."""
        unknown = {
            (row.model, row.task, row.settings, row.num_tasks, seed)
            for row in rows
            if self.rate(row) is None
            for seed in range(self.num_seeds)
        }
        return len(self.missing_trials(rows)) + len(self.missing_runs(rows)) + len(unknown)

    def keep(self, job: Job, outcome: Outcome) -> None:
        """Write the records of a finished job."""
        content = {
            "budget": self.budget.name,
            "config": outcome.config,
            "failure": outcome.failure,
            "environment": outcome.performed_in,
        }
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

    def _trial_runs(self, row: ExperimentRow) -> list[Run]:
        return row.trials(self.effort(row))

    def _test(self, row: ExperimentRow) -> Test:
        effort = self.effort(row)
        num_tasks = effort.num_test if row.tested_on == row.task else effort.num_elsewhere
        return Test(row.tested_on, num_tasks or effort.num_test, effort.num_samples)

    def _trial_path(self, run: Run) -> Path:
        return self.folder / "trials" / f"{run.name}.json"

    def _record_path(self, run: Run, tested_on: str) -> Path:
        return self.folder / "records" / run.name / f"{tested_on}.json"

    def _read(self, run: Run, path: Path) -> dict[str, Any] | None:
        """Read a record, if it exists, and check that it belongs to this run and budget."""
        if not path.exists():
            return None
        content = read_json(path)
        if not isinstance(content, dict) or content.get("budget") != self.budget.name or "config" not in content:
            raise RunError(f"{path} is not a record of the budget '{self.budget.name}'; move it, or choose another --out")
        if not run.agrees_with(content["config"]):
            raise RunError(
                f"{path} was made with another recipe than the budget '{self.budget.name}' now has; choose another --out"
            )
        return content

    def _require_test(self, evaluation: dict[str, Any], test: Test, path: Path) -> None:
        if (evaluation["num_tasks"], evaluation["num_samples"]) != (test.num_tasks, test.num_samples):
            raise RunError(
                f"{path} was tested on {evaluation['num_tasks']} tasks with {evaluation['num_samples']} samples, but the "
                f"budget '{self.budget.name}' requires {test.num_tasks} and {test.num_samples}; choose another --out"
            )
