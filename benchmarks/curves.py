"""Runs of benchmarks: bring one to its end, and read its learning curve."""

import json
from pathlib import Path
from typing import Any

from mpnp import checkpoint
from mpnp.runs import RunConfig, RunDirectory
from mpnp.train import resume, train


def finish(config: RunConfig, directory: Path) -> RunDirectory:
    """The run of this configuration, trained from wherever it is to its end."""
    run = RunDirectory(directory)
    if not run.config_file.exists():
        train(config, directory)
    elif run.config() != config:
        raise SystemExit(f"{directory} holds a run of another recipe; move it away, or name another folder with --runs")
    elif not run.last.exists() or checkpoint.read_card(run.last)["progress"]["step"] < config.recipe.steps:
        resume(directory)
    return run


def read_curve(run: RunDirectory) -> list[dict[str, Any]]:
    """One row a validation: step, CPU-seconds and scores."""
    seconds = {row["step"]: row["cpu_seconds"] for row in map(json.loads, run.timing.read_text().splitlines())}
    rows = [row for row in map(json.loads, run.metrics.read_text().splitlines()) if "validation" in row]
    return [{"step": row["step"], "cpu_seconds": seconds[row["step"]], **row["validation"]} for row in rows]
