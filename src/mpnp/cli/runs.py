"""Arguments and folders of the commands that read a trained model."""

import argparse
import sys
from pathlib import Path

from mpnp.cli.fields import file_path
from mpnp.tasks.registry import import_family, is_own_family

__all__ = ["add_model", "add_run_options", "import_named_task", "output_folder"]

TASK_HELP = "task family (default: the one the run was trained on; your own family, package.module:attribute, must be named)"


def add_model(parser: argparse.ArgumentParser, metavar: str, what: str) -> None:
    """Add the positional argument that names a trained model."""
    text = f"directory of {what}, or the name of a model that comes with mpnp"
    parser.add_argument("directory", type=file_path, metavar=metavar, help=text)


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
