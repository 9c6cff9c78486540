"""Campaigns without training: a small budget, and an engine that makes outcomes up."""

import dataclasses

import numpy as np

from helpers.models import SETTINGS
from mpnp.reproduce.budgets import Budget, Effort
from mpnp.reproduce.campaign import Campaign
from mpnp.reproduce.executor import AbstractEngine, run_missing
from mpnp.reproduce.experiments import EXPERIMENTS
from mpnp.reproduce.jobs import Outcome, TestScore
from mpnp.training.config import Recipe

GROUPS = ("pooled", "attentive", "4d", "finite-data", "num-pseudo", "mnist", "svhn", "celeba", "predator-prey")
RECIPE = Recipe(
    steps=2, batch_size=2, num_samples=2, learning_rate=1e-3, validate_every=1, validation_tasks=4, checkpoint_every=1
)
RATES = (1e-3, 2e-3)
MADE_IN = {"commit": "abc", "jax": "0"}
"""What stands for the environment of a job."""


def tiny_budget(rates=(1e-3,), trial_steps=2, tried_on=None) -> Budget:
    effort = Effort(RECIPE, 6, rates, trial_steps, num_samples=2, num_elsewhere=4, tried_on=tried_on)
    return Budget(
        name="tiny",
        about="for tests",
        num_seeds=1,
        efforts=dict.fromkeys(GROUPS, effort),
        finite_sizes=(2, 4, 10),
        num_searches=2,
        num_iterations=2,
        num_studied=6,
        num_resamples=50,
        spread_counts=(10,),
        settings=dataclasses.replace(SETTINGS, num_pseudo=10),  # the default, which labels and names leave out
    )


def campaign_in(folder, *, num_seeds=1, **choices) -> Campaign:
    return Campaign(tiny_budget(**choices), num_seeds, folder / "out", folder / "runs", folder / "ceilings")


def made_up_targets(run, num_tasks: int) -> np.ndarray:
    """Each model has its own mean, each task its own difficulty, each seed its own luck."""
    luck = np.random.default_rng(run.seed).normal(0, 0.01)
    return (np.arange(num_tasks) / 10 + len(run.model) + luck).astype(np.float32)


class MadeUp(AbstractEngine):
    """Remembers the jobs it was given; the larger the rate, the better on validation."""

    data: str | None = None

    def __init__(self, stop_after=None, diverge=()) -> None:
        self.jobs, self.stop_after, self.diverge = [], stop_after, diverge

    def outcomes(self, jobs):
        for job in jobs:
            if len(self.jobs) == self.stop_after:
                raise KeyboardInterrupt
            self.jobs.append(job)
            yield job, self.outcome(job)

    def outcome(self, job) -> Outcome:
        config = {**vars(job.run), "recipe": vars(job.run.recipe), "settings": vars(job.run.settings)}
        rate = job.run.recipe.learning_rate
        curve = [
            {"step": step, "cpu_seconds": 2.0 * step, "context": 0.0, "target": step * rate, "task": step * rate}
            for step in range(job.run.recipe.steps + 1)
        ]
        if rate in self.diverge:
            return Outcome(config, curve, {}, "the loss is not finite", MADE_IN)
        return Outcome(config, curve, {test.task: self.score(job.run, test) for test in job.tests}, None, MADE_IN)

    def score(self, run, test) -> TestScore:
        target = made_up_targets(run, test.num_tasks)
        summaries = {
            metric: {"mean": float(target.mean()) + shift, "standard_error": 0.125, "trimmed_mean": 0.0}
            for metric, shift in (("context", 1.0), ("target", 0.0), ("task", 0.5))
        }
        oracle = {"available": True, "sigma_min": 0.1, "floored": {name: {"mean": 9.0} for name in summaries}}
        record = {
            "model": run.model,
            "parameters": 1234,
            "data": self.data,
            "scores": summaries,
            "oracle": oracle if test.task == "rbf" else {"available": False},
            "evaluation": {"num_tasks": test.num_tasks, "num_samples": test.num_samples},
            "training": {"cpu_seconds": 60.0, "seed": run.seed},
        }
        return TestScore(record, target)


def run(campaign, lines, engine=None):
    """Run what is missing; return the engine, which knows its jobs."""
    engine = engine or MadeUp()
    run_missing(campaign, lines, engine, lambda text: None)
    return engine


def on_rbf(campaign, *models):
    """The rows of the regression table for these models on RBF functions."""
    return [line for line in EXPERIMENTS["regression"].rows(campaign.budget) if line.task == "rbf" and line.model in models]
