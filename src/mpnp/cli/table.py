"""Plain-text tables for the terminal."""

from collections.abc import Sequence

__all__ = ["format_number", "format_table"]


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns wide enough for their content: the first flush left, those that hold numbers flush right."""
    widths = [max(len(cell) for cell in column) for column in zip(header, *rows, strict=True)]
    numeric = [all(_is_number(cell) for cell in column) for column in zip(*rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if right else cell.ljust(width) for cell, width, right in zip(cells, widths, numeric, strict=True)
        )
        return "  ".join(padded).rstrip()

    return "\n".join([line(header), "  ".join("-" * width for width in widths), *map(line, rows)])


def format_number(value: float | None, digits: int = 3) -> str:
    """A number for a table, or a dash where there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", "").replace("%", ""))
    except ValueError:
        return cell == "-"
    return True
