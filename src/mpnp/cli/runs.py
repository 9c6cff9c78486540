"""Arguments and folders of the commands that read a trained model."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mpnp.cli.fields import file_path
from mpnp.tasks.registry import import_family, is_own_family

if TYPE_CHECKING:
    from mpnp.inference.model import FittedModel

__all__ = ["add_model", "add_models", "load_models", "add_run_options", "import_named_task", "output_folder"]

TASK_HELP = "task family (default: the one the run was trained on; your own family, package.module:attribute, must be named)"


def add_model(parser: argparse.ArgumentParser, metavar: str, what: str) -> None:
    """Add the positional argument that names a trained model."""
    text = f"directory of {what}, or the name of a model that comes with mpnp"
    parser.add_argument("directory", type=file_path, metavar=metavar, help=text)


def add_models(parser: argparse.ArgumentParser, *, at_least: str) -> None:
    """Add positional arguments that name any number of trained models; `at_least` is "+" for one, "*" for none."""
    text = "directories of models, or names of models that come with mpnp"
    parser.add_argument("directories", type=file_path, metavar="MODEL", nargs=at_least, help=text)


def load_models(directories: Sequence[Path]) -> "dict[str, FittedModel]":
    """Models by the names of their directories, or by their paths if two have the same name."""
    from mpnp.inference.model import load

    models = {}
    for directory in directories:
        models[str(directory) if directory.name in models else directory.name or str(directory)] = load(directory)
    return models


def add_run_options(parser: argparse.ArgumentParser, *, usual_samples: str = "as in training") -> None:
    """Add what can differ between the training of a run and its use."""
    parser.add_argument("--task", metavar="NAME", help=TASK_HELP)
    parser.add_argument("--num-samples", type=int, metavar="N", help=f"functions sampled per task (default: {usual_samples})")
    parser.add_argument("--num-pseudo", type=int, metavar="N", help="pseudo context points (default: as in training)")


def import_named_task(args: argparse.Namespace) -> None:
    """Import the user's own family if `--task` names one. Nothing else on the command line imports code of the user's."""
    if args.task is None or not is_own_family(args.task):
        return
    if "" not in sys.path:
        sys.path.append("")  # finds a family in the working directory, as `python -m` does
    import_family(args.task)


def output_folder(directory: Path) -> Path:
    """Where a command writes by default: into the run, or below `runs` for a model that comes with the package."""
    from mpnp.training.rundir import find_run

    return directory if find_run(directory) == directory else Path("runs") / directory
