"""Reference scores: what the best possible predictors reach, for comparison with the models."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mpnp.io.files import read_json
from mpnp.reproduce.campaign import Record

__all__ = ["Ceiling", "find_ceiling", "gap_to", "known_kernel"]

FLOORED = "floored"
"""Scores under the models' own floor on the standard deviation."""


@dataclasses.dataclass(frozen=True)
class Ceiling:
    """Scores of exact inference with a known prior and inferred kernel parameters."""

    scores: dict[str, float]
    num_tasks: int
    exact_on: str
    """The tasks behind the numbers, for captions."""


def known_kernel(records: Sequence[Record]) -> dict[str, float] | None:
    """Scores of the exact posterior with known kernel parameters, on the tasks of these records."""
    oracle: dict[str, Any] = records[0].score["oracle"] if records else {"available": False}
    if not oracle["available"]:
        return None
    return {metric: summary["mean"] for metric, summary in oracle[FLOORED].items()}


def find_ceiling(folder: Path, tested_on: str, records: Sequence[Record]) -> Ceiling | None:
    """The ceiling on the tasks of these records, if `benchmarks/ceilings.py` has written one to the folder.

    Ceilings are computed on the first test tasks. Where the exact posterior has scores on all tasks, only the cost of inferring
    the kernel parameters is taken from the first ones: it varies far less between tasks than either score.
    """
    path = folder / f"{tested_on}.json"
    if not path.exists():
        return None
    content: dict[str, Any] = read_json(path)
    known = known_kernel(records)
    if known is None:
        found = content.get("carried_over", content)
        num_tasks = found.get("num_tasks", content["evaluation"]["num_tasks"])
        inferred = {metric: summary["mean"] for metric, summary in found["inferred"][FLOORED].items()}
        return Ceiling(inferred, num_tasks, f"the first {num_tasks:,} test tasks")
    cost = content["known_minus_inferred"][FLOORED]
    scores = {metric: known[metric] - summary["mean"] for metric, summary in cost.items() if metric in known}
    return Ceiling(scores, records[0].score["evaluation"]["num_tasks"], "all test tasks")


def gap_to(ceiling: Ceiling, records: Sequence[Record]) -> float:
    """Gap of the target log-likelihood below the ceiling, on the tasks behind the ceiling."""
    means = [np.mean(record.target[: ceiling.num_tasks], dtype=np.float64) for record in records if record.target is not None]
    return ceiling.scores["target"] - float(np.mean(means))
