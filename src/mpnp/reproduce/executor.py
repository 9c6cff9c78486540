"""Engines run jobs, here or on a cluster. All of them yield the same outcomes, as jobs finish."""

import abc
import importlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from mpnp.errors import InputError, unknown_name
from mpnp.reproduce.campaign import Campaign
from mpnp.reproduce.jobs import Job, Outcome, perform
from mpnp.reproduce.rows import ExperimentRow

__all__ = ["AbstractEngine", "ENGINES", "RayEngine", "SequentialEngine", "find_engine", "run_missing", "train_again"]


class AbstractEngine(abc.ABC):
    """Runs independent jobs."""

    @abc.abstractmethod
    def outcomes(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Outcome]]:
        """Run all jobs, in any order, and yield each with its outcome."""


class SequentialEngine(AbstractEngine):
    """Runs jobs one after the other in this process."""

    def outcomes(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Outcome]]:
        for job in jobs:
            yield job, perform(job)
            jax.clear_caches()  # a process can map only so much compiled code, and the next model needs none of it


class RayEngine(AbstractEngine):
    """Runs one job per core on the Ray cluster, or on this machine if there is none.

    Workers write runs and return outcomes; the caller writes records. An interrupted run resumes if the worker can see its
    directory, as on a shared file system.
    """

    def __init__(self) -> None:
        try:
            self.ray: Any = importlib.import_module("ray")
        except ImportError:
            raise InputError("--engine ray needs Ray; install it with: pip install 'mpnp[ray]'") from None
        if not self.ray.is_initialized():
            self.ray.init(log_to_driver=False)

    def outcomes(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Outcome]]:
        # One core per job, because training keeps about one busy; one process per job, because compiled programs pile up.
        remote = self.ray.remote(num_cpus=1, max_calls=1, max_retries=3)(_perform_remotely)
        waiting = {remote.remote(_with_absolute_path(job).to_json()): job for job in jobs}
        try:
            while waiting:
                (done,), _ = self.ray.wait(list(waiting), num_returns=1)
                yield waiting.pop(done), Outcome.from_json(self.ray.get(done))
        finally:
            for task in waiting:
                self.ray.cancel(task)


def _with_absolute_path(job: Job) -> Job:
    """Workers do not share our working directory."""
    return Job(job.run, job.directory.resolve(), job.tests)


def _perform_remotely(job: dict[str, Any]) -> dict[str, Any]:
    return perform(Job.from_json(job)).to_json()


ENGINES: dict[str, Callable[[], AbstractEngine]] = {"sequential": SequentialEngine, "ray": RayEngine}


def find_engine(name: str) -> AbstractEngine:
    """The engine of that name."""
    if name not in ENGINES:
        raise unknown_name("engine", name, ENGINES, f"Choose one of: {', '.join(ENGINES)}.")
    return ENGINES[name]()


Say = Callable[[str], None]


def run_missing(campaign: Campaign, rows: Sequence[ExperimentRow], engine: AbstractEngine, say: Say) -> None:
    """Train and test whatever the rows lack. Completed jobs are skipped, so rerunning resumes."""
    ready = [row for row in rows if campaign.obstacle(row) is None]
    progress = _Progress(campaign.count_missing(ready), say)
    for find_jobs in (campaign.missing_trials, campaign.missing_runs):
        for job, outcome in engine.outcomes(find_jobs(ready)):
            campaign.keep(job, outcome)
            progress.tell(job, outcome)


def train_again(campaign: Campaign, rows: Sequence[ExperimentRow], engine: AbstractEngine, say: Say) -> None:
    """Retrain the models of rows that have records but no run any more, for studies and figures that need the models."""
    jobs = campaign.missing_models(rows)
    progress = _Progress(len(jobs), say)
    for job, outcome in engine.outcomes(jobs):
        progress.tell(job, outcome)


class _Progress:
    """Prints one message per job: its name, its result, and the estimated time left."""

    def __init__(self, total: int, say: Say) -> None:
        self.total, self.say, self.done, self.started = total, say, 0, time.monotonic()

    def tell(self, job: Job, outcome: Outcome) -> None:
        self.done += 1
        self.total = max(self.total, self.done)
        left = (time.monotonic() - self.started) / self.done * (self.total - self.done)
        rest = f"; about {left / 60:.0f} minutes left" if self.done < self.total else ""
        self.say(f"[{self.done} of {self.total}] {job.run.name}: {_describe(job, outcome)}{rest}")


def _describe(job: Job, outcome: Outcome) -> str:
    if outcome.failure is not None:
        return "diverged"
    if not job.tests:
        return f"best validation {max(row['task'] for row in outcome.curve if row['task'] is not None):.3f}"
    return ", ".join(
        f"target {score.record['scores']['target']['mean']:.3f} on {task}" for task, score in outcome.scores.items()
    )
