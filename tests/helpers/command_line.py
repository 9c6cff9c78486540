"""Commands as a user types them, and what they leave behind."""

import contextlib
import dataclasses
import io
from pathlib import Path
from typing import NamedTuple

from mpnp.cli import main
from mpnp.tasks.base import FunctionFamily
from mpnp.tasks.gaussian_process import GaussianProcessPrior, RBFPrior

SHORT = FunctionFamily(process=GaussianProcessPrior(RBFPrior()), max_points=8)
"""A task family as a user would write it, which the command line finds as `helpers.command_line:SHORT`."""


class Answer(NamedTuple):
    code: int
    out: str
    err: str


def call(*arguments) -> Answer:
    """What the command answers to these arguments."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as leave:
            code = leave.code
    return Answer(code, out.getvalue(), err.getvalue())


def files(directory):
    """Everything in a directory, with the content of its files."""
    return {path: path.read_bytes() if path.is_file() else None for path in Path(directory).rglob("*")}


def flags(config):
    """A configuration as the command line takes it."""
    options = {"model": config.model, "task": config.task, "seed": config.seed}
    options |= dataclasses.asdict(config.recipe) | dataclasses.asdict(config.settings)
    return [f"--{name.replace('_', '-')}={value}" for name, value in options.items() if value is not None]
