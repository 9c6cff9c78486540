"""`mpnp info`: the card of a model."""

import argparse
import json

from mpnp.cli.card import card_table
from mpnp.cli.runs import add_model
from mpnp.errors import RunError, first_line
from mpnp.inference.files import read_card

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A model."""
    add_model(parser, "MODEL", "the model")
    parser.add_argument("--json", action="store_true", help="print the whole card as JSON")


def run(args: argparse.Namespace) -> None:
    """Print the card."""
    card = read_card(args.directory)
    if args.json:
        print(json.dumps(card.to_json(), indent=2))
        return
    try:
        table = card_table(card)
    except RunError:
        raise
    except Exception as error:  # the part of a card for people is unchecked until here, and may hold anything
        raise RunError(
            f"the card of {args.directory} is damaged or incomplete ({first_line(error)}); restore it from a copy"
        ) from None
    print(table)
