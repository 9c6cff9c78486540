"""Command lines: one line per complaint, an exit code that says what kind, and never a traceback."""

import contextlib
import io
import os
from pathlib import Path

import numpy as np

from fuzzing.junk import damage, junk_text, require
from fuzzing.place import copy
from mpnp.cli import main

__all__ = ["CASES"]

EVERYTHING = ("model-cnp", "run-cnp", "context.csv", "at.csv", "table.csv", "file")
NAMES = [*EVERYTHING, "cnp-rbf", "nowhere", "file/below", "", ".", "rbf", "mnist", "images/own"]
NUMBERS = ["0", "1", "2", "-1", "1.5", "nan", "1e9", "9" * 400, "9" * 5000, "x", ""]

USUAL = {
    "info": ["model-cnp"],
    "predict": ["model-cnp", "--at", "at.csv", "--context", "context.csv"],
    "fit": [
        "table.csv",
        "--task-column",
        "day",
        "--input",
        "hour",
        "--output",
        "temp",
        "--steps",
        "1",
        "--rivals",
        "mean",
        "--out",
        "file/below",
    ],
    "train": ["--model", "cnp", "--width", "8", "--out", "file/below"],
    "evaluate": ["run-cnp", "--num-tasks", "0"],
    "plot": ["run-cnp", "--out", "nothing.xyz"],
    "complete": ["run-cnp", "context.csv"],
    "data": ["images/own", "--from", "."],
    "bayesopt": ["forrester", "--draw-only", "--out", "."],
    "reproduce": ["direct", "--draw-only", "--out", ".", "--runs", ".", "--ceilings", "."],
    "models": [],
    "tasks": [],
}
"""Arguments of each command that end soon: those that would train cannot write their result."""

FLAGS = {
    "info": ["--json"],
    "predict": ["--context", "--at", "--task", "--quantiles", "--num-samples", "--plot", "--out"],
    "fit": ["--input", "--output", "--task-column", "--group-column", "--context", "--validation", "--max-minutes", "--seed"],
    "train": ["--task", "--seed", "--num-heads", "--sigma-min", "--steps", "--likelihood", "--resume", "--recipe"],
    "evaluate": ["--task", "--num-samples", "--num-pseudo", "--json"],
    "plot": ["--task", "--num-samples", "--seed"],
    "complete": ["--keep", "--num-samples", "--seed", "--out"],
    "data": ["--from", "--size", "--channels", "--download"],
    "bayesopt": ["--models", "--trials", "--seed", "--acquisitions"],
    "reproduce": ["--budget", "--seeds", "--models", "--tasks", "--engine"],
    "models": ["--json"],
    "tasks": ["--json"],
}


def _run(folder: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and complaints of a command in a folder."""
    before, out, err = Path.cwd(), io.StringIO(), io.StringIO()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main(arguments)
            except SystemExit as leave:
                code = leave.code
    finally:
        os.chdir(before)
    return code, err.getvalue()


def _require_orderly(code: int, complaints: str, arguments: list[str]) -> None:
    lines = complaints.splitlines()
    errors = [line for line in lines if line.startswith("mpnp: error: ")]
    orderly = all(line.startswith("mpnp: ") for line in lines) and len(errors) == (code != 0)
    require(code in (0, 2, 3, 4) and orderly, f"mpnp {arguments} exits with {code} and says: {complaints[-2000:]}")


def arguments(rng: np.random.Generator, folder: Path) -> None:
    """The usual arguments of a command, some of them replaced, repeated or left out, with strange options."""
    copy(folder, *EVERYTHING)
    command = list(USUAL)[rng.integers(len(USUAL))]
    words = USUAL[command].copy()
    for _ in range(rng.integers(1, 3)):
        flags = [f for f in FLAGS[command] if f not in ("--download",)]
        strange = [NAMES[rng.integers(len(NAMES))], NUMBERS[rng.integers(len(NUMBERS))], junk_text(rng).replace("\0", "")]
        words += [flags[rng.integers(len(flags))], strange[rng.integers(3)]][: rng.integers(1, 3)]
    if rng.random() < 0.1:
        words.insert(0, junk_text(rng).replace("\0", ""))
    words.insert(0, command)
    _require_orderly(*_run(folder, *words), words)


def files(rng: np.random.Generator, folder: Path) -> None:
    """The usual arguments, but one of the files is damaged."""
    copy(folder, *EVERYTHING)
    command = ("info", "predict", "fit", "evaluate", "plot", "complete")[rng.integers(6)]
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
    path = paths[rng.integers(len(paths))]
    path.write_bytes(damage(rng, path.read_bytes()))
    words = [command, *USUAL[command]]
    _require_orderly(*_run(folder, *words), words)


CASES = (arguments, arguments, files)
