"""The command line."""

from mpnp.cli.main import main

__all__ = ["main"]
