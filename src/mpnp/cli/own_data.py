"""The commands for a user's own data: fit a model to a table, predict with it, look at its card."""

import argparse
import dataclasses
import json
import warnings
from pathlib import Path
from typing import Any

from mpnp.cli.commands import given
from mpnp.cli.scores import score_table
from mpnp.cli.table import format_number, format_table
from mpnp.data.curves import Columns
from mpnp.errors import InputError, RunError, first_line
from mpnp.fit_options import FitOptions
from mpnp.models.settings import ModelSettings
from mpnp.records import write_atomically

__all__ = ["fit", "info", "predict"]


def fit(options: argparse.Namespace) -> None:
    """Fit a model to a table of curves, or continue a fit."""
    from mpnp.data.frames import curves_from_frame, read_table  # here, because pandas takes half a second to import
    from mpnp.fitting import SETTINGS, fit_curves, has_unfinished_fit, resume_fit

    if options.resume is not None:
        model, out = resume_fit(options.resume, quiet=options.quiet), options.resume
    else:
        if options.data is None or not options.input or not options.output or options.task_column is None:
            raise InputError("which columns? Pass DATA --task-column NAME --input NAME --output NAME, or --resume MODEL")
        if options.out is None:
            raise InputError("where to? Pass --out DIRECTORY for the fitted model")
        out = options.out
        columns = Columns(tuple(options.input), tuple(options.output), options.task_column, options.group_column)
        curves = curves_from_frame(read_table(options.data), columns)
        choices = FitOptions(**given(options, FitOptions))
        settings = dataclasses.replace(SETTINGS, **given(options, ModelSettings))
        print(f"{len(curves):,} tasks, {len(curves.x):,} rows, {min(curves.counts)} to {max(curves.counts)} rows a task")
        try:
            model = fit_curves(curves, choices, settings=settings, out=out, quiet=options.quiet)
        except KeyboardInterrupt:
            if has_unfinished_fit(out):
                print(f"continue with: mpnp fit --resume {out}")
            raise
    if options.licence is not None:
        model.save(out, licence=options.licence)
    print(_card_table(model.card))
    print(f"model: {out}; predict with: mpnp predict {out} --context ROWS.csv --at INPUTS.csv --out prediction.csv")


def predict(options: argparse.Namespace) -> None:
    """Condition on the rows of one file and predict at the inputs of another, task by task if both have the task column."""
    from mpnp.data.frames import read_table  # here, because pandas takes half a second to import
    from mpnp.fitted import load
    from mpnp.prediction import require_levels

    require_levels(options.quantiles)
    if options.plot is not None:
        from mpnp.pictures import picture_format

        picture_format(options.plot)  # a name that cannot be written is refused before the work, not after
    model = load(options.directory)
    at = read_table(options.at)
    if not len(at):
        raise InputError(f"{options.at} has no rows; give the inputs to predict at, one row a point")
    column = model.card.columns.task
    context = _context(model.card.columns, options.context)
    if options.task is not None:
        context, at = (_of_task(frame, column, options.task) for frame in (context, at))
    questions = {"quantiles": options.quantiles, "num_samples": options.num_samples}
    many = column in at.columns and column in context.columns
    if not many and column in at.columns and at[column].nunique() > 1:
        raise InputError(
            f"{options.at} asks about {at[column].nunique()} tasks, but the context does not say which of them it is of; name "
            f"it in a column '{column}', or choose one with --task"
        )
    posterior = None if many and options.plot is None else _one_posterior(model, context, column, options)
    if posterior is None or many:
        prediction = model.predict_tasks(context, at, "full", **questions)
    else:
        prediction = posterior.predict(at, "full", quantiles=options.quantiles)
    picture = None
    if options.plot is not None and posterior is not None:  # drawn before anything is written: it may be refused
        from mpnp.posterior_plot import posterior_figure

        picture = posterior_figure(posterior, title=options.task), options.plot
    text = prediction.to_csv(index=False)
    if options.out is None:
        print(text, end="")
    else:
        write_atomically(options.out, lambda file: file.write(text.encode()))
        print(f"wrote {options.out}: {len(prediction):,} rows")
    if picture is not None:
        from mpnp.pictures import save_figure

        save_figure(*picture)
        print(f"wrote {options.plot}")


def _context(columns: Columns, path: Path | None) -> Any:
    """The rows of the context's file, or none. A file that shows nothing is warned of: its answer is the prior's."""
    import pandas as pd

    from mpnp.data.frames import read_table
    from mpnp.data.questions import read_context
    from mpnp.fitted import MissingContextWarning

    if path is None:
        return pd.DataFrame(columns=[columns.task, *columns.inputs, *columns.outputs])
    context = read_table(path)
    if not len(read_context(columns, context, None)[0]):
        warnings.warn(
            f"{path} holds no observed row: the answer is from the training data alone", MissingContextWarning, stacklevel=2
        )
    return context


def _of_task(frame: Any, column: str, task: str) -> Any:
    """The rows of one task, or all of a table that holds but one and does not name it."""
    if column not in frame.columns:
        return frame
    rows = frame[frame[column].astype(str) == task]
    if not len(rows) and len(frame):
        raise InputError(f"no row has '{task}' in the column '{column}'; the first task there is '{frame[column].iloc[0]}'")
    return rows


def _one_posterior(model: Any, context: Any, column: str, options: argparse.Namespace) -> Any:
    if column in context.columns and context[column].nunique() > 1:
        raise InputError(
            f"the context holds {context[column].nunique()} tasks; choose one with --task, or name the task in the column "
            f"'{column}' of the file of --at as well (and leave out --plot)"
        )
    return model.condition(context, num_samples=options.num_samples)


def info(options: argparse.Namespace) -> None:
    """Show a model's card."""
    from mpnp.fitted import load

    card = load(options.directory).card
    if options.json:
        print(json.dumps(card.to_json(), indent=2))
        return
    try:
        print(_card_table(card))
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # what is there for people alone is not checked before
        raise RunError(
            f"the card of {options.directory} is damaged or incomplete ({first_line(error)}); restore it from a copy"
        ) from None


def _card_table(card: Any) -> str:
    """A card as people read it."""
    about, seen, columns = card.about, card.seen, card.columns
    ranges = ", ".join(
        f"{name} {low:g} to {high:g}" for name, low, high in zip(columns.inputs, seen.low, seen.high, strict=True)
    )
    progress = about["progress"]
    rows = [
        ["model", card.model],
        ["inputs", ", ".join(columns.inputs)],
        ["outputs", ", ".join(columns.outputs)],
        ["trained on", f"{seen.num_tasks:,} tasks, {seen.num_rows:,} rows; {ranges}"],
        ["largest context", f"{seen.largest_context} rows"],
        ["best step", f"{progress['best_step']:,}, after {progress['cpu_seconds']:,.0f} CPU-seconds"],
        ["written by", f"mpnp {about['environment']['mpnp']}"],
        ["licence", card.licence or "not stated"],
    ]
    lines = [format_table(["", ""], rows).strip()]
    for part, title in (("validation", "validation (chose the best step)"), ("test", "test (kept aside)")):
        if about.get(part):
            header = [title, "log-likelihood", "RMSE", "CRPS", "inside the 90% band"]
            lines += ["", format_table(header, [_score_row(name, scores) for name, scores in about[part].items()])]
    if about.get("scores"):
        lines += ["", score_table(about["scores"])]
    return "\n".join(lines)


def _score_row(name: str, scores: dict[str, float | None]) -> list[str]:
    error = scores["squared_error"]
    rmse = None if error is None else error**0.5
    return [name, *(format_number(value) for value in (scores["log_likelihood"], rmse, scores["crps"], scores["inside_90"]))]
