"""The fuzzer finds nothing in its first cases, and replays a case by its seed."""

import re
import subprocess
import sys

from helpers.documents import ROOT
from mpnp.io.files import read_json


def fuzz(*arguments):
    return subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "fuzz.py", *arguments], capture_output=True, text=True, timeout=200
    )


def test_the_first_cases_of_every_door_pass(tmp_path):
    done = fuzz("--cases", "10", "--out", tmp_path / "record.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.fullmatch(r"10 of 10 cases from seed 0 in [\d.]+ minutes, 0 failed", done.stdout.splitlines()[-1])
    record = read_json(tmp_path / "record.json")
    assert (record["first"], record["cases"], record["failed"]) == (0, 10, []) and sum(record["endings"].values()) == 10


def test_a_campaign_whose_time_is_up_says_where_to_go_on():
    done = fuzz("--cases", "10", "--first", "5", "--minutes", "0")
    assert done.returncode == 0 and "1 of 10 cases from seed 5" in done.stdout and "go on with --first 6" in done.stdout


def test_a_case_is_replayed_by_its_seed():
    first, second = (fuzz("--only", "3") for _ in range(2))
    assert (first.returncode, first.stdout) == (second.returncode, second.stdout) == (0, "commands.files answered\n")
