"""Tables as Markdown and as LaTeX, from the same cells."""

from collections.abc import Sequence

__all__ = ["latex", "markdown"]

LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "&": r"\&",
        "%": r"\%",
        "#": r"\#",
        "_": r"\_",
        "$": r"\$",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        "×": r"$\times$",
        "−": "$-$",
        "≥": r"$\geq$",
        "σ": r"$\sigma$",
        "∞": r"$\infty$",
        "–": "--",
        "—": "---",
        "é": r"\'e",
    }
)
"""Characters that LaTeX reads as something else, or cannot read."""


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose first column is text and whose others are numbers."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def latex(header: Sequence[str], rows: Sequence[Sequence[str]], caption: str, label: str) -> str:
    """A table in the style of the paper's, for a document that loads booktabs and graphicx."""
    lines = [
        r"\begin{table}[t]",
        r"\centering",
        rf"\caption{{{caption.translate(LATEX)}}}",
        rf"\label{{table/{label}}}",
        r"\resizebox{\linewidth}{!}{",
        rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
        r"\toprule",
        _latex_line(header),
        r"\midrule",
    ]
    for number, row in enumerate(rows):
        if number and row[0] != rows[number - 1][0]:
            lines.append(r"\midrule")
        lines.append(_latex_line(row))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}}", r"\end{table}", ""])


def _latex_line(cells: Sequence[str]) -> str:
    return " & ".join(cell.translate(LATEX) for cell in cells) + r" \\"
