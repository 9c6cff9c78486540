"""What the campaigns of random inputs, kills and mutants found: the table of all records in results/trust.

python benchmarks/campaigns.py         write results/trust/summary.md; then run embed.py
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mpnp.io.files import write_atomically

__all__ = ["summary"]

FOLDER = Path(__file__).parents[1] / "results" / "trust"

SHOWN = 7
"""Characters of a commit."""


def main() -> None:
    """Write the table."""
    text = summary([json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))])
    write_atomically(FOLDER / "summary.md", lambda file: file.write(text.encode()))


def summary(records: Sequence[Any]) -> str:
    """One row per record, and a total of each kind."""
    rows = [f"| {' | '.join(_row(record))} |" for record in records]
    totals = [f"- {line}" for kind, count in TOTALS.items() if (line := count([r for r in records if r["kind"] == kind]))]
    head = ["| campaign | what was tried | failures | commit |", "|---|---|--:|---|"]
    return "\n".join([*head, *rows, "", *totals]) + "\n"


def _row(record: Any) -> tuple[str, str, str, str]:
    tried, failed = TRIED[record["kind"]](record)
    return record["kind"], tried, ", ".join(failed) or "none", f"`{record['environment']['commit'][:SHOWN]}`"


def _fuzz(record: Any) -> tuple[str, list[str]]:
    last = record["first"] + record["cases"] - 1
    doors = sorted({ending.split(".")[0] for ending in record["endings"]})
    answered = sum(count for ending, count in record["endings"].items() if ending.endswith(" answered"))
    tried = f"cases {record['first']:,} to {last:,} ({', '.join(doors)}), {answered:,} of them answered, the others refused"
    return tried, [str(seed) for seed in record["failed"]]


def _chaos(record: Any) -> tuple[str, list[str]]:
    workloads = sorted({case.rpartition("-")[0] for case in record["cases"]})
    return f"{record['kills']} kills in {len(record['cases'])} cases of {', '.join(workloads)}", list(record["failed"])


def _mutants(record: Any) -> tuple[str, list[str]]:
    return f"{len(record['fates'])} mutants", [name for name, fate in record["fates"].items() if fate != "killed"]


TRIED = {"fuzz": _fuzz, "chaos": _chaos, "mutants": _mutants}
"""What a record of each kind says was tried, and what failed."""


def _count_cases(records: Sequence[Any]) -> str:
    failed = sum(len(record["failed"]) for record in records)
    return f"Random inputs: {sum(record['cases'] for record in records):,} cases, {failed} failed."


def _count_kills(records: Sequence[Any]) -> str:
    failed, cases = (sum(len(record[name]) for record in records) for name in ("failed", "cases"))
    return f"Kills: {sum(record['kills'] for record in records)} in {cases} cases, {failed} failed."


def _count_mutants(records: Sequence[Any]) -> str:
    fates = {name: fate for record in records for name, fate in record["fates"].items()}
    return f"Mutants: {list(fates.values()).count('killed')} of {len(fates)} killed."


TOTALS = {"fuzz": _count_cases, "chaos": _count_kills, "mutants": _count_mutants}


if __name__ == "__main__":
    main()
