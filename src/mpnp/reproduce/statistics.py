"""Differences between models on the same test tasks, with paired bootstrap intervals."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from mpnp.models.registry import MODELS
from mpnp.reproduce.campaign import Campaign
from mpnp.reproduce.rows import ExperimentRow

__all__ = ["Difference", "compare", "paired_bootstrap"]

SEED, LEVEL = 0, 0.95


@dataclasses.dataclass(frozen=True)
class Difference:
    """Target log-likelihood of the first model minus that of the second, with its interval."""

    tested_on: str
    first: str
    second: str
    mean: float
    low: float
    high: float
    num_tasks: int
    num_seeds: int


def compare(campaign: Campaign, rows: Sequence[ExperimentRow]) -> list[Difference]:
    """Compare every model with its martingale partner and its conditional base, task by task, averaged over seeds."""
    differences = []
    for tested_on in dict.fromkeys(row.tested_on for row in rows):
        scores = {row: _by_task(campaign, row) for row in rows if row.tested_on == tested_on}
        pairs = _pairs([row for row, found in scores.items() if found])
        shared = [sorted(scores[first].keys() & scores[second].keys()) for first, second in pairs]
        kept = [(pair, seeds) for pair, seeds in zip(pairs, shared, strict=True) if seeds]
        if not kept:
            continue
        columns = [
            np.mean([scores[first][seed] - scores[second][seed] for seed in seeds], axis=0) for (first, second), seeds in kept
        ]
        intervals = paired_bootstrap(np.stack(columns, axis=1), campaign.budget.num_resamples)
        differences += [
            Difference(tested_on, first.label, second.label, float(column.mean()), *interval, len(column), len(seeds))
            for ((first, second), seeds), column, interval in zip(kept, columns, intervals, strict=True)
        ]
    return differences


def paired_bootstrap(differences: Float[np.ndarray, "task pair"], num_resamples: int) -> list[tuple[float, float]]:
    """Central bootstrap interval of the mean of each column, resampling tasks with replacement."""
    rng, num_tasks = np.random.default_rng(SEED), len(differences)
    means = np.empty((num_resamples, differences.shape[1]))
    for number in range(num_resamples):
        # Counts per task: all columns share one resample, and nothing is copied.
        times = np.bincount(rng.integers(num_tasks, size=num_tasks), minlength=num_tasks)
        means[number] = times @ differences / num_tasks
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def _by_task(campaign: Campaign, row: ExperimentRow) -> Mapping[int, Float[np.ndarray, " task"]]:
    records = {seed: campaign.record(row, seed) for seed in range(campaign.num_seeds)}
    return {
        seed: record.target.astype(np.float64)
        for seed, record in records.items()
        if record is not None and record.target is not None
    }


def _pairs(rows: Sequence[ExperimentRow]) -> list[tuple[ExperimentRow, ExperimentRow]]:
    """Each martingale model against the others of its backbone, then each model against the conditional one."""
    named: dict[tuple[str, int | None], ExperimentRow] = {(row.model, row.num_tasks): row for row in rows}
    pairs = {}
    for row in rows:
        entry = MODELS[row.model]
        ours, base = (named.get((model, row.num_tasks)) for model in (entry.partner, entry.base))
        if ours is not None and row.model != ours.model:
            pairs[ours, row] = None
        if base is not None and row.model != base.model:
            pairs[row, base] = None
    return list(pairs)
