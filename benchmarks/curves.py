"""The learning curve of a run: validation scores and what they had cost by then."""

import json
from typing import Any

from mpnp.runs import RunDirectory


def read_curve(run: RunDirectory) -> list[dict[str, Any]]:
    """One row a validation: step, CPU-seconds and scores."""
    seconds = {row["step"]: row["cpu_seconds"] for row in map(json.loads, run.timing.read_text().splitlines())}
    rows = [row for row in map(json.loads, run.metrics.read_text().splitlines()) if "validation" in row]
    return [{"step": row["step"], "cpu_seconds": seconds[row["step"]], **row["validation"]} for row in rows]
