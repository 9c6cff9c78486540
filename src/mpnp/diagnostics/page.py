"""A report as one HTML file: no scripts, figures inline, readable on a phone."""

import base64
import html
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import matplotlib

from mpnp.diagnostics.sections import Section, Table, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["render"]

MARKS = {True: ("good", "✓"), False: ("bad", "!"), None: ("plain", "·")}
"""Class and sign of a verdict."""

CSS = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 46rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p.read, p.about { color: #555; } p.read { font-size: .9rem; }
ul.verdicts { list-style: none; padding: 0; }
ul.verdicts li { padding: .35rem .6rem .35rem 2rem; margin: .3rem 0; border-radius: 4px; position: relative; }
ul.verdicts li > b { position: absolute; left: .7rem; }
.good { background: #e5f5e0; } .bad { background: #fee6ce; } .plain { background: #f0f0f0; }
img { max-width: 100%; height: auto; } div.table { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; margin: .6rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem; text-align: right; vertical-align: bottom; } td { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
thead th { border-bottom: 1px solid #999; font-weight: 600; } a { color: #08519c; }
"""


def render(name: str, description: str, seed: int, sections: Sequence[Section]) -> str:
    """The page of a model of this name."""
    title = html.escape(f"Check of {name}")
    summary = "".join(
        _verdict(verdict, f'<a href="#{section.name}">{html.escape(section.title)}</a>: ')
        for section in sections
        for verdict in section.verdicts
    )
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{title}</title>\n'
        f"<style>{CSS}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        f'<p class="about">On {html.escape(description)}; seed {seed}. Written by mpnp.</p>\n'
        f'<ul class="verdicts">{summary}</ul>\n' + "".join(map(_section, sections)) + "</body>\n</html>\n"
    )


def _section(section: Section) -> str:
    parts = [
        f'<h2 id="{section.name}">{html.escape(section.title)}</h2>',
        f'<p class="read">{html.escape(section.how_to_read)}</p>',
        f'<ul class="verdicts">{"".join(map(_verdict, section.verdicts))}</ul>',
        *(_figure(figure, section.title) for figure in section.figures),
        *map(_table, section.tables),
    ]
    return "\n".join(parts) + "\n"


def _verdict(verdict: Verdict, prefix: str = "") -> str:
    name, sign = MARKS[verdict.good]
    return f'<li class="{name}"><b>{sign}</b>{prefix}{html.escape(verdict.text)}</li>'


def _table(table: Table) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in table.header)
    rows = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    return f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _figure(figure: "Figure", description: str) -> str:
    """The figure as an image in the page itself. Scalable, and its names cannot clash with those of other figures."""
    file = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "mpnp"}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    data = base64.b64encode(file.getvalue()).decode()
    return f'<img alt="{html.escape(description)}" src="data:image/svg+xml;base64,{data}">'
