"""`mpnp check`: are a model's bands and functions honest?"""

import argparse
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from mpnp.cli.fields import file_path
from mpnp.cli.runs import TASK_HELP, add_model, import_named_task
from mpnp.cli.table import format_table
from mpnp.errors import printable

if TYPE_CHECKING:
    from mpnp.diagnostics import Report

__all__ = ["add_arguments", "run"]

EPILOG = """\
examples:
  mpnp check canp-rbf --out report.html                         on tasks of the family that it was trained on
  mpnp check model --data held-out.csv --out report.html        on your own curves, which the model has not seen

The page shows calibration, coverage, functionals of drawn functions, joint densities and the martingale property, each
with a verdict in words. The numbers are written beside it as JSON, and a summary is kept in the model's card."""

WIDTH = 100
"""Characters of a verdict per line."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A model, held-out curves, and where to write."""
    from mpnp.diagnostics.checking import NUM_TASKS

    parser.epilog = EPILOG
    add_model(parser, "MODEL", "the model")
    parser.add_argument(
        "--data", type=file_path, metavar="TABLE",
        help="held-out curves with the model's columns (default: tasks drawn from a family)",
    )  # fmt: skip
    parser.add_argument("--task", metavar="NAME", help=TASK_HELP)
    parser.add_argument(
        "--out", type=file_path, metavar="FILE", default=Path("report.html"), help="page to write (default %(default)s)"
    )
    parser.add_argument(
        "--tasks", type=int, metavar="N", default=NUM_TASKS, help="tasks for which functions are drawn (default %(default)s)"
    )
    parser.add_argument("--seed", type=int, metavar="N", default=0, help="fixes every draw (default %(default)s)")
    parser.add_argument("--quiet", action="store_true", help="print no progress")


def run(args: argparse.Namespace) -> None:
    """Check the model, write the page, keep a summary in the card, and print the verdicts."""
    from mpnp.diagnostics import check
    from mpnp.diagnostics.report import page_path
    from mpnp.inference.files import keep_check
    from mpnp.inference.model import load
    from mpnp.io.compile_cache import keep_compiled_programs
    from mpnp.tables.frames import read_table

    keep_compiled_programs()
    page_path(args.out)  # before the work, which takes a minute
    import_named_task(args)
    model = load(args.directory)
    curves = None if args.data is None else read_table(args.data, (model.card.columns.task, model.card.columns.group))
    report = check(model, curves, task=args.task, num_tasks=args.tasks, seed=args.seed, quiet=args.quiet)
    report.save(args.out)
    kept = keep_check(args.directory, report.summary())
    print(_verdict_table(report))
    print(printable(f"on {report.description}"))
    print(f"wrote {args.out} and {args.out.with_suffix('.json')}" + (f"; summary: {kept}" if kept else ""))


def _verdict_table(report: "Report") -> str:
    rows = []
    for section in report.sections:
        for place, line in enumerate(textwrap.wrap(section.verdict, WIDTH)):
            rows.append([section.title if place == 0 else "", line])
    return format_table(["check", "verdict"], rows)
