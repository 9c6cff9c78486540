"""The paper's own numbers: `paper.csv` holds every row of its tables."""

import csv
import dataclasses
import functools
from importlib.resources import files

__all__ = ["METRICS", "PaperRow", "Score", "paper_row", "paper_rows"]

METRICS = ("context", "target", "task")
"""Log-likelihoods in the paper's tables: of context points, of target points, of all points."""


@dataclasses.dataclass(frozen=True)
class Score:
    """Mean and standard deviation over the paper's four seeds."""

    mean: float
    std: float


@dataclasses.dataclass(frozen=True)
class PaperRow:
    """One row of a table in the paper."""

    scores: dict[str, Score]
    parameters: int | None
    """Parameters to the nearest thousand; only one table prints them."""


def paper_row(table: str, tested_on: str, model: str) -> PaperRow | None:
    """The row of a model in one of the paper's tables; None if there is none."""
    return paper_rows().get((table, tested_on, model))


@functools.cache
def paper_rows() -> dict[tuple[str, str, str], PaperRow]:
    """All rows, by table, test task and model."""
    with files("mpnp.reproduce").joinpath("paper.csv").open() as file:
        return {(row["table"], row["tested_on"], row["model"]): _row(row) for row in csv.DictReader(file)}


def _row(cells: dict[str, str]) -> PaperRow:
    scores = {metric: Score(float(cells[metric]), float(cells[f"{metric}_std"])) for metric in METRICS}
    return PaperRow(scores, int(cells["parameters"]) if cells["parameters"] else None)
