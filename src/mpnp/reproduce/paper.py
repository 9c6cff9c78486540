"""The paper's own numbers, from the file beside this one, which holds every row of its tables."""

import csv
import dataclasses
import functools
from importlib.resources import files

__all__ = ["METRICS", "PaperRow", "Score", "paper_row", "paper_rows"]

METRICS = ("context", "target", "task")
"""Log-likelihoods of the paper's tables: of the points given, of those to be predicted, of all."""


@dataclasses.dataclass(frozen=True)
class Score:
    """A mean over the paper's four seeds, and their standard deviation."""

    mean: float
    std: float


@dataclasses.dataclass(frozen=True)
class PaperRow:
    """What the paper prints for a model."""

    scores: dict[str, Score]
    parameters: int | None
    """Parameters to the nearest thousand, in the one table that prints them."""


def paper_row(table: str, tested_on: str, model: str) -> PaperRow | None:
    """The paper's row, if it has one."""
    return paper_rows().get((table, tested_on, model))


@functools.cache
def paper_rows() -> dict[tuple[str, str, str], PaperRow]:
    """All rows by table, task they were tested on, and model."""
    with files("mpnp.reproduce").joinpath("paper.csv").open() as file:
        return {(row["table"], row["tested_on"], row["model"]): _row(row) for row in csv.DictReader(file)}


def _row(cells: dict[str, str]) -> PaperRow:
    scores = {metric: Score(float(cells[metric]), float(cells[f"{metric}_std"])) for metric in METRICS}
    return PaperRow(scores, int(cells["parameters"]) if cells["parameters"] else None)
