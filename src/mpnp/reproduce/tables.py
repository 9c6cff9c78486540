"""The paper's tables with our numbers beside its own, in Markdown and LaTeX, made from records alone."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from mpnp.io.files import write_atomically
from mpnp.reproduce.campaign import Campaign, Record
from mpnp.reproduce.paper import METRICS, PaperRow, paper_row
from mpnp.reproduce.reference_scores import find_ceiling, gap_to, known_kernel
from mpnp.reproduce.rows import ExperimentRow
from mpnp.reproduce.statistics import Difference, compare

__all__ = [
    "NOT_RUN",
    "Table",
    "TableView",
    "comparison_table",
    "latex",
    "markdown",
    "rates_table",
    "save_tables",
    "score_table",
    "write_tables",
]

NOT_RUN = "not run"
NOT_PREPARED = "not prepared"


@dataclasses.dataclass(frozen=True)
class Table:
    """A table with its caption and the label of its LaTeX version."""

    label: str
    caption: str
    header: list[str]
    rows: list[list[str]]

    def markdown(self) -> str:
        """Markdown, with the caption above."""
        return f"{self.caption}\n\n{markdown(self.header, self.rows)}"

    def latex(self) -> str:
        """LaTeX, as a floating table."""
        return latex(self.header, self.rows, self.caption, self.label)


@dataclasses.dataclass(frozen=True)
class TableView:
    """How to present a table of the paper."""

    name: str
    title: str
    paper_table: str | None = None
    metrics: tuple[str, ...] = METRICS
    differences: bool = True
    """Whether to show differences to the paper's numbers; False where its protocol is unknown."""
    remark: str = ""


def write_tables(campaign: Campaign, view: TableView, rows: Sequence[ExperimentRow]) -> list[Path]:
    """Write the table, model comparisons and learning rates to one Markdown and one LaTeX file."""
    tables = [score_table(campaign, view, rows), comparison_table(campaign, view, rows), rates_table(campaign, view, rows)]
    return save_tables(campaign, view.name, tables)


def save_tables(campaign: Campaign, name: str, tables: Sequence[Table]) -> list[Path]:
    """Write all non-empty tables to one Markdown and one LaTeX file."""
    paths = []
    for ending, form in (("md", Table.markdown), ("tex", Table.latex)):
        text = "\n".join(form(table) for table in tables if table.rows)
        paths.append(campaign.folder / "tables" / f"{name}.{ending}")
        write_atomically(paths[-1], lambda file, text=text: file.write(text.encode()))
    return paths


def score_table(campaign: Campaign, view: TableView, rows: Sequence[ExperimentRow]) -> Table:
    """One row per experiment row, with reference scores below the rows of each task."""
    rows_of_paper = {row: paper_row(view.paper_table or "", row.tested_on, row.model) for row in rows}
    columns = _columns(campaign, view, rows_of_paper)
    cells = []
    for tested_on in dict.fromkeys(row.tested_on for row in rows):
        here = [row for row in rows if row.tested_on == tested_on]
        cells += [
            [_data_cell(row, records), _model_cell(campaign, row), *(column(row, records) for column in columns.values())]
            for row in here
            for records in [campaign.records(row)]
        ]
        cells += _reference_rows(campaign, tested_on, here, list(columns))
    return Table(view.name, _caption(campaign, view, rows), ["tested on", "model", *columns], cells)


Column = Callable[[ExperimentRow, list[Record]], str]


def _columns(campaign: Campaign, view: TableView, paper: dict[ExperimentRow, PaperRow | None]) -> dict[str, Column]:
    """Functions that format each column's cells, by column title."""

    def missing(row: ExperimentRow) -> str:
        found = [campaign.record(row, seed) for seed in range(campaign.num_seeds)]
        diverged = any(record is not None and record.failure is not None for record in found)
        return NOT_PREPARED if campaign.obstacle(row) else "diverged" if diverged else NOT_RUN

    def ours(metric: str) -> Column:
        return lambda row, records: _with_spread(campaign, records, metric) if records else missing(row)

    def theirs(metric: str) -> Column:
        return lambda row, _: f"{p.scores[metric].mean:.3f} ± {p.scores[metric].std:.3f}" if (p := paper[row]) else ""

    def difference(row: ExperimentRow, records: list[Record]) -> str:
        if not records or _is_subset(records) or (printed := paper[row]) is None:
            return ""
        return f"{_mean(records, 'target') - printed.scores['target'].mean:+.3f}"

    def gap(row: ExperimentRow, records: list[Record]) -> str:
        ceiling = find_ceiling(campaign.ceilings, row.tested_on, records) if records else None
        return f"{gap_to(ceiling, records):.3f}" if ceiling else ""

    columns: dict[str, Column] = {"parameters": lambda _, records: f"{records[0].score['parameters']:,}" if records else ""}
    if any(printed is not None and printed.parameters for printed in paper.values()):
        columns["paper: parameters"] = lambda row, _: f"{p.parameters:,}" if (p := paper[row]) and p.parameters else ""
    columns |= {metric: ours(metric) for metric in view.metrics}
    if any(paper.values()):
        columns |= {f"paper: {metric}": theirs(metric) for metric in view.metrics}
        if view.differences:
            columns["target − paper's"] = difference
    columns["gap to ceiling"] = gap
    columns["CPU-s"] = lambda _, records: f"{np.mean([_cpu_seconds(record) for record in records]):,.0f}" if records else ""
    return columns


def _data_cell(row: ExperimentRow, records: Sequence[Record]) -> str:
    """The test task, marked if it uses only a subset of the official data."""
    return f"{row.tested_on} (subset)" if _is_subset(records) else row.tested_on


def _is_subset(records: Sequence[Record]) -> bool:
    return any((record.score["data"] or "").startswith("subset") for record in records)


def _model_cell(campaign: Campaign, row: ExperimentRow) -> str:
    """The model, and the number of finished seeds if only some are."""
    found = len(campaign.records(row))
    return row.label if found in (0, campaign.num_seeds) else f"{row.label} ({found} of {campaign.num_seeds} seeds)"


def _reference_rows(
    campaign: Campaign, tested_on: str, rows: Sequence[ExperimentRow], columns: Sequence[str]
) -> list[list[str]]:
    records = next((found for row in rows if (found := campaign.records(row))), [])
    references = {"exact GP, kernel known": known_kernel(records)}
    if ceiling := find_ceiling(campaign.ceilings, tested_on, records):
        references = {f"ceiling: kernel inferred, {ceiling.exact_on}": ceiling.scores} | references
    return [
        [tested_on, label, *(f"{scores[name]:.3f}" if name in scores else "" for name in columns)]
        for label, scores in references.items()
        if scores is not None
    ]


def _with_spread(campaign: Campaign, records: Sequence[Record], metric: str) -> str:
    """Mean and standard deviation over seeds; with a single seed, the standard error over tasks."""
    if len(records) > 1:
        spread = float(np.std([record.mean(metric) for record in records], ddof=1))
    elif campaign.num_seeds == 1:
        spread = records[0].score["scores"][metric]["standard_error"]
    else:
        spread = None
    return f"{_mean(records, metric):.3f}" + ("" if spread is None else f" ± {spread:.3f}")


def _mean(records: Sequence[Record], metric: str) -> float:
    return float(np.mean([record.mean(metric) for record in records]))


def _cpu_seconds(record: Record) -> float:
    return record.score["training"]["cpu_seconds"]


def _caption(campaign: Campaign, view: TableView, rows: Sequence[ExperimentRow]) -> str:
    spread = "the standard deviation over seeds" if campaign.num_seeds > 1 else "the standard error over test tasks"
    seeds = "one seed" if campaign.num_seeds == 1 else f"{campaign.num_seeds} seeds"
    parts = [
        f"{view.title}. Log-likelihoods per point; budget '{campaign.budget.name}', {seeds}, ± is {spread}",
        *(f"{group}: {_describe(campaign, group)}" for group in dict.fromkeys(row.group for row in rows)),
    ]
    if any(find_ceiling(campaign.ceilings, row.tested_on, campaign.records(row)) for row in rows):
        parts.append("the gap is from the target log-likelihood to the ceiling")
    parts += dict.fromkeys(obstacle for row in rows if (obstacle := campaign.obstacle(row)))
    return "; ".join(parts) + "." + (f" {view.remark}" if view.remark else "")


def _describe(campaign: Campaign, group: str) -> str:
    effort = campaign.budget.efforts[group]
    recipe = effort.recipe
    elsewhere = f" ({effort.num_elsewhere:,} from another family than the training tasks)" if effort.num_elsewhere else ""
    return (
        f"{recipe.steps:,} steps of {recipe.batch_size} tasks, {recipe.optimizer}, K = {recipe.num_samples} in training and "
        f"{effort.num_samples} in {effort.num_test:,} test tasks{elsewhere}"
    )


def comparison_table(campaign: Campaign, view: TableView, rows: Sequence[ExperimentRow]) -> Table:
    """Differences between models, with intervals."""
    caption = (
        f"{view.title}: differences in target log-likelihood on the same test tasks, seeds averaged, with 95% paired bootstrap "
        "intervals over tasks."
    )
    header = ["tested on", "model", "minus", "difference", "95% interval", "tasks", "seeds"]
    return Table(f"{view.name}-comparisons", caption, header, [_cells(difference) for difference in compare(campaign, rows)])


def _cells(difference: Difference) -> list[str]:
    return [
        difference.tested_on,
        difference.first,
        difference.second,
        f"{difference.mean:+.4f}",
        f"{difference.low:+.4f} to {difference.high:+.4f}",
        f"{difference.num_tasks:,}",
        str(difference.num_seeds),
    ]


def rates_table(campaign: Campaign, view: TableView, rows: Sequence[ExperimentRow]) -> Table:
    """Best validation score of every learning rate tried, and the rate that was chosen."""
    trials = {
        (row.tried_on(campaign.effort(row)), dataclasses.replace(row, num_tasks=None).label): row
        for row in rows
        if len(campaign.effort(row).rates) > 1
    }
    rates = sorted({rate for row in trials.values() for rate in campaign.effort(row).rates})
    cells = []
    for (task, label), row in trials.items():
        outcomes, chosen = campaign.trials(row), campaign.rate(row)
        tried = [_trial_cell(outcomes.get(rate)) if rate in outcomes else "" for rate in rates]
        cells.append([task, label, *tried, "" if chosen is None else f"{chosen:.3g}"])
    steps = ", ".join(sorted({f"{campaign.effort(row).trial_steps:,}" for row in trials.values()}))
    caption = f"{view.title}: best validation task log-likelihood of each learning rate tried, over {steps} steps with seed 0."
    return Table(f"{view.name}-rates", caption, ["tried on", "model", *(f"{rate:.3g}" for rate in rates), "taken"], cells)


def _trial_cell(outcome: dict[str, object] | None) -> str:
    if outcome is None:
        return NOT_RUN
    return "diverged" if outcome["best"] is None else f"{outcome['best']:.3f}"


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
"""LaTeX for characters that are special or unsupported there."""


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table: the first column is left-aligned, all others right-aligned."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def latex(header: Sequence[str], rows: Sequence[Sequence[str]], caption: str, label: str) -> str:
    """A LaTeX table in the paper's style. Needs the packages booktabs and graphicx."""
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
