"""Run one `mpnp` command that is killed just before its n-th change of files in a directory: a kill that can be replayed.

Importing this imports what all commands need, once for all forks. Nothing may compute here: a fork of a process with threads
that compute may never end.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpnp.bayesopt.benchmark
import mpnp.cli.bayesopt
import mpnp.cli.fit
import mpnp.cli.reproduce
import mpnp.cli.train
import mpnp.inference.fit
import mpnp.reproduce.figures
import mpnp.training.loop  # noqa: F401
from mpnp.cli import main

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir"}


def changes_file(directory: Path) -> Path:
    """Where the number of changes that a command made in a directory is kept."""
    return directory.with_name(f"{directory.name}.changes")


def printed_file(directory: Path) -> Path:
    """Where what a command printed is kept."""
    return directory.with_name(f"{directory.name}.printed")


def killer(number: int, directory: Path, count: list[int]) -> Callable[[str, tuple[Any, ...]], None]:
    """An audit hook that counts changes below a directory, and kills this process at one of them."""
    folder = f"{directory}{os.sep}"

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if not writes and event not in CHANGES:
            return
        path = arguments[0]
        relative = isinstance(path, str) and not os.path.isabs(path) and event in CHANGES  # as in the removal of a folder
        if relative or (isinstance(path, str | os.PathLike) and os.fspath(path).startswith(folder)):
            count[0] += 1
            if count[0] == number:
                os.kill(os.getpid(), signal.SIGKILL)

    return hook


def run_killed(number: int, directory: Path, arguments: list[str]) -> None:
    """Run a command in this process, which ends before the `number`-th change; 0: it is not killed."""
    os.chdir(directory.parent)
    with printed_file(directory).open("wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    count = [0]
    sys.addaudithook(killer(number, directory, count))
    code = main(arguments)
    changes_file(directory).write_text(str(count[0]))
    raise SystemExit(code)
