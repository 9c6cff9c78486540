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

from mpnp.bayesopt.objectives import OBJECTIVES
from mpnp.bayesopt.strategies import ACQUISITIONS, EXPECTED_IMPROVEMENT
from mpnp.bayesopt.study import Study
from mpnp.cli import bayesopt, commands, image_data, own_data, reproduce
from mpnp.compile_cache import keep_compiled_programs
from mpnp.errors import DivergedError, InputError, MpnpError, RunError
from mpnp.fit_options import FitOptions
from mpnp.models.settings import ModelSettings
from mpnp.options import option_type
from mpnp.recipes import RECIPES, Recipe
from mpnp.reproduce.budgets import BUDGETS
from mpnp.reproduce.engines import ENGINES
from mpnp.tasks.catalogue import STORED_TASKS, TASKS
from mpnp.tasks.sources import FULL_SIZE

__all__ = ["main"]

EXIT_CODES = {InputError: 2, RunError: 3, DivergedError: 4}

EPILOG = """\
start here:
  mpnp train --model mpnp --recipe quick --out runs/demo
  mpnp evaluate runs/demo
  mpnp plot runs/demo --out posterior.png
your own curves:
  mpnp fit data.csv --task-column day --input hour --output temp --out model
  mpnp predict model --context today.csv --at hours.csv --out prediction.csv --plot today.png

exit codes: 0 done, 2 bad arguments or input, 3 a run or checkpoint is missing, damaged or in the way,
4 training diverged, 130 interrupted (progress saved)"""

TRAIN_EPILOG = f"""\
examples:
  mpnp train --model mpanp --task rbf --recipe paper --steps 1000 --seed 0 --out runs/a
  mpnp train --resume runs/a             continue after Ctrl-C, a kill or a crash, bit for bit
  mpnp train --model cnp --num-tasks 51200 --out runs/finite      a fixed training set, reshuffled

A run directory holds config.json, metrics.jsonl (losses and validation scores), timing.jsonl, the last and the best
checkpoint. The recipes are {", ".join(RECIPES)}; any setting below replaces the recipe's or the paper's."""


FIT_EPILOG = """\
example:
  mpnp fit weather.csv --task-column day --input hour --output temp --context prefix --max-minutes 5 --out model

One row is one point of one curve. Tasks are split into training and validation, never points. Units stay yours: inputs
and outputs are normalised inside, and everything printed or predicted is in the units of the table."""

PREDICT_EPILOG = """\
examples:
  mpnp predict model --context today.csv --at hours.csv --out prediction.csv --plot today.png
  mpnp predict model --context mornings.csv --at afternoons.csv --out all.csv     many tasks: both have the task column

Columns written: the task (if there are many), the inputs, mean, std, quantiles (q05, q25, ...), between_std (spread of
the functions that fit the context) and within_std (their own noise)."""


DATA_EPILOG = """\
examples:
  mpnp data mnist --from downloads/mnist        the official files, gzipped or not
  mpnp data mnist --download                    fetch them
  mpnp data images/cats --from photos --size 32 your own pictures; then: mpnp train --task images/cats

Sets are decoded once and kept in the folder that MPNP_DATA names, or in the user's cache."""

COMPLETE_EPILOG = """\
example:
  mpnp complete runs/mpanp-mnist photo.png --keep 10% --out completion.png"""


BAYESOPT_EPILOG = """\
examples:
  mpnp bayesopt forrester --models mpanp-rbf gp random --trials 10
  mpnp bayesopt --models runs/mpanp runs/canp gp random --out results/bayesopt
  mpnp bayesopt --draw-only                     table and figures of the records that are there

A model is the directory of a run or of a fitted model, the name of one that comes with mpnp, gp for a Gaussian process that
learnt its kernel from the rbf tasks, or random for random search. What has a record is not run again."""


REPRODUCE_EPILOG = """\
examples:
  mpnp reproduce                                what there is, and what of it is done
  mpnp reproduce direct --budget minutes        see one table come about
  mpnp reproduce regression size-matched --budget hours --seeds 2
  mpnp reproduce all --budget paper --engine ray
  mpnp reproduce all --draw-only                tables and figures of the records that are there

What has a record is not run again, so the same command continues after a stop. Records, tables (Markdown and LaTeX) and figures
are written to OUT/BUDGET."""


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
        print(f"mpnp: error: {' '.join(str(error).splitlines())}", file=sys.stderr)  # names may hold any character
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
    _add_fit(subparsers)
    _add_predict(subparsers)
    _add_data(subparsers)
    _add_complete(subparsers)
    _add_bayesopt(subparsers)
    _add_reproduce(subparsers)
    info = _add_command(subparsers, "info", own_data.info, "show what a model is, what it was trained on, how well it does")
    info.add_argument(
        "directory", type=Path, metavar="MODEL", help="directory of the model, or the name of one that comes with mpnp"
    )
    info.add_argument("--json", action="store_true", help="print the whole card as JSON")
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
    parser.add_argument(
        "--task", help=f"what to train on: {', '.join(TASKS | STORED_TASKS)}, or package.module:family (default rbf)"
    )
    parser.add_argument("--recipe", help=f"training recipe: {', '.join(RECIPES)} (default short)")
    parser.add_argument("--seed", type=int, help="fixes initial weights, tasks and every draw (default 0)")
    parser.add_argument("--num-tasks", type=int, help="train on this many fixed tasks (default: new ones for ever)")
    parser.add_argument("--start-from", metavar="RUN", help="begin with another run's weights: an mpnp with a cnp's, say")
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


def _add_fit(subparsers: Any) -> None:
    parser = _add_command(
        subparsers, "fit", own_data.fit, "fit a model to your own curves, from a CSV or Parquet file", FIT_EPILOG
    )
    parser.add_argument("data", type=Path, nargs="?", metavar="DATA", help="a table with one row a point")
    parser.add_argument("--task-column", metavar="NAME", help="the column that says which curve a row belongs to")
    parser.add_argument("--input", action="append", metavar="NAME", help="an input column; repeat for more")
    parser.add_argument("--output", action="append", metavar="NAME", help="an output column; repeat for more; empty: unknown")
    parser.add_argument(
        "--group-column", metavar="NAME", help="a column, such as a date, whose curves the split keeps together"
    )
    parser.add_argument("--out", type=Path, help="directory for the fitted model")
    parser.add_argument("--licence", metavar="NAME", help="under which others may use the model; kept in its card")
    parser.add_argument("--resume", type=Path, metavar="MODEL", help="continue an interrupted fit")
    parser.add_argument("--quiet", action="store_true", help="no progress on the terminal")
    _add_fields(parser.add_argument_group("fit"), FitOptions, show_default=True)
    _add_fields(
        parser.add_argument_group("model (defaults: a small version of the paper's)"), ModelSettings, show_default=False
    )


def _add_predict(subparsers: Any) -> None:
    parser = _add_command(
        subparsers, "predict", own_data.predict, "predict with a fitted model, from the rows seen of one task or of many",
        PREDICT_EPILOG,
    )  # fmt: skip
    parser.add_argument(
        "directory", type=Path, metavar="MODEL", help="directory of the model, or the name of one that comes with mpnp"
    )
    parser.add_argument("--context", type=Path, metavar="TABLE", help="rows that were observed (default: none, the prior)")
    parser.add_argument("--at", type=Path, metavar="TABLE", required=True, help="inputs to predict at")
    parser.add_argument("--task", metavar="NAME", help="only this task of tables that hold several")
    parser.add_argument("--out", type=Path, help="CSV file to write (default: print it)")
    parser.add_argument("--plot", type=Path, metavar="PICTURE", help="draw the posterior of the one task to this file")
    parser.add_argument(
        "--quantiles", type=float, nargs="+", metavar="LEVEL", default=[0.05, 0.25, 0.5, 0.75, 0.95],
        help="levels of the quantile columns (default 0.05 0.25 0.5 0.75 0.95)",
    )  # fmt: skip
    parser.add_argument("--num-samples", type=int, default=32, help="functions that stand for the posterior (default 32)")


def _add_data(subparsers: Any) -> None:
    parser = _add_command(subparsers, "data", image_data.data, "prepare a data set on this machine", DATA_EPILOG)
    parser.add_argument(
        "name", metavar="NAME", help="mnist, fashion-mnist, svhn, celeba, lotka-volterra, or images/NAME for your own"
    )
    parser.add_argument(
        "--from", dest="folder", type=Path, metavar="PATH", help="folder of the official files, or of your own pictures"
    )
    parser.add_argument("--download", action="store_true", help="fetch the official files, and check them")
    parser.add_argument("--size", type=int, help="height and width of your own pictures (default 32)")
    parser.add_argument("--channels", type=int, choices=(1, 3), help="of your own: 1 for grey, 3 for colour (default 3)")


def _add_complete(subparsers: Any) -> None:
    parser = _add_command(
        subparsers, "complete", image_data.complete, "complete a picture from some of its pixels", COMPLETE_EPILOG
    )
    parser.add_argument(
        "directory", type=Path, metavar="RUN", help="directory of a run on images, or the name of a model that comes with mpnp"
    )
    parser.add_argument(
        "picture", type=Path, metavar="PICTURE", help="PNG or JPEG; its middle is taken, at the size of the model's images"
    )
    parser.add_argument(
        "--keep", default="10%", metavar="SHARE", help="pixels shown to the model: a share, or a number (default 10%%)"
    )
    parser.add_argument("--out", type=Path, default=Path("completion.png"), help="figure to write (default completion.png)")
    parser.add_argument("--num-samples", type=int, default=10, help="images drawn (default 10)")
    parser.add_argument("--seed", type=int, default=0, help="another number shows other pixels (default 0)")


def _add_bayesopt(subparsers: Any) -> None:
    parser = _add_command(
        subparsers,
        "bayesopt",
        bayesopt.bayesopt,
        "compare models in searches for the minimum of test functions",
        BAYESOPT_EPILOG,
    )
    parser.add_argument(
        "objectives", nargs="*", metavar="OBJECTIVE", help=f"what to minimise: {', '.join(OBJECTIVES)} (default: all)"
    )
    parser.add_argument(
        "--models", nargs="+", metavar="MODEL", help=f"what to search with (default {' '.join(bayesopt.MODELS)})"
    )
    parser.add_argument(
        "--acquisitions",
        nargs="+",
        default=[EXPECTED_IMPROVEMENT],
        metavar="ACQUISITION",
        help=f"how to choose: {', '.join(ACQUISITIONS)} (default {EXPECTED_IMPROVEMENT})",
    )
    fields = {field.name: field for field in dataclasses.fields(Study)}
    for flag, name in (
        ("--trials", "num_trials"), ("--iterations", "num_iterations"), ("--num-samples", "num_samples"), ("--seed", "seed")
    ):  # fmt: skip
        text = f"{fields[name].metadata['help']} (default {fields[name].default})"
        parser.add_argument(flag, dest=name, type=int, metavar="N", help=text)
    parser.add_argument(
        "--out", type=Path, default=Path("results/bayesopt"), help="folder of records and figures (default results/bayesopt)"
    )
    parser.add_argument("--draw-only", action="store_true", help="run nothing, show the records that are there")
    parser.add_argument("--quiet", action="store_true", help="no progress on the terminal")


def _add_reproduce(subparsers: Any) -> None:
    parser = _add_command(
        subparsers, "reproduce", reproduce.reproduce, "make the paper's tables and figures", REPRODUCE_EPILOG
    )  # fmt: skip
    parser.add_argument("names", nargs="*", metavar="NAME", help="tables and figures, or all (default: list them)")
    parser.add_argument("--budget", default="minutes", help=f"how much to spend: {', '.join(BUDGETS)} (default minutes)")
    parser.add_argument("--seeds", type=int, metavar="N", help="training runs of each model (default: the budget's)")
    parser.add_argument("--models", nargs="+", metavar="MODEL", help="run only these of its models")
    parser.add_argument("--tasks", nargs="+", metavar="TASK", help="run only lines trained or tested on these tasks")
    for flag, default, text in (
        ("--out", "results/reproduce", "records, tables and figures"),
        ("--runs", "runs/reproduce", "training runs"),
        ("--ceilings", "results/ceilings", "records of ceilings"),
    ):
        parser.add_argument(flag, type=Path, default=Path(default), help=f"folder of {text} (default {default})")
    parser.add_argument(
        "--engine", default="sequential", help=f"where runs are made: {', '.join(ENGINES)} (default sequential)"
    )
    parser.add_argument("--draw-only", action="store_true", help="run nothing, show the records that are there")
    parser.add_argument("--quiet", action="store_true", help="no progress on the terminal")


def _add_run(parser: Parser) -> None:
    parser.add_argument(
        "directory", type=Path, metavar="RUN", help="directory of the run, or the name of a model that comes with mpnp"
    )
    parser.add_argument("--task", help="task family, if another than the run's")
    parser.add_argument("--num-samples", type=int, help="functions sampled a task (default: the run's)")
    parser.add_argument("--num-pseudo", type=int, help="pseudo context points, if another number than the run's")


def _show_warning(message: Warning | str, *_: Any) -> None:
    print(f"mpnp: warning: {message}", file=sys.stderr)
