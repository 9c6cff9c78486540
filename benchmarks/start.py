"""How long commands take from the shell: the first time on a machine, when all is compiled, and the second time.

    python benchmarks/start.py

The record and its table go to `results/speed`. The work is as small as a command allows, so that what is timed is its start.
"""

import os
import shlex
import subprocess
import sys
import tempfile
import time

from measure import RESULTS

from mpnp.records import environment, write_atomically, write_json
from mpnp.reproduce.render import markdown

COMMANDS = [
    "mpnp models",
    "mpnp info mpanp-rbf",
    "mpnp evaluate cnp-rbf --num-tasks 64",
    "mpnp evaluate mpanp-rbf --num-tasks 64",
    "mpnp plot mpanp-rbf --out plot.png",
    "mpnp train --model cnp --recipe fast --steps 1 --validation-tasks 64 --out cnp",
    "mpnp train --model mpanp --recipe fast --steps 1 --validation-tasks 64 --out mpanp",
]


def main() -> None:
    """Time every command twice, with an empty cache of programs at first."""
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        for command in COMMANDS:
            first, second = (wall_seconds(command, cache) for _ in range(2))
            rows.append({"command": command, "first_wall_seconds": first, "second_wall_seconds": second})
            print(f"{command}: {first:.1f} s, then {second:.1f} s", file=sys.stderr)
    write_json(RESULTS / "start.json", {"kind": "start", "rows": rows, "environment": environment()})
    cells = [[f"`{row['command']}`", *(f"{row[f'{turn}_wall_seconds']:.1f}" for turn in ("first", "second"))] for row in rows]
    table = markdown(["command", "first time, s", "second time, s"], cells)
    write_atomically(RESULTS / "start.md", lambda file: file.write(table.encode()))


def wall_seconds(command: str, cache: str) -> float:
    """In a folder of its own, with the programs that are kept in `cache`."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", "import sys; from mpnp.cli import main; sys.exit(main())", *shlex.split(command)[1:]],
            cwd=folder,
            env={**os.environ, "MPNP_CACHE": cache},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        return time.perf_counter() - started


if __name__ == "__main__":
    main()
