"""Copy the tables of `results` into the documents that show them.

    python benchmarks/embed.py

A document marks where a table goes and which file it comes from:

    <!-- table results/speed/training.md -->
    <!-- end of table -->
"""

import re
from pathlib import Path

from mpnp.io.files import write_atomically

ROOT = Path(__file__).parents[1]
PLACE = re.compile(r"<!-- table (\S+) -->\n.*?<!-- end of table -->", flags=re.DOTALL)


def main() -> None:
    """Update every document."""
    for document in documents():
        text = embedded(document.read_text())
        if text != document.read_text():
            write_atomically(document, lambda file, text=text: file.write(text.encode()))
            print(f"wrote {document.relative_to(ROOT)}")


def documents() -> list[Path]:
    """Documents that may contain tables."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def embedded(text: str) -> str:
    """The text with up-to-date tables."""

    def table(place: re.Match[str]) -> str:
        content = (ROOT / place[1]).read_text().strip()
        return f"<!-- table {place[1]} -->\n\n{content}\n\n<!-- end of table -->"

    return PLACE.sub(table, text)


if __name__ == "__main__":
    main()
