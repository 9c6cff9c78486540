"""Make the records that are missing: first trials of learning rates, then the runs that they decide."""

import time
from collections.abc import Callable, Sequence

from mpnp.reproduce.campaign import Campaign
from mpnp.reproduce.engines import AbstractEngine
from mpnp.reproduce.jobs import Job, Outcome
from mpnp.reproduce.lines import Line

__all__ = ["run_missing", "train_again"]

Say = Callable[[str], None]


def run_missing(campaign: Campaign, lines: Sequence[Line], engine: AbstractEngine, say: Say) -> None:
    """Train and test whatever the lines lack. Every job that is done is kept, so the same call continues after a stop."""
    ready = [line for line in lines if campaign.obstacle(line) is None]
    progress = _Progress(campaign.count_missing(ready), say)
    for find_jobs in (campaign.missing_trials, campaign.missing_runs):
        for job, outcome in engine.outcomes(find_jobs(ready)):
            campaign.keep(job, outcome)
            progress.tell(job, outcome)


def train_again(campaign: Campaign, lines: Sequence[Line], engine: AbstractEngine, say: Say) -> None:
    """Train the models of these lines that have records but no run any more: something is to be made with the models."""
    jobs = campaign.missing_models(lines)
    progress = _Progress(len(jobs), say)
    for job, outcome in engine.outcomes(jobs):
        progress.tell(job, outcome)


class _Progress:
    """One line a job: which it was, how it went, how long the rest may take."""

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
