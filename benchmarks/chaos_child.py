"""Run one `mpnp` command that is killed just before its n-th change of files in a directory: a kill that can be replayed.

    python benchmarks/chaos_child.py N DIRECTORY train --model cnp --out DIRECTORY/run

With N = 0 it is not killed. The number of changes is written to DIRECTORY with the suffix `.changes`.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mpnp.cli import main

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir"}


def changes_file(directory: Path) -> Path:
    """Where the number of changes that a command made in a directory is kept."""
    return directory.with_name(f"{directory.name}.changes")


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


if __name__ == "__main__":
    place, counted = Path(sys.argv[2]), [0]
    sys.addaudithook(killer(int(sys.argv[1]), place, counted))
    code = main(sys.argv[3:])
    changes_file(place).write_text(str(counted[0]))
    raise SystemExit(code)
