"""`mpnp fit`: fit a model to the user's own curves."""

import argparse
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpnp.cli.card import card_table
from mpnp.cli.fields import add_fields, file_path, given, require_agreement
from mpnp.errors import InputError
from mpnp.models.config import ModelSettings

if TYPE_CHECKING:
    from mpnp.inference.fit_options import FitOptions
    from mpnp.inference.model import FittedModel
    from mpnp.inference.plan import FitPlan
    from mpnp.tables.columns import Schema
    from mpnp.tables.curves import Curves
    from mpnp.tables.frames import Frame

__all__ = ["add_arguments", "run"]

EPILOG = """\
example:
  mpnp fit weather.csv --task-column day --input hour --output temp --context prefix --max-minutes 5 --out model

Kinds of columns: number, date (ISO 8601), date-dmy (31/05/2024), date-mdy (05/31/2024), time-of-day, day-of-week, duration,
category; for outputs also positive and count. For example: --input sex:category --output cases:count. Without a kind, numbers,
ISO dates, durations such as 0 days 02:00:00, and stored dates and durations are recognised.

Each row is one point of one curve. The split into training and validation is by task, never by point. Inputs and outputs
are normalised internally; everything printed or predicted is in the units of the table."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A table and its columns, and every setting of the fit and the model."""
    from mpnp.inference.fit import SETTINGS, FitOptions

    parser.epilog = EPILOG
    parser.add_argument("data", type=file_path, nargs="?", metavar="DATA", help="a table with one row per point")
    parser.add_argument("--task-column", metavar="NAME", help="the column that says which curve a row belongs to")
    parser.add_argument(
        "--input", action="append", metavar="NAME", help="an input column; repeat it for several; NAME:KIND says what it holds"
    )
    parser.add_argument(
        "--output", action="append", metavar="NAME", help="an output column; repeat it for several; an empty cell is unobserved"
    )
    parser.add_argument(
        "--group-column", metavar="NAME", help="a column, such as a date, whose curves the split keeps together"
    )
    parser.add_argument(
        "--weight-column", metavar="NAME", help="a column that says how much each row counts, in training and in scores"
    )
    parser.add_argument(
        "--noise-column", action="append", metavar="NAME",
        help="the known standard deviation of each measurement of an output, in its units; repeat it for several outputs",
    )  # fmt: skip
    parser.add_argument("--out", type=file_path, metavar="MODEL", help="directory of the fitted model")
    parser.add_argument("--licence", metavar="NAME", help="licence under which others may use the model, kept in its card")
    parser.add_argument(
        "--resume", type=file_path, metavar="MODEL", help="continue an interrupted fit with the options it was started with"
    )
    parser.add_argument(
        "--update",
        type=file_path,
        metavar="MODEL",
        help="continue the training of a model on DATA, which has the model's columns",
    )
    parser.add_argument(
        "--report", type=file_path, metavar="FILE", help="write a page that helps to decide whether to trust the model (.html)"
    )
    parser.add_argument("--quiet", action="store_true", help="print no progress")
    add_fields(parser.add_argument_group("fit"), FitOptions, defaults=FitOptions())
    add_fields(parser.add_argument_group("model"), ModelSettings, defaults=SETTINGS)


def run(args: argparse.Namespace) -> None:
    """Fit a model, or continue a fit, and print its card."""
    from mpnp.diagnostics.report import page_path
    from mpnp.inference.fit import has_unfinished_fit
    from mpnp.io.compile_cache import keep_compiled_programs

    keep_compiled_programs()
    if args.report is not None:
        page_path(args.report)  # before the work, which takes minutes
    new = _fit if args.update is None else _update
    fit, out = (new, args.out) if args.resume is None else (_resume, args.resume)
    try:
        model, held_out = fit(args)
    except KeyboardInterrupt:
        if has_unfinished_fit(out):
            print(f"continue with: mpnp fit --resume {out}")
        raise
    print(card_table(model.card))
    if args.report is not None:
        _write_report(args.report, model, held_out, args.quiet)
    print(f"model: {out}; predict with: mpnp predict {out} --context ROWS.csv --at INPUTS.csv --out prediction.csv")


def _write_report(path: Path, model: "FittedModel", held_out: "Curves | None", quiet: bool) -> None:
    from mpnp.diagnostics import fit_report

    if held_out is None:
        raise InputError("the interrupted fit left no tasks to report on; use 'mpnp check' with held-out tasks instead")
    fit_report(model, held_out, quiet=quiet).save(path)
    print(f"wrote {path} and {path.with_suffix('.json')}")


def _held_out(curves: "Curves", options: "FitOptions") -> "Curves":
    """The tasks that a report is about: those for testing, or else for validation."""
    from mpnp.tables.split import split_curves

    parts = split_curves(curves, validation=options.validation, test=options.test, seed=options.seed)
    return parts["test"] if len(parts["test"]) else parts["validation"]


def _update(args: argparse.Namespace) -> "tuple[FittedModel, Curves]":
    """Continue the training of a model on further tasks."""
    from mpnp.inference.fit import UPDATE_RATE, FitOptions, update_model
    from mpnp.inference.model import load
    from mpnp.tables.frames import curves_from_frame

    if args.data is None or args.out is None:
        raise InputError("an update needs further rows and a new directory: mpnp fit MORE.csv --update MODEL --out NEW")
    model = load(args.update)
    columns, stored = model.card.columns, _stored_choices(model.card.columns)
    stored |= {"model": model.card.model, "context": model.card.about.get("context"), **dataclasses.asdict(model.card.settings)}
    require_agreement(_chosen(args, stored), stored, args.update)
    curves = curves_from_frame(_read(args.data, columns), columns)
    options = FitOptions(**{"learning_rate": UPDATE_RATE, **given(args, FitOptions)})
    _tell_size(curves)
    updated = update_model(model, curves, options, out=args.out, licence=args.licence, quiet=args.quiet)
    return updated, _held_out(curves, options)


def _read(path: Path, columns: "Schema") -> "Frame":
    """Announce what is read: starting, and reading a large table, take a while."""
    from mpnp.tables.frames import read_table

    print(f"reading {path}", flush=True)
    return read_table(path, (columns.task, columns.group))


def _tell_size(curves: "Curves") -> None:
    tasks = "1 task" if len(curves) == 1 else f"{len(curves):,} tasks"
    print(f"{tasks}, {len(curves.x):,} rows, {min(curves.counts)} to {max(curves.counts)} rows per task")


def _fit(args: argparse.Namespace) -> "tuple[FittedModel, Curves]":
    """Fit a new model. Also returns held-out tasks."""
    from mpnp.inference.fit import SETTINGS, FitOptions, fit_curves
    from mpnp.tables.columns import Schema
    from mpnp.tables.frames import curves_from_frame

    if args.data is None or not args.input or not args.output or args.task_column is None:
        raise InputError("name the columns: pass DATA --task-column NAME --input NAME --output NAME, or --resume MODEL")
    if args.out is None:
        raise InputError("name a directory for the fitted model with --out MODEL")
    columns = Schema.named(
        args.input, args.output, args.task_column, args.group_column,
        weight=args.weight_column, noise=args.noise_column or (),
    )  # fmt: skip
    options = FitOptions(**given(args, FitOptions))
    settings = dataclasses.replace(SETTINGS, **given(args, ModelSettings))
    curves = curves_from_frame(_read(args.data, columns), columns)
    _tell_size(curves)
    model = fit_curves(curves, options, settings=settings, out=args.out, licence=args.licence, quiet=args.quiet)
    return model, _held_out(curves, options)


def _resume(args: argparse.Namespace) -> "tuple[FittedModel, Curves | None]":
    """Continue an interrupted fit. Also returns held-out tasks, unless the fit was interrupted while it cleaned up."""
    from mpnp.inference.fit import FitOptions, resume_fit, unfinished_curves, unfinished_plan

    if args.out is not None and args.out.resolve() != args.resume.resolve():
        raise InputError(f"--resume continues in {args.resume} itself; leave out --out {args.out}")
    held_out = None
    if (plan := unfinished_plan(args.resume)) is not None:
        _require_same_fit(args, plan)
        held_out = _held_out(unfinished_curves(args.resume), FitOptions(**plan.options))
    return resume_fit(args.resume, licence=args.licence, quiet=args.quiet), held_out


def _require_same_fit(args: argparse.Namespace, plan: "FitPlan") -> None:
    """Raise an error if any argument differs from what the fit was started with: a fit cannot change midway."""
    from mpnp.inference.fit import FitOptions, unfinished_curves

    curves = unfinished_curves(args.resume)
    stored = _stored_choices(curves.columns)
    chosen = _chosen(args, stored)
    if plan.licence is not None and args.licence is not None:
        chosen, stored = {**chosen, "licence": args.licence}, {**stored, "licence": plan.licence}
    chosen = {**chosen, **given(args, FitOptions), **given(args, ModelSettings)}
    require_agreement(chosen, {**stored, **plan.choices()}, args.resume)
    if args.data is not None:
        _require_same_curves(args.data, curves, args.resume)


def _stored_choices(columns: "Schema") -> dict[str, Any]:
    """The columns and the context that the fit was started with, by option name."""
    return {
        "task_column": columns.task,
        "group_column": columns.group,
        "input": columns.inputs,
        "output": columns.outputs,
        "weight_column": columns.weight,
        "noise_column": columns.noise or None,
    }


def _chosen(args: argparse.Namespace, stored: Mapping[str, Any]) -> dict[str, Any]:
    """The same options as given now, without the kinds of columns."""
    from mpnp.tables.columns import Schema

    named = {name: value for name in stored if (value := getattr(args, name)) is not None}
    return {name: Schema.named(value, ()).inputs if isinstance(value, list) else value for name, value in named.items()}


def _require_same_curves(data: Path, curves: "Curves", directory: Path) -> None:
    from mpnp.tables.frames import curves_from_frame, read_table

    columns = curves.columns
    found = curves_from_frame(read_table(data, (columns.task, columns.group)), columns)
    if not found.same_rows(curves):
        raise InputError(f"{directory} was started with other rows than those of {data}; leave it out to resume with its own")
