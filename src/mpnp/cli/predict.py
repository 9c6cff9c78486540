"""`mpnp predict`: predict with a fitted model from observed rows."""

import argparse
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpnp.cli.fields import file_path
from mpnp.cli.predict_export import is_export, predict_with_export, write_prediction
from mpnp.cli.runs import add_model
from mpnp.errors import InputError
from mpnp.options import NUM_SAMPLES
from mpnp.tables.quantiles import DEFAULT_QUANTILES, require_levels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mpnp.inference.model import FittedModel
    from mpnp.inference.posterior import Posterior
    from mpnp.tables.columns import Schema
    from mpnp.tables.frames import Frame

__all__ = ["add_arguments", "run"]

EPILOG = """\
examples:
  mpnp predict model --context today.csv --at hours.csv --out prediction.csv --plot today.png
  mpnp predict model --context mornings.csv --at afternoons.csv --out all.csv     many tasks: both tables name the task

Columns written: the task (if there are many), the inputs, mean, std, quantiles (q05, q25, ...), between_std (the spread
of the functions that fit the context) and within_std (their own noise). Predictions come from the winner of the model's
leaderboard, which 'mpnp info' shows; --model chooses another. A model fitted with --noise-column predicts the quantity
without that noise, or the measurements if the --at table has the column."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A model, tables to read, and what to write."""
    parser.epilog = EPILOG
    add_model(parser, "MODEL", "the model, or of its export to NumPy or ONNX, which needs no JAX")
    parser.add_argument(
        "--model", default="best", metavar="NAME", dest="forecaster",
        help="which forecaster of the leaderboard predicts: best, network, stack, or a rival (default %(default)s)",
    )  # fmt: skip
    parser.add_argument("--context", type=file_path, metavar="TABLE", help="observed rows (default: none, for the prior)")
    parser.add_argument("--at", type=file_path, metavar="TABLE", required=True, help="inputs to predict at")
    for role in ("input", "output"):
        parser.add_argument(
            f"--{role}", action="append", metavar="NAME",
            help=f"your name of an {role} column, if it is not the model's; repeat it for several",
        )  # fmt: skip
    parser.add_argument("--task", metavar="NAME", help="predict only this task, of tables that hold several")
    parser.add_argument("--out", type=file_path, metavar="FILE", help="CSV file to write (default: print it)")
    parser.add_argument("--plot", type=file_path, metavar="FILE", help="plot the posterior of a single task to this file")
    levels = " ".join(map(str, DEFAULT_QUANTILES))
    parser.add_argument(
        "--quantiles", type=float, nargs="+", metavar="LEVEL", default=DEFAULT_QUANTILES,
        help=f"levels of the quantile columns (default {levels})",
    )  # fmt: skip
    parser.add_argument(
        "--num-samples", type=int, default=NUM_SAMPLES, metavar="N",
        help="functions that represent the posterior (default %(default)s)",
    )  # fmt: skip


def run(args: argparse.Namespace) -> None:
    """Condition on the rows of one table and predict at the inputs of another."""
    if is_export(args.directory):
        predict_with_export(args)
        return
    from mpnp.inference.model import load
    from mpnp.io.compile_cache import keep_compiled_programs

    keep_compiled_programs()
    _check_options(args)
    model = load(args.directory).use(args.forecaster).renamed(args.input, args.output)
    context, at = _read_tables(model.card.columns, args)
    prediction, figure = _predict(model, context, at, args)
    write_prediction(prediction, args.out)
    if figure is not None:
        from mpnp.plotting.style import save_figure

        save_figure(figure, args.plot)
        print(f"wrote {args.plot}")


def _check_options(args: argparse.Namespace) -> None:
    """Reject bad levels and file names before any work is done."""
    require_levels(args.quantiles)
    if args.plot is not None:
        from mpnp.plotting.style import picture_format

        picture_format(args.plot)


def _read_tables(columns: "Schema", args: argparse.Namespace) -> "tuple[Frame, Frame]":
    """Context and inputs, of all tasks or of the one chosen."""
    from mpnp.tables.frames import read_table

    at = read_table(args.at, (columns.task,))
    if not len(at):
        raise InputError(f"{args.at} has no rows; give it one row per input to predict at")
    context = _read_context(columns, args.context)
    if args.task is None:
        return context, at
    return _rows_of(context, columns.task, args.task), _rows_of(at, columns.task, args.task)


def _read_context(columns: "Schema", path: Path | None) -> "Frame":
    """The rows of the context, or an empty table. A file without observations gives the prior, with a warning."""
    import pandas as pd

    from mpnp.inference.ood import MissingContextWarning
    from mpnp.tables.frames import read_table
    from mpnp.tables.rows import read_context

    if path is None:
        return pd.DataFrame(columns=[columns.task, *columns.inputs, *columns.outputs])
    context = read_table(path, (columns.task,))
    if not len(read_context(columns, context, None)[0]):
        message = f"{path} holds no observed row: the prediction rests on the training data alone"
        warnings.warn(message, MissingContextWarning, stacklevel=2)
    return context


def _rows_of(frame: "Frame", column: str, task: str) -> "Frame":
    """The rows of one task; all of them if the table does not name tasks."""
    if column not in frame.columns:
        return frame
    rows = frame[frame[column].astype(str) == task]
    if not len(rows) and len(frame):
        raise InputError(f"no row has '{task}' in the column '{column}'; the first task there is '{frame[column].iloc[0]}'")
    return rows


def _predict(model: "FittedModel", context: "Frame", at: "Frame", args: argparse.Namespace) -> "tuple[Frame, Figure | None]":
    """Predict each task from its own rows if both tables name the task, else one task; and plot it, if requested."""
    column = model.card.columns.task
    many = column in at.columns and column in context.columns
    if not many and column in at.columns and at[column].nunique() > 1:
        raise InputError(
            f"{args.at} holds {at[column].nunique()} tasks, but the context does not say which of them it belongs to; add a "
            f"column '{column}' to it, or choose one task with --task"
        )
    posterior: Any = None if many and args.plot is None else _condition(model, context, args)
    if many:
        prediction = model.predict_tasks(context, at, "full", quantiles=args.quantiles, num_samples=args.num_samples)
    else:
        prediction = posterior.predict(at, "full", quantiles=args.quantiles)
    # Plot before anything is written: for a model of several inputs this is an error.
    return prediction, None if args.plot is None else posterior.figure(title=args.task)


def _condition(model: "FittedModel", context: "Frame", args: argparse.Namespace) -> "Posterior":
    column = model.card.columns.task
    if column in context.columns and context[column].nunique() > 1:
        raise InputError(
            f"the context holds {context[column].nunique()} tasks; choose one with --task, or name the task of each row in a "
            f"column '{column}' of the --at table too (and leave out --plot)"
        )
    return model.condition(context, num_samples=args.num_samples)
