"""The scores of a model on test tasks, as people read them."""

from typing import Any

from mpnp.cli.table import format_number, format_table
from mpnp.metrics import COVERAGE_LEVELS

__all__ = ["score_table"]


def score_table(record: dict[str, Any]) -> str:
    """Model and oracles side by side, then what the numbers mean."""
    columns = {record["model"]: record["scores"]}
    if record["oracle"]["available"]:
        columns[f"oracle, std ≥ {record['oracle']['sigma_min']:g}"] = record["oracle"]["floored"]
        columns["exact oracle"] = record["oracle"]["exact"]
    labels = {
        "context": "log-likelihood, context",
        "target": "log-likelihood, target",
        "task": "log-likelihood, task",
        "joint": "joint log-likelihood, target",
        "rmse": "RMSE",
        "crps": "CRPS",
    } | {f"coverage_{level}": f"coverage of the {level}% interval" for level in COVERAGE_LEVELS}
    rows = []
    for metric, label in labels.items():
        means = [format_number(scores[metric]["mean"]) if metric in scores else "-" for scores in columns.values()]
        rows.append([label, means[0], format_number(record["scores"][metric]["standard_error"]), *means[1:]])
    if not record["oracle"]["available"]:
        trimmed = record["scores"]["target"]["trimmed_mean"]
        rows.append(["log-likelihood, target, trimmed mean", format_number(trimmed), "-"])
    names = list(columns)
    training, evaluation = record["training"], record["evaluation"]
    return "\n".join(
        [
            format_table([f"per point, on {record['task']}", names[0], "± s.e.", *names[1:]], rows),
            "",
            f"{evaluation['num_tasks']:,} test tasks, K = {evaluation['num_samples']}; trained on {training['task']}, "
            f"{training['best_step']:,} of {training['recipe']['steps']:,} steps of {training['recipe']['batch_size']} "
            f"tasks, {training['cpu_seconds']:,.0f} CPU-seconds, seed {training['seed']}",
            *([f"data: {record['data']}"] if record["data"] else []),
        ]
    )
