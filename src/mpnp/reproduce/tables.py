"""The paper's tables with our numbers beside its own, as Markdown and LaTeX, drawn from records alone."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from mpnp.records import write_atomically
from mpnp.reproduce.campaign import Campaign, Record
from mpnp.reproduce.comparisons import Difference, compare
from mpnp.reproduce.limits import find_ceiling, gap_to, known_kernel
from mpnp.reproduce.lines import Line
from mpnp.reproduce.paper import METRICS, PaperRow, paper_row
from mpnp.reproduce.render import latex, markdown

__all__ = ["NOT_RUN", "Table", "TableView", "comparison_table", "rates_table", "save_tables", "score_table", "write_tables"]

NOT_RUN = "not run"
NOT_PREPARED = "not prepared"


@dataclasses.dataclass(frozen=True)
class Table:
    """Cells, and what they mean."""

    label: str
    caption: str
    header: list[str]
    rows: list[list[str]]

    def markdown(self) -> str:
        """With the caption above."""
        return f"{self.caption}\n\n{markdown(self.header, self.rows)}"

    def latex(self) -> str:
        """As a floating table."""
        return latex(self.header, self.rows, self.caption, self.label)


@dataclasses.dataclass(frozen=True)
class TableView:
    """How a table of the paper is shown."""

    name: str
    title: str
    paper_table: str | None = None
    metrics: tuple[str, ...] = METRICS
    differences: bool = True
    """Whether the paper's numbers can be compared with ours: not where its protocol is unknown."""
    remark: str = ""


def write_tables(campaign: Campaign, view: TableView, lines: Sequence[Line]) -> list[Path]:
    """The table, comparisons between its models, and learning rates, in one Markdown and one LaTeX file."""
    tables = [score_table(campaign, view, lines), comparison_table(campaign, view, lines), rates_table(campaign, view, lines)]
    return save_tables(campaign, view.name, tables)


def save_tables(campaign: Campaign, name: str, tables: Sequence[Table]) -> list[Path]:
    """All tables that have rows, in one Markdown and one LaTeX file."""
    paths = []
    for ending, form in (("md", Table.markdown), ("tex", Table.latex)):
        text = "\n".join(form(table) for table in tables if table.rows)
        paths.append(campaign.folder / "tables" / f"{name}.{ending}")
        write_atomically(paths[-1], lambda file, text=text: file.write(text.encode()))
    return paths


def score_table(campaign: Campaign, view: TableView, lines: Sequence[Line]) -> Table:
    """One row a line, and below the lines of each task the best that can be reached there."""
    rows_of_paper = {line: paper_row(view.paper_table or "", line.tested_on, line.model) for line in lines}
    columns = _columns(campaign, view, rows_of_paper)
    rows = []
    for tested_on in dict.fromkeys(line.tested_on for line in lines):
        here = [line for line in lines if line.tested_on == tested_on]
        rows += [
            [_data_cell(line, records), _model_cell(campaign, line), *(column(line, records) for column in columns.values())]
            for line in here
            for records in [campaign.records(line)]
        ]
        rows += _limit_rows(campaign, tested_on, here, list(columns))
    return Table(view.name, _caption(campaign, view, lines), ["tested on", "model", *columns], rows)


Column = Callable[[Line, list[Record]], str]


def _columns(campaign: Campaign, view: TableView, paper: dict[Line, PaperRow | None]) -> dict[str, Column]:
    """What each column shows, by its title."""

    def missing(line: Line) -> str:
        found = [campaign.record(line, seed) for seed in range(campaign.num_seeds)]
        diverged = any(record is not None and record.failure is not None for record in found)
        return NOT_PREPARED if campaign.obstacle(line) else "diverged" if diverged else NOT_RUN

    def ours(metric: str) -> Column:
        return lambda line, records: _with_spread(campaign, records, metric) if records else missing(line)

    def theirs(metric: str) -> Column:
        return lambda line, _: f"{row.scores[metric].mean:.3f} ± {row.scores[metric].std:.3f}" if (row := paper[line]) else ""

    def difference(line: Line, records: list[Record]) -> str:
        if not records or _is_subset(records) or (row := paper[line]) is None:
            return ""
        return f"{_mean(records, 'target') - row.scores['target'].mean:+.3f}"

    def gap(line: Line, records: list[Record]) -> str:
        ceiling = find_ceiling(campaign.ceilings, line.tested_on, records) if records else None
        return f"{gap_to(ceiling, records):.3f}" if ceiling else ""

    columns: dict[str, Column] = {"parameters": lambda _, records: f"{records[0].score['parameters']:,}" if records else ""}
    if any(row is not None and row.parameters for row in paper.values()):
        columns["paper: parameters"] = lambda line, _: f"{row.parameters:,}" if (row := paper[line]) and row.parameters else ""
    columns |= {metric: ours(metric) for metric in view.metrics}
    if any(paper.values()):
        columns |= {f"paper: {metric}": theirs(metric) for metric in view.metrics}
        if view.differences:
            columns["target − paper's"] = difference
    columns["gap to ceiling"] = gap
    columns["CPU-s"] = lambda _, records: f"{np.mean([_cpu_seconds(record) for record in records]):,.0f}" if records else ""
    return columns


def _data_cell(line: Line, records: Sequence[Record]) -> str:
    """The test tasks, and whether they come from less than the official data."""
    return f"{line.tested_on} (subset)" if _is_subset(records) else line.tested_on


def _is_subset(records: Sequence[Record]) -> bool:
    return any((record.score["data"] or "").startswith("subset") for record in records)


def _model_cell(campaign: Campaign, line: Line) -> str:
    """The model, and how many seeds are there if not all or none."""
    found = len(campaign.records(line))
    return line.label if found in (0, campaign.num_seeds) else f"{line.label} ({found} of {campaign.num_seeds} seeds)"


def _limit_rows(campaign: Campaign, tested_on: str, lines: Sequence[Line], columns: Sequence[str]) -> list[list[str]]:
    records = next((found for line in lines if (found := campaign.records(line))), [])
    limits = {"exact GP, kernel known": known_kernel(records)}
    if ceiling := find_ceiling(campaign.ceilings, tested_on, records):
        limits = {f"ceiling: kernel inferred, {ceiling.exact_on}": ceiling.scores} | limits
    return [
        [tested_on, label, *(f"{scores[name]:.3f}" if name in scores else "" for name in columns)]
        for label, scores in limits.items()
        if scores is not None
    ]


def _with_spread(campaign: Campaign, records: Sequence[Record], metric: str) -> str:
    """Mean and standard deviation over seeds; in a campaign of one seed, the standard error over tasks."""
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


def _caption(campaign: Campaign, view: TableView, lines: Sequence[Line]) -> str:
    spread = "the standard deviation over seeds" if campaign.num_seeds > 1 else "the standard error over test tasks"
    seeds = "one seed" if campaign.num_seeds == 1 else f"{campaign.num_seeds} seeds"
    parts = [
        f"{view.title}. Log-likelihoods a point; budget '{campaign.budget.name}', {seeds}, ± is {spread}",
        *(f"{group}: {_describe(campaign, group)}" for group in dict.fromkeys(line.group for line in lines)),
    ]
    if any(find_ceiling(campaign.ceilings, line.tested_on, campaign.records(line)) for line in lines):
        parts.append("the gap is that of the target to the ceiling")
    parts += dict.fromkeys(obstacle for line in lines if (obstacle := campaign.obstacle(line)))
    return "; ".join(parts) + "." + (f" {view.remark}" if view.remark else "")


def _describe(campaign: Campaign, group: str) -> str:
    effort = campaign.budget.efforts[group]
    recipe = effort.recipe
    elsewhere = f" ({effort.num_elsewhere:,} of another kind than those of training)" if effort.num_elsewhere else ""
    return (
        f"{recipe.steps:,} steps of {recipe.batch_size} tasks, {recipe.optimizer}, K = {recipe.num_samples} in training and "
        f"{effort.num_samples} in {effort.num_test:,} test tasks{elsewhere}"
    )


def comparison_table(campaign: Campaign, view: TableView, lines: Sequence[Line]) -> Table:
    """Differences between models with their intervals."""
    caption = (
        f"{view.title}: differences in target log-likelihood on the same test tasks, seeds averaged, with 95% paired bootstrap "
        "intervals over tasks."
    )
    header = ["tested on", "model", "minus", "difference", "95% interval", "tasks", "seeds"]
    return Table(f"{view.name}-comparisons", caption, header, [_cells(difference) for difference in compare(campaign, lines)])


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


def rates_table(campaign: Campaign, view: TableView, lines: Sequence[Line]) -> Table:
    """What every learning rate that was tried reached on validation, and which was taken."""
    trials = {
        (line.tried_on(campaign.effort(line)), dataclasses.replace(line, num_tasks=None).label): line
        for line in lines
        if len(campaign.effort(line).rates) > 1
    }
    rates = sorted({rate for line in trials.values() for rate in campaign.effort(line).rates})
    rows = []
    for (task, label), line in trials.items():
        outcomes, chosen = campaign.trials(line), campaign.rate(line)
        cells = [_trial_cell(outcomes.get(rate)) if rate in outcomes else "" for rate in rates]
        rows.append([task, label, *cells, "" if chosen is None else f"{chosen:.3g}"])
    steps = ", ".join(sorted({f"{campaign.effort(line).trial_steps:,}" for line in trials.values()}))
    caption = f"{view.title}: best validation task log-likelihood of each learning rate tried, over {steps} steps with seed 0."
    return Table(f"{view.name}-rates", caption, ["tried on", "model", *(f"{rate:.3g}" for rate in rates), "taken"], rows)


def _trial_cell(outcome: dict[str, object] | None) -> str:
    if outcome is None:
        return NOT_RUN
    return "diverged" if outcome["best"] is None else f"{outcome['best']:.3f}"
