"""`mpnp models`: the registry of models."""

import argparse

from mpnp.cli.table import print_listing
from mpnp.models.registry import MODELS

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the listing."""
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")


def run(args: argparse.Namespace) -> None:
    """List every model."""
    rows = [
        {"name": name, "parameters": entry.num_parameters, "title": entry.title, "uncertainty": entry.uncertainty}
        for name, entry in MODELS.items()
    ]
    print_listing(rows, as_json=args.json)
