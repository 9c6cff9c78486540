"""The study of what pseudo contexts do in trained models: records, a table and a figure."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from mpnp.errors import RunError
from mpnp.metrics import summarise
from mpnp.pictures import STYLE
from mpnp.records import environment, read_json, write_json
from mpnp.reproduce.campaign import Campaign
from mpnp.reproduce.comparisons import paired_bootstrap
from mpnp.reproduce.figures import save_figures
from mpnp.reproduce.lines import Line
from mpnp.reproduce.pseudo_use import TREATMENTS, score_treatments, spread_of_draws
from mpnp.reproduce.tables import NOT_RUN, Table, save_tables
from mpnp.runs import load_model
from mpnp.tasks.catalogue import find_problem
from mpnp.tasks.sources import TEST_SEED, fixed_tasks

__all__ = ["measure_pseudo_use", "num_pseudo_table", "pseudo_figure", "pseudo_table", "unmeasured"]


def measure_pseudo_use(campaign: Campaign, lines: Sequence[Line]) -> None:
    """Write the record of each trained model that has none yet."""
    for line in unmeasured(campaign, lines):
        for directory in campaign.trained([line]).values():
            write_json(_path(campaign, line), _record(campaign, line, directory))


def unmeasured(campaign: Campaign, lines: Sequence[Line]) -> list[Line]:
    """Lines that have no record yet."""
    return [line for line in lines if not _path(campaign, line).exists()]


def pseudo_table(campaign: Campaign, lines: Sequence[Line]) -> list[Path]:
    """Target scores under each treatment, and what is lost against the model's own pseudo contexts."""
    own = next(iter(TREATMENTS))
    rows = []
    for line, record in _records(campaign, lines).items():
        for name, treatment in record["treatments"].items():
            score, lost = treatment["target"], treatment["minus_own"]
            interval = "" if name == own else f"{lost['low']:+.4f} to {lost['high']:+.4f}"
            difference = "" if name == own else f"{lost['mean']:+.4f}"
            rows.append([line.model, name, f"{score['mean']:.3f} ± {score['standard_error']:.3f}", difference, interval])
    caption = (
        f"What pseudo contexts do, budget '{campaign.budget.name}': target log-likelihood on {campaign.budget.num_studied:,} "
        "test tasks, ± standard error over tasks; differences to a task's own pseudo contexts with 95% paired bootstrap "
        "intervals."
    )
    header = ["model", "read beside the context", "target", "minus own", "95% interval"]
    return save_tables(campaign, "pseudo-use", [Table("pseudo-use", caption, header, rows)]) if rows else []


def num_pseudo_table(campaign: Campaign, lines: Sequence[Line]) -> list[Path]:
    """Models trained with more or fewer pseudo points: validation, which may choose between them, and test."""
    rows = []
    for line in lines:
        cells = [str(line.settings.num_pseudo)]
        if records := campaign.records(line):
            best = [max((row for row in record.curve if row["task"] is not None), key=_task_score) for record in records]
            cells += [f"{np.mean([row[name] for row in best]):.3f}" for name in ("target", "task")]
            cells += [f"{np.mean([record.mean(name) for record in records]):.3f}" for name in ("target", "task")]
            cells.append(f"{np.mean([record.score['training']['cpu_seconds'] for record in records]):,.0f}")
        else:
            cells += [NOT_RUN, *[""] * 4]
        rows.append(cells)
    recipe = campaign.effort(lines[0]).recipe
    caption = (
        f"MPNP trained on RBF with different numbers of pseudo points, budget '{campaign.budget.name}', {recipe.steps:,} "
        f"steps of {recipe.batch_size} tasks: log-likelihoods a point of the best validation, and of the test."
    )
    header = ["pseudo points", "validation target", "validation task", "test target", "test task", "CPU-s"]
    return save_tables(campaign, "num-pseudo", [Table("num-pseudo", caption, header, rows)])


def _task_score(row: dict[str, Any]) -> float:
    return row["task"]


def pseudo_figure(campaign: Campaign, lines: Sequence[Line]) -> list[Path]:
    """Spread of the draws, and the score, against the number of pseudo points."""
    records = _records(campaign, lines)
    if not records:
        return []
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8.5, 3.2), layout="constrained")
        spread_axes, score_axes = figure.subplots(1, 2)
        for line, record in records.items():
            counts, between, target = (
                [row[name] for row in record["spread"]] for name in ("num_pseudo", "between_std", "target")
            )
            spread_axes.plot(counts, between, marker="o", ms=4, label=line.model)
            score_axes.plot(counts, target, marker="o", ms=4, label=line.model)
        for ax, title in ((spread_axes, "spread of the draws at targets"), (score_axes, "target log-likelihood")):
            ax.set(title=title, xlabel="pseudo points at test time", xscale="log")
            ax.axvline(campaign.budget.settings.num_pseudo, color="k", lw=0.8, ls=":", label="in training")
        spread_axes.set(yscale="log")
        spread_axes.legend()
    return save_figures(campaign, {"pseudo-use": figure})


def _record(campaign: Campaign, line: Line, directory: Path) -> dict[str, Any]:
    model, config, _ = load_model(directory)
    source, num_tasks = fixed_tasks(find_problem(line.tested_on).test, TEST_SEED), campaign.budget.num_studied
    num_samples = campaign.effort(line).num_samples
    scores = score_treatments(model, source, num_tasks, num_samples)
    own = scores[next(iter(TREATMENTS))]
    lost = np.stack([(values - own).astype(np.float64) for values in scores.values()], axis=1)
    summary = summarise(scores)
    treatments = {
        name: {"target": summary[name], "minus_own": {"mean": float(column.mean()), "low": low, "high": high}}
        for name, column, (low, high) in zip(scores, lost.T, paired_bootstrap(lost), strict=True)
    }
    return {
        "kind": "pseudo-use",
        "budget": campaign.budget.name,
        "config": config.to_json(),
        "num_tasks": num_tasks,
        "num_samples": num_samples,
        "treatments": treatments,
        "spread": spread_of_draws(model, source, num_tasks, num_samples),
        "environment": environment(),
    }


def _records(campaign: Campaign, lines: Sequence[Line]) -> dict[Line, dict[str, Any]]:
    records = {line: read_json(path) for line in lines if (path := _path(campaign, line)).exists()}
    for line, record in records.items():
        run = campaign.run(line, 0)
        if run is None or not run.agrees_with(record["config"]) or record["num_tasks"] != campaign.budget.num_studied:
            raise RunError(
                f"{_path(campaign, line)} was made with another recipe than the budget '{campaign.budget.name}' has now; "
                "delete it, or choose another --out"
            )
    return records


def _path(campaign: Campaign, line: Line) -> Path:
    return campaign.folder / "pseudo-use" / f"{line.model}-{line.tested_on}.json"
