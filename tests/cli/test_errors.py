"""No command ends in a traceback: what nobody foresaw is one line too, and `--debug` shows where it came from."""

import os
import subprocess
import sys

import pytest

from helpers.command_line import call
from mpnp.cli import tasks
from mpnp.cli.main import COMMANDS
from mpnp.errors import RunError


def failing(error):
    def fail(_):
        raise error

    return fail


@pytest.mark.parametrize(
    "error", [ValueError("two\nlines"), KeyError("x"), MemoryError(), RecursionError("deep"), OSError(28, "No space left")]
)
def test_an_unforeseen_error_is_one_line_with_a_hint(error, monkeypatch):
    monkeypatch.setattr(tasks, "run", failing(error))
    answer = call("tasks")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith(f"mpnp: error: unforeseen {type(error).__name__}: ") and answer.err.count("\n") == 1
    assert "--debug" in answer.err


@pytest.mark.parametrize("arguments", [("tasks", "--debug"), ("--debug", "tasks")], ids=" ".join)
@pytest.mark.parametrize("error, code", [(ValueError("odd"), 1), (RunError("gone"), 3)], ids=["unforeseen", "foreseen"])
def test_debug_shows_the_traceback_before_the_line(arguments, error, code, monkeypatch):
    monkeypatch.setattr(tasks, "run", failing(error))
    answer = call(*arguments)
    first, *_, last = answer.err.splitlines()
    assert answer.code == code and first.startswith("Traceback") and str(error) in last and "--debug" not in last


def test_a_command_that_cannot_be_imported_is_one_line(monkeypatch):
    monkeypatch.setitem(COMMANDS, "tasks", ("no_such_module", "list nothing"))
    answer = call("tasks")
    assert answer.code == 1 and answer.err.startswith("mpnp: error: unforeseen ModuleNotFoundError")


def test_arguments_with_line_breaks_are_reported_in_one_line():
    assert call("train", "--steps", "1\n2").err.count("\n") == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_output_that_cannot_be_written_is_one_line():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "mpnp", "tasks"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=200
        )
    assert done.returncode == 1
    assert "No space left" in done.stderr and done.stderr.count("\n") == 1


def test_characters_that_the_terminal_lacks_are_escaped():
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-m", "mpnp", "tasks"], capture_output=True, text=True, env=environment, timeout=200)
    assert (done.returncode, done.stderr) == (0, "") and r"Mat\xe9rn" in done.stdout
