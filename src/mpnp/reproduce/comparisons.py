"""Differences between models on the same test tasks, with bootstrap intervals over the tasks."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from mpnp.reproduce.campaign import Campaign
from mpnp.reproduce.lines import Line
from mpnp.reproduce.plan import base_of, martingale_of

__all__ = ["Difference", "compare", "paired_bootstrap"]

NUM_RESAMPLES, SEED, LEVEL = 10_000, 0, 0.95


@dataclasses.dataclass(frozen=True)
class Difference:
    """How much the first model is above the second in target log-likelihood."""

    tested_on: str
    first: str
    second: str
    mean: float
    low: float
    high: float
    num_tasks: int
    num_seeds: int


def compare(campaign: Campaign, lines: Sequence[Line]) -> list[Difference]:
    """Every model against the martingale model and the conditional one of its backbone, task by task, seeds averaged."""
    differences = []
    for tested_on in dict.fromkeys(line.tested_on for line in lines):
        scores = {line: _by_task(campaign, line) for line in lines if line.tested_on == tested_on}
        pairs = _pairs([line for line, found in scores.items() if found])
        shared = [sorted(scores[first].keys() & scores[second].keys()) for first, second in pairs]
        kept = [(pair, seeds) for pair, seeds in zip(pairs, shared, strict=True) if seeds]
        if not kept:
            continue
        columns = [
            np.mean([scores[first][seed] - scores[second][seed] for seed in seeds], axis=0) for (first, second), seeds in kept
        ]
        intervals = paired_bootstrap(np.stack(columns, axis=1))
        differences += [
            Difference(tested_on, first.label, second.label, float(column.mean()), *interval, len(column), len(seeds))
            for ((first, second), seeds), column, interval in zip(kept, columns, intervals, strict=True)
        ]
    return differences


def paired_bootstrap(differences: Float[np.ndarray, "task pair"]) -> list[tuple[float, float]]:
    """For each column, the central interval of its mean when the tasks are drawn anew with replacement."""
    rng, num_tasks = np.random.default_rng(SEED), len(differences)
    means = np.empty((NUM_RESAMPLES, differences.shape[1]))
    for number in range(NUM_RESAMPLES):
        # How often each task was drawn: all columns share the draw, and none of them is copied.
        times = np.bincount(rng.integers(num_tasks, size=num_tasks), minlength=num_tasks)
        means[number] = times @ differences / num_tasks
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def _by_task(campaign: Campaign, line: Line) -> Mapping[int, Float[np.ndarray, " task"]]:
    records = {seed: campaign.record(line, seed) for seed in range(campaign.num_seeds)}
    return {
        seed: record.target.astype(np.float64)
        for seed, record in records.items()
        if record is not None and record.target is not None
    }


def _pairs(lines: Sequence[Line]) -> list[tuple[Line, Line]]:
    """The martingale model above each other one of its backbone, then each above the conditional one."""
    named: dict[tuple[str, int | None], Line] = {(line.model, line.num_tasks): line for line in lines}
    pairs = {}
    for line in lines:
        ours, base = (named.get((model(line.model), line.num_tasks)) for model in (martingale_of, base_of))
        if ours is not None and line.model != ours.model:
            pairs[ours, line] = None
        if base is not None and line.model != base.model:
            pairs[line, base] = None
    return list(pairs)
