"""The `mpnp` command: the registry of commands, parsing, error messages and exit codes."""

import argparse
import contextlib
import difflib
import importlib
import io
import os
import re
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, NoReturn

from mpnp.errors import DivergedError, InputError, MpnpError, RunError, first_line, printable, unknown_name

__all__ = ["COMMANDS", "main", "parse"]

COMMANDS: dict[str, tuple[str, str]] = {
    "train": ("mpnp.cli.train", "train a model, or resume a run"),
    "evaluate": ("mpnp.cli.evaluate", "score a run on fixed test tasks"),
    "plot": ("mpnp.cli.plot", "plot the posterior of a run on test functions"),
    "fit": ("mpnp.cli.fit", "fit a model to your own curves in a CSV or Parquet file"),
    "check": ("mpnp.cli.check", "check how honest a model's bands and functions are; write a report"),
    "predict": ("mpnp.cli.predict", "predict one task or many with a fitted model"),
    "explore": ("mpnp.cli.explore", "explore models on a local page, with the mouse"),
    "export": ("mpnp.cli.export", "export a model to NumPy, ONNX or one HTML file"),
    "data": ("mpnp.cli.data", "prepare a data set on this machine"),
    "complete": ("mpnp.cli.complete", "complete an image from some of its pixels"),
    "bayesopt": ("mpnp.cli.bayesopt", "compare models at minimising test functions"),
    "reproduce": ("mpnp.cli.reproduce", "reproduce the paper's tables and figures"),
    "info": ("mpnp.cli.info", "show what a model is, what it was trained on and how well it does"),
    "models": ("mpnp.cli.models", "list every model with its number of parameters"),
    "tasks": ("mpnp.cli.tasks", "list every task family"),
}
"""Module and one-line help by name. Each module defines `add_arguments(parser)` and `run(args)` and is imported on demand."""

EXIT_CODES = {InputError: 2, RunError: 3, DivergedError: 4}

DEBUG = "--debug"

LONGEST_LINE = 300
"""Characters of an unforeseen error that are shown."""

EPILOG = """\
start here:
  mpnp train --model mpnp --recipe quick --out runs/demo
  mpnp evaluate runs/demo
  mpnp plot runs/demo --out posterior.png
your own curves:
  mpnp fit data.csv --task-column day --input hour --output temp --out model
  mpnp predict model --context today.csv --at hours.csv --out prediction.csv --plot today.png
  mpnp check model --data held-out.csv --out report.html

exit codes: 0 success, 1 unforeseen error (--debug shows where), 2 bad arguments or input, 3 a run or checkpoint is missing,
damaged or in the way, 4 training diverged, 130 interrupted (progress is saved)"""


class Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line, with a pointer to the help."""

    def error(self, message: str) -> NoReturn:
        """Exit with the message and a pointer to the help of the command."""
        stop = "" if message.endswith("?") else "."
        _print_error(f"{message}{stop} See '{self.prog} --help'.")
        raise SystemExit(2)

    def reject(self, argument: str) -> NoReturn:
        """Exit because of an unknown argument, and suggest the nearest option."""
        options = re.findall(r"--[\w-]+", self.format_usage())
        close = difflib.get_close_matches(argument.partition("=")[0], options, n=1)
        self.error(f"unrecognized argument {argument}" + (f". Did you mean {close[0]}?" if close else ""))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Errors are one line; with `--debug`, their traceback comes first."""
    warnings.showwarning = _show_warning
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names may hold characters that the terminal lacks
    words = sys.argv[1:] if arguments is None else arguments
    try:
        args = parse(words)
        args.run(args)
        print(end="", flush=True)  # a full disk must be noticed here, not while Python exits
    except KeyboardInterrupt:
        print("mpnp: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # a reader such as `head` closed the pipe
        _give_up_output()
        return 0
    except Exception as error:
        return _report(error, debug=DEBUG in words)
    return 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line; `run` of the result is the function to call with it."""
    parser = Parser(
        prog="mpnp",
        description="Neural processes with martingale posteriors: train them, score them, see their posteriors.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mpnp {version('mpnp')}")
    _add_debug(parser)
    subparsers = parser.add_subparsers(metavar="command", required=True)
    for name, (_, text) in COMMANDS.items():
        sentence = f"{text[0].upper()}{text[1:]}."
        subparsers.add_parser(name, help=text, description=sentence, formatter_class=argparse.RawDescriptionHelpFormatter)
    command = next((word for word in arguments if not word.startswith("-")), None)
    if command is not None:
        _add_arguments(subparsers.choices, command)
    args, unknown = parser.parse_known_args(arguments)
    if unknown:
        args.parser.reject(unknown[0])
    return args


def _add_arguments(parsers: Mapping[str, argparse.ArgumentParser], command: str) -> None:
    """Import a command and add its arguments to its parser."""
    if command not in COMMANDS:
        raise unknown_name("command", command, COMMANDS, "Run 'mpnp --help' to see them all.")
    module, parser = importlib.import_module(COMMANDS[command][0]), parsers[command]
    module.add_arguments(parser)
    _add_debug(parser)
    parser.set_defaults(run=module.run, parser=parser)


def _add_debug(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(DEBUG, action="store_true", help="show the traceback of an error")


def _report(error: Exception, *, debug: bool) -> int:
    """Print an error as one line and return its exit code."""
    if debug:
        traceback.print_exception(error)
    if isinstance(error, MpnpError):
        _print_error(str(error))
        return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), 1)
    _give_up_output()
    hint = "" if debug else f"; rerun with {DEBUG} to see where"
    _print_error(f"unforeseen {type(error).__name__}: {first_line(error)[:LONGEST_LINE]}{hint}")
    return 1


def _print_error(message: str) -> None:
    print(f"mpnp: error: {_one_line(message)}", file=sys.stderr)


def _give_up_output() -> None:
    """If standard output cannot be written, drop what it holds: Python would try again while it exits, and complain."""
    try:
        print(end="", flush=True)
    except OSError:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_warning(message: Warning | str, *_: Any) -> None:
    print(f"mpnp: warning: {_one_line(str(message))}", file=sys.stderr)


def _one_line(message: str) -> str:
    """A message as one line. Names in it may hold any character."""
    return printable(" ".join(message.splitlines()))
