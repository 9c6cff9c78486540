"""`mpnp evaluate`: score a run on fixed test tasks."""

import argparse
import json

from mpnp.cli.fields import file_path
from mpnp.cli.runs import add_model, add_run_options, import_named_task, output_folder
from mpnp.cli.scores import score_table
from mpnp.tasks.protocol import FULL_SIZE
from mpnp.training.config import TEST_TASKS

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A run, and what to score it on."""
    add_model(parser, "RUN", "the run")
    add_run_options(parser, usual_samples="as in training, or as in the published scores of a model that comes with mpnp")
    parser.add_argument(
        "--num-tasks", type=int, default=TEST_TASKS, metavar="N",
        help=f"test tasks (default %(default)s; the paper uses {FULL_SIZE})",
    )  # fmt: skip
    parser.add_argument("--out", type=file_path, metavar="FILE", help="record to write (default RUN/scores/TASK.json)")
    parser.add_argument("--json", action="store_true", help="print the record instead of a table")


def run(args: argparse.Namespace) -> None:
    """Score the run, write the record and print it."""
    from mpnp.io.compile_cache import keep_compiled_programs
    from mpnp.io.files import write_json
    from mpnp.training.evaluate import evaluate_run
    from mpnp.training.rundir import RunDirectory

    keep_compiled_programs()
    import_named_task(args)
    record = evaluate_run(
        args.directory,
        task=args.task,
        num_tasks=args.num_tasks,
        num_samples=args.num_samples,
        num_pseudo=args.num_pseudo,
    )
    out = args.out or RunDirectory(output_folder(args.directory)).scores(record["task"])
    write_json(out, record)
    print(json.dumps(record, indent=2) if args.json else f"{score_table(record)}\nrecord: {out}")
