"""The scores of a model on test tasks, as a table."""

from typing import Any

from mpnp.cli.table import format_number, format_table

__all__ = ["score_table"]

LABELS = {
    "context": "log-likelihood, context",
    "target": "log-likelihood, target",
    "task": "log-likelihood, task",
    "joint": "joint log-likelihood, target",
    "rmse": "RMSE",
    "crps": "CRPS",
}

COVERAGE = "coverage_"
"""Prefix of the names of coverages, which end in the level of the interval."""


def score_table(record: dict[str, Any]) -> str:
    """The record of an evaluation: scores of the model and of its oracles, then how it was trained and tested."""
    columns = {record["model"]: record["scores"]}
    if record["oracle"]["available"]:
        columns[f"oracle, std ≥ {record['oracle']['sigma_min']:g}"] = record["oracle"]["floored"]
        columns["exact oracle"] = record["oracle"]["exact"]
    rows = []
    for metric, label in _labels(record["scores"]).items():
        means = [format_number(scores[metric]["mean"]) if metric in scores else "-" for scores in columns.values()]
        rows.append([label, means[0], format_number(record["scores"][metric]["standard_error"]), *means[1:]])
    if not record["oracle"]["available"]:
        trimmed = record["scores"]["target"]["trimmed_mean"]
        rows.append(["log-likelihood, target, trimmed mean", format_number(trimmed), "-"])
    model, *oracles = columns
    table = format_table([f"per point, on {record['task']}", model, "± s.e.", *oracles], rows)
    return f"{table}\n\n{_footer(record)}"


def _labels(scores: dict[str, Any]) -> dict[str, str]:
    levels = [name.removeprefix(COVERAGE) for name in scores if name.startswith(COVERAGE)]
    return LABELS | {f"{COVERAGE}{level}": f"coverage of the {level}% interval" for level in levels}


def _footer(record: dict[str, Any]) -> str:
    training, evaluation = record["training"], record["evaluation"]
    effort = (
        f"{evaluation['num_tasks']:,} test tasks, K = {evaluation['num_samples']}; trained on {training['task']}, "
        f"{training['best_step']:,} of {training['recipe']['steps']:,} steps of {training['recipe']['batch_size']} "
        f"tasks, {training['cpu_seconds']:,.0f} CPU-seconds, seed {training['seed']}"
    )
    return f"{effort}\ndata: {record['data']}" if record["data"] else effort
