"""The report of a check: sections with numbers, figures and verdicts, and how they are saved and summarised."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpnp.diagnostics.estimate import Estimate
from mpnp.errors import InputError
from mpnp.io.files import environment, write_atomically, write_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Report", "Section", "Table", "Verdict", "describe_coverage", "join_names", "judge_coverage", "page_path"]

FORMAT = "mpnp-check"

ERRORS = 2
"""A deviation of more than so many standard errors is no longer put down to chance."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What the numbers say, in words, and whether it is good news; None if they are there to compare models by."""

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


@dataclasses.dataclass(frozen=True)
class Report:
    """What a check found. `save` writes it as a page, with the numbers as JSON beside it."""

    title: str
    description: str
    sections: Sequence[Section]
    seed: int

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict of each section, by its name."""
        return {section.name: section.verdict for section in self.sections}

    def __getitem__(self, name: str) -> Section:
        """The section of that name."""
        return next(section for section in self.sections if section.name == name)

    def to_json(self) -> dict[str, Any]:
        """All numbers and verdicts, without the figures."""
        sections = {
            section.name: {"verdict": section.verdict, "good": _good(section), **section.numbers} for section in self.sections
        }
        return {
            "format": FORMAT,
            "model": self.title,
            "tasks": self.description,
            "seed": self.seed,
            "sections": sections,
            "environment": environment(),
        }

    def summary(self) -> dict[str, Any]:
        """What the model's card keeps."""
        return {"tasks": self.description, "seed": self.seed, "verdicts": self.verdicts}

    def save(self, path: str | Path) -> None:
        """Write the page to `path`, an HTML file that needs no other, and the numbers to a JSON file beside it."""
        from mpnp.diagnostics.page import render  # there, because it needs reports itself

        path = page_path(path)
        page = render(self)
        write_atomically(path, lambda file: file.write(page.encode()))
        write_json(path.with_suffix(".json"), self.to_json())


def page_path(path: str | Path) -> Path:
    """The path of a page, which must end in .html."""
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"cannot write a report to '{path}': its name must end in .html")
    return path


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


def _good(section: Section) -> bool | None:
    known = [verdict.good for verdict in section.verdicts if verdict.good is not None]
    return all(known) if known else None
