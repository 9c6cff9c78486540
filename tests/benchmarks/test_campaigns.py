"""The table of campaigns counts what the records hold, and the stored one is up to date."""

import json

from campaigns import FOLDER, summary

COMMIT = {"commit": "0123456789"}
FUZZ = {"kind": "fuzz", "first": 3, "cases": 4, "failed": [5], "endings": {"api.seed refused": 2, "tables.text answered": 1}}
CHAOS = {"kind": "chaos", "kills": 7, "cases": ["fit-0", "train-0", "train-1"], "failed": {"train-1": "lost"}}
MUTANTS = {"kind": "mutants", "fates": {"sign": "killed", "scale": "survived"}}


def test_every_record_has_a_row_with_its_failures_and_every_kind_a_total():
    lines = summary([record | {"environment": COMMIT} for record in (CHAOS, FUZZ, MUTANTS)]).splitlines()
    assert lines[2:] == [
        "| chaos | 7 kills in 3 cases of fit, train | train-1 | `0123456` |",
        "| fuzz | cases 3 to 6 (api, tables), 1 of them answered, the others refused | 5 | `0123456` |",
        "| mutants | 2 mutants | scale | `0123456` |",
        "",
        "- Random inputs: 4 cases, 1 failed.",
        "- Kills: 7 in 3 cases, 1 failed.",
        "- Mutants: 1 of 2 killed.",
    ]


def test_the_stored_table_is_that_of_the_records():
    records = [json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))]
    assert (FOLDER / "summary.md").read_text() == summary(records)
