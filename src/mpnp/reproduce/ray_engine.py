"""Runs jobs on a Ray cluster. Needs the extra: pip install 'mpnp[ray]'."""

import importlib
from collections.abc import Iterator, Sequence
from typing import Any

from mpnp.errors import InputError
from mpnp.reproduce.executor import AbstractEngine
from mpnp.reproduce.jobs import Job, Outcome, perform

__all__ = ["RayEngine"]


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
        remote = self.ray.remote(num_cpus=1, max_calls=1, max_retries=3)(_perform)
        waiting = {remote.remote(_absolute(job).to_json()): job for job in jobs}
        try:
            while waiting:
                (done,), _ = self.ray.wait(list(waiting), num_returns=1)
                yield waiting.pop(done), Outcome.from_json(self.ray.get(done))
        finally:
            for task in waiting:
                self.ray.cancel(task)


def _absolute(job: Job) -> Job:
    """Workers do not share our working directory."""
    return Job(job.run, job.directory.resolve(), job.tests)


def _perform(job: dict[str, Any]) -> dict[str, Any]:
    return perform(Job.from_json(job)).to_json()
