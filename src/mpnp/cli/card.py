"""The card of a model, as text tables."""

from typing import TYPE_CHECKING, Any

from mpnp.cli.scores import score_table
from mpnp.cli.table import format_number, format_table
from mpnp.errors import printable
from mpnp.inference.leaderboard import read_leaderboard

if TYPE_CHECKING:
    from mpnp.inference.card import ModelCard
    from mpnp.inference.leaderboard import Leaderboard, Standing

__all__ = ["card_table", "leaderboard_table"]

SPLITS = {"validation": "validation (selected the best step)", "test": "test (held out)"}


def card_table(card: "ModelCard") -> str:
    """What a model reads and predicts, how it was trained, and its scores."""
    about, seen, columns = card.about, card.seen, card.columns
    ranges = ", ".join(
        f"{column.name} {column.encoder.show(low)} to {column.encoder.show(high)}{place}"
        for column, low, high, place in zip(columns.input_columns, seen.low, seen.high, seen.placement.describe(), strict=True)
    )
    rows = [
        ["model", card.model],
        ["inputs", ", ".join(columns.inputs)],
        ["outputs", ", ".join(columns.outputs)],
        *([["weights", columns.weight]] if columns.weight else []),
        *([["known noise", ", ".join(columns.noise)]] if columns.noise else []),
        ["trained on", f"{seen.num_tasks:,} tasks, {seen.num_rows:,} rows; {ranges}"],
        ["largest context", f"{seen.largest_context} rows"],
        ["training", _training(about)],
        *([["candidates", candidates]] if (candidates := _candidates(about.get("candidates"))) else []),
        ["recalibration", _recalibration(card)],
        *_check_rows(about.get("check")),
        ["written by", f"mpnp {about['environment']['mpnp']}"],
        ["licence", card.licence or "not stated"],
    ]
    parts = [format_table(["", ""], rows).strip()]
    for split, title in SPLITS.items():
        if about.get(split):
            header = [title, "log-likelihood", "RMSE", "CRPS", "coverage of the 90% band"]
            parts.append(format_table(header, [_score_row(name, scores) for name, scores in about[split].items()]))
    if (board := read_leaderboard(card)) is not None:
        parts.append(leaderboard_table(board))
    if about.get("scores"):
        parts.append(score_table(about["scores"]))
    return "\n\n".join(parts)


def _training(about: dict[str, Any]) -> str:
    """How long it was trained, and which step is kept."""
    best, steps = about["progress"]["best_step"], about.get("steps_done")
    if steps is None:
        return f"best at step {best:,}, after {about['progress']['cpu_seconds']:,.0f} CPU-seconds"
    planned = about["recipe"]["steps"]
    early = "" if steps == planned else f" of {planned:,} planned, stopped early"
    return (
        f"{steps:,} steps{early}, {about['cpu_seconds']:,.0f} CPU-seconds in all; kept: step {best:,}, the best on validation"
    )


def _candidates(rows: list[dict[str, Any]] | None) -> str:
    """What was compared on validation tasks before one was kept."""
    return ", ".join(f"{row['model']} of step {row['step']:,}: {row['log_likelihood']:.3f}" for row in rows or [])


def leaderboard_table(board: "Leaderboard") -> str:
    """Network, rivals and their stack, best first, and a verdict."""
    header = ["log-likelihood", "behind", "± s.e.", "CRPS", "RMSE", "90% band covers"]
    parts = []
    for split, standings in (("validation", board.validation), ("test", board.test)):
        rows = [[standing.name, *(format_number(value) for value in _numbers(standing))] for standing in standings]
        if rows:
            parts.append(format_table([f"forecaster, {split} tasks", *header], rows))
    parts += [printable(f"not compared: '{name}', because {reason}") for name, reason in board.skipped.items()]
    return "\n\n".join([*parts, printable(board.verdict())])


def _numbers(standing: "Standing") -> tuple[float, ...]:
    score = (standing.log_likelihood, standing.behind, standing.behind_error)
    return (*score, standing.crps, standing.rmse, standing.coverage_90)


def _recalibration(card: "ModelCard") -> str:
    """Whether standard deviations are corrected, and the gain on curves that the correction was not learnt from."""
    report = card.about.get("recalibration")
    kept = "none" if card.calibration is None else f"standard deviations corrected at {len(card.calibration.predicted)} knots"
    if not report:
        return kept
    return f"{kept}; held-out log-likelihood {report['before']:.3f} without, {report['after']:.3f} with it"


def _check_rows(summary: dict[str, Any] | None) -> list[list[str]]:
    """What the last check found about bands and about functions."""
    if not summary:
        return []
    verdicts = summary["verdicts"]
    rows = [["check of bands", verdicts["coverage"]], ["check of functions", verdicts["functionals"]]]
    return [[name, text.partition(". ")[0].rstrip(".")] for name, text in rows]


def _score_row(name: str, scores: dict[str, float | None]) -> list[str]:
    error = scores["squared_error"]
    rmse = None if error is None else error**0.5
    return [name, *(format_number(value) for value in (scores["log_likelihood"], rmse, scores["crps"], scores["coverage_90"]))]
