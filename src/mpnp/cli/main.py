"""The `mpnp` command: parsing, help and errors. What the commands do is in `commands`."""

import argparse
import dataclasses
import difflib
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

from mpnp.cli import commands
from mpnp.compile_cache import keep_compiled_programs
from mpnp.errors import DivergedError, InputError, MpnpError, RunError
from mpnp.models.settings import ModelSettings
from mpnp.options import option_type
from mpnp.recipes import RECIPES, Recipe
from mpnp.tasks.catalogue import TASKS
from mpnp.tasks.sources import FULL_SIZE

__all__ = ["main"]

EXIT_CODES = {InputError: 2, RunError: 3, DivergedError: 4}

EPILOG = """\
start here:
  mpnp train --model mpnp --recipe quick --out runs/demo
  mpnp evaluate runs/demo
  mpnp plot runs/demo --out posterior.png

exit codes: 0 done, 2 bad arguments or input, 3 a run or checkpoint is missing, damaged or in the way,
4 training diverged, 130 interrupted (progress saved)"""

TRAIN_EPILOG = f"""\
examples:
  mpnp train --model mpanp --task rbf --recipe paper --steps 1000 --seed 0 --out runs/a
  mpnp train --resume runs/a             continue after Ctrl-C, a kill or a crash, bit for bit
  mpnp train --model cnp --num-tasks 51200 --out runs/finite      a fixed training set, reshuffled

A run directory holds config.json, metrics.jsonl (losses and validation scores), timing.jsonl, the last and the best
checkpoint. The recipes are {", ".join(RECIPES)}; any setting below replaces the recipe's or the paper's."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line that ends in what to do."""

    def error(self, message: str) -> NoReturn:
        """Exit with the message, and the nearest known option if one was misspelt."""
        unknown = [word for word in message.split() if word.startswith("-")] if "unrecognized" in message else []
        close = difflib.get_close_matches(unknown[0], self._option_string_actions, n=1) if unknown else []
        hint = f" Did you mean {close[0]}?" if close else ""
        print(f"mpnp: error: {message}.{hint} See '{self.prog} --help'.", file=sys.stderr)
        raise SystemExit(2)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    warnings.showwarning = _show_warning
    if "" not in sys.path:
        sys.path.append("")  # a task family of the user's own is looked for where they are, as `python -m` would
    options = _parse(arguments)
    keep_compiled_programs()
    try:
        options.run(options)
    except MpnpError as error:
        print(f"mpnp: error: {error}", file=sys.stderr)
        return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), 1)
    except KeyboardInterrupt:
        print("mpnp: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        sys.stderr.close()
        return 0
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(
        prog="mpnp",
        description="Neural processes with martingale posteriors: train, score, see the posterior.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mpnp {version('mpnp')}")
    subparsers = parser.add_subparsers(metavar="command", required=True)
    _add_train(subparsers)
    _add_evaluate(subparsers)
    _add_plot(subparsers)
    for name, run, text in (
        ("models", commands.list_models, "list every model with its number of parameters"),
        ("tasks", commands.list_tasks, "list every task family"),
    ):
        listing = _add_command(subparsers, name, run, text)
        listing.add_argument("--json", action="store_true", help="print JSON for scripts")
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        options.parser.error(f"unrecognized argument {unknown[0]}")
    return options


def _add_command(subparsers: Any, name: str, run: Any, text: str, epilog: str | None = None) -> Parser:
    parser = subparsers.add_parser(
        name, help=text, description=text[0].upper() + text[1:] + ".", epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.set_defaults(run=run, parser=parser)
    return parser


def _add_train(subparsers: Any) -> None:
    parser = _add_command(subparsers, "train", commands.train, "train a model, or continue a run", TRAIN_EPILOG)
    parser.add_argument("--model", help="which model ('mpnp models' lists them)")
    parser.add_argument("--task", help=f"what to train on: {', '.join(TASKS)}, or package.module:family (default rbf)")
    parser.add_argument("--recipe", help=f"training recipe: {', '.join(RECIPES)} (default short)")
    parser.add_argument("--seed", type=int, help="fixes initial weights, tasks and every draw (default 0)")
    parser.add_argument("--num-tasks", type=int, help="train on this many fixed tasks (default: new ones for ever)")
    parser.add_argument("--out", type=Path, help="directory of the run (default runs/MODEL-TASK-SEED)")
    parser.add_argument("--resume", type=Path, metavar="RUN", help="continue the run in this directory")
    parser.add_argument("--quiet", action="store_true", help="no progress on the terminal")
    several = parser.add_argument_group("several processes or hosts that share one run and see one directory")
    several.add_argument("--coordinator", metavar="HOST:PORT", help="where process 0 is to be reached")
    several.add_argument("--num-processes", type=int, help="how many processes there are")
    several.add_argument("--process-id", type=int, help="which of them this is, from 0")
    _add_fields(parser.add_argument_group("recipe (defaults: the recipe's)"), Recipe, show_default=False)
    _add_fields(parser.add_argument_group("model (defaults: the paper's)"), ModelSettings, show_default=True)


def _add_fields(group: Any, kind: type, *, show_default: bool) -> None:
    """One option a field: the dataclass is the list of options, their help and their defaults."""
    for field in dataclasses.fields(kind):
        shown = f" (default {field.default})" if show_default and field.default is not None else ""
        group.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=option_type(field),
            help=field.metadata["help"] + shown,
        )


def _add_evaluate(subparsers: Any) -> None:
    parser = _add_command(subparsers, "evaluate", commands.evaluate, "score a run on fixed test tasks")
    _add_run(parser)
    parser.add_argument(
        "--num-tasks", type=int, default=2_560, help=f"test tasks (default 2560; the paper's full set is {FULL_SIZE})"
    )
    parser.add_argument("--out", type=Path, help="where to write the record (default RUN/scores/TASK.json)")
    parser.add_argument("--json", action="store_true", help="print the record instead of a table")


def _add_plot(subparsers: Any) -> None:
    parser = _add_command(subparsers, "plot", commands.plot, "draw a run's posterior on test functions")
    _add_run(parser)
    parser.add_argument("--out", type=Path, help="picture to write, .png, .pdf or .svg (default RUN/posterior.png)")
    parser.add_argument("--seed", type=int, default=0, help="another number shows other functions (default 0)")


def _add_run(parser: Parser) -> None:
    parser.add_argument("directory", type=Path, metavar="RUN", help="directory of the run")
    parser.add_argument("--task", help="task family, if another than the run's")
    parser.add_argument("--num-samples", type=int, help="functions sampled a task (default: the run's)")
    parser.add_argument("--num-pseudo", type=int, help="pseudo context points, if another number than the run's")


def _show_warning(message: Warning | str, *_: Any) -> None:
    print(f"mpnp: warning: {message}", file=sys.stderr)
