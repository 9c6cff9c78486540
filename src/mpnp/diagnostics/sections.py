"""The sections of a report: numbers, figures, tables and verdicts in words."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mpnp.diagnostics.estimate import Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Section", "Table", "Verdict", "describe_coverage", "join_names", "judge_coverage"]

ERRORS = 2
"""A deviation of more than so many standard errors is no longer put down to chance."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """A verdict in words, and whether it is good; None if the numbers only serve to compare models."""

    text: str
    good: bool | None


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of text; the first column names the rows."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Section:
    """One question about the model: how to read the answer, a verdict, tables, figures and the numbers behind them."""

    name: str
    title: str
    how_to_read: str
    verdicts: Sequence[Verdict]
    tables: Sequence[Table]
    numbers: dict[str, Any]
    figures: "Sequence[Figure]" = ()

    @property
    def verdict(self) -> str:
        """All verdicts, as one text."""
        return " ".join(verdict.text for verdict in self.verdicts)

    @property
    def good(self) -> bool | None:
        """Whether all verdicts that are good or bad news are good; None if there are none."""
        known = [verdict.good for verdict in self.verdicts if verdict.good is not None]
        return all(known) if known else None


def judge_coverage(what: str, level: int, estimate: Estimate) -> Verdict:
    """A verdict on how often a central interval contains the truth.

    >>> judge_coverage("The 90% band", 90, Estimate(0.842, 0.011)).text
    'The 90% band covers 84.2 ± 1.1%: too narrow.'
    """
    words, good = describe_coverage(level, estimate)
    return Verdict(f"{what} covers {estimate.percent()}: {words}.", good)


def describe_coverage(level: int, estimate: Estimate) -> tuple[str, bool]:
    """Words for a coverage, and whether it is right within its error. `level` is in percent."""
    excess = 100 * estimate.mean - level
    if not abs(excess) > ERRORS * 100 * estimate.standard_error:
        return "right within error", True
    slightly = "slightly " if abs(excess) < 3 else ""
    return slightly + ("too wide" if excess > 0 else "too narrow"), False


def join_names(names: Sequence[str]) -> str:
    """Names as they are listed in a sentence.

    >>> join_names(["maximum", "mean", "argmax"])
    'maximum, mean and argmax'
    """
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)
