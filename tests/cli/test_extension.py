"""A new command is one module and one row of the table."""

import pytest

from helpers.command_line import call
from mpnp.cli.main import COMMANDS

GREET = '''
"""`mpnp greet`: a greeting."""

import argparse

from mpnp.errors import RunError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "example:\\n  mpnp greet world --times 2"
    parser.add_argument("name", metavar="NAME", help="whom to greet")
    parser.add_argument("--times", type=int, default=1, help="how often (default %(default)s)")


def run(args: argparse.Namespace) -> None:
    if args.name == "nobody":
        raise RunError("nobody is there")
    for _ in range(args.times):
        print(f"hello {args.name}")
'''


@pytest.fixture(autouse=True)
def greet(tmp_path, monkeypatch):
    (tmp_path / "greet_command.py").write_text(GREET)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(COMMANDS, "greet", ("greet_command", "greet someone"))


def test_it_runs():
    assert call("greet", "world", "--times", 2) == (0, "hello world\nhello world\n", "")


def test_its_help_is_listed_and_shown():
    assert "greet someone" in call("--help").out
    shown = call("greet", "--help").out
    assert "Greet someone." in shown and "how often (default 1)" in shown and "example:\n  mpnp greet world" in shown


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["greet"], 2, "the following arguments are required: NAME. See 'mpnp greet --help'."),
        (["greet", "x", "--time=2", "--tiems=3"], 2, "unrecognized argument --tiems=3. Did you mean --times?"),
        (["greet", "nobody"], 3, "nobody is there"),
        (["gret", "x"], 2, "unknown command 'gret'. Did you mean 'greet'?"),
    ],
)
def test_its_errors_are_reported_like_all_others(arguments, code, line):
    answer = call(*arguments)
    assert (answer.code, answer.out) == (code, "") and answer.err.startswith(f"mpnp: error: {line}")
