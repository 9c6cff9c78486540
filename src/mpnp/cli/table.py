"""Plain-text tables for the terminal."""

import json
from collections.abc import Sequence
from typing import Any

from mpnp.errors import printable

__all__ = ["format_number", "format_table", "print_listing"]


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their content; columns of numbers are flush right, all others flush left."""
    header, *rows = ([printable(cell) for cell in cells] for cells in (header, *rows))
    widths = [max(len(cell) for cell in column) for column in zip(header, *rows, strict=True)]
    numeric = [all(_is_number(cell) for cell in column) for column in zip(*rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if right else cell.ljust(width) for cell, width, right in zip(cells, widths, numeric, strict=True)
        )
        return "  ".join(padded).rstrip()

    return "\n".join([line(header), "  ".join("-" * width for width in widths), *map(line, rows)])


def format_number(value: float | None, digits: int = 3) -> str:
    """A number for a table, or a dash if there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


def print_listing(rows: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    """Print rows that share their keys, as a table or as JSON."""
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    cells = [[f"{value:,}" if isinstance(value, int) else value for value in row.values()] for row in rows]
    print(format_table(list(rows[0]), cells))


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", "").replace("%", ""))
    except ValueError:
        return cell == "-"
    return True
