"""The fuzzer finds nothing in its first cases, and replays a case by its seed."""

import subprocess
import sys

from helpers.documents import ROOT


def fuzz(*arguments):
    return subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "fuzz.py", *arguments], capture_output=True, text=True, timeout=200
    )


def test_the_first_cases_of_every_door_pass():
    done = fuzz("--cases", "10")
    assert done.returncode == 0 and "10 cases from seed 0, 0 failed" in done.stdout, done.stdout + done.stderr


def test_a_case_is_replayed_by_its_seed():
    first, second = (fuzz("--only", "3") for _ in range(2))
    assert (first.returncode, first.stdout) == (second.returncode, second.stdout) == (0, "commands.files answered\n")
