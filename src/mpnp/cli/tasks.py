"""`mpnp tasks`: the registry of task families."""

import argparse

from mpnp.cli.table import print_listing
from mpnp.tasks.registry import STORED_TASKS, TASKS

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the listing."""
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")


def run(args: argparse.Namespace) -> None:
    """List every task family."""
    rows = [
        {"name": name, "x_dim": entry.dims[0], "y_dim": entry.dims[1], "description": entry.description}
        for name, entry in (TASKS | STORED_TASKS).items()
    ]
    print_listing(rows, as_json=args.json)
