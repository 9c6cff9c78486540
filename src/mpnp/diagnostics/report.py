"""The report of a check: how it is saved and summarised."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mpnp.diagnostics.page import render
from mpnp.diagnostics.sections import Section
from mpnp.errors import InputError
from mpnp.io.files import environment, write_atomically, write_json

__all__ = ["Report", "page_path"]

FORMAT = "mpnp-check"


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
            section.name: {"verdict": section.verdict, "good": section.good, **section.numbers} for section in self.sections
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
        path = page_path(path)
        page = render(self.title, self.description, self.seed, self.sections)
        write_atomically(path, lambda file: file.write(page.encode()))
        write_json(path.with_suffix(".json"), self.to_json())


def page_path(path: str | Path) -> Path:
    """The path of a page, which must end in .html."""
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"cannot write a report to '{path}': its name must end in .html")
    return path
