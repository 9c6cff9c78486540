"""The card of a model, as text tables."""

from typing import TYPE_CHECKING, Any

from mpnp.cli.scores import score_table
from mpnp.cli.table import format_number, format_table

if TYPE_CHECKING:
    from mpnp.inference.card import ModelCard

__all__ = ["card_table"]

SPLITS = {"validation": "validation (selected the best step)", "test": "test (held out)"}


def card_table(card: "ModelCard") -> str:
    """What a model reads and predicts, how it was trained, and its scores."""
    about, seen, columns = card.about, card.seen, card.columns
    ranges = ", ".join(
        f"{name} {low:g} to {high:g}" for name, low, high in zip(columns.inputs, seen.low, seen.high, strict=True)
    )
    progress = about["progress"]
    rows = [
        ["model", card.model],
        ["inputs", ", ".join(columns.inputs)],
        ["outputs", ", ".join(columns.outputs)],
        ["trained on", f"{seen.num_tasks:,} tasks, {seen.num_rows:,} rows; {ranges}"],
        ["largest context", f"{seen.largest_context} rows"],
        ["best step", f"{progress['best_step']:,}, after {progress['cpu_seconds']:,.0f} CPU-seconds"],
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
    if about.get("scores"):
        parts.append(score_table(about["scores"]))
    return "\n\n".join(parts)


def _recalibration(card: "ModelCard") -> str:
    """Whether standard deviations are corrected, and what it gains on curves that did not teach the correction."""
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
