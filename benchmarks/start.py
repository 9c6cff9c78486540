"""CPU time of commands from the shell: the first time, when everything is compiled, and the second time.

    python benchmarks/start.py

The record and its table go to `results/speed`. The work is as small as possible, so that start-up dominates.
"""

import os
import resource
import shlex
import subprocess
import sys
import tempfile

from measure import RESULTS

from mpnp.io.files import environment, write_atomically, write_json
from mpnp.reproduce.tables import markdown

COMMANDS = [
    "mpnp --help",
    "mpnp models",
    "mpnp tasks",
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
            first, second = (run(command, cache) for _ in range(2))
            rows.append({"command": command, "first_cpu_seconds": first, "second_cpu_seconds": second})
            print(f"{command}: {first:.2f} CPU-s, then {second:.2f}", file=sys.stderr)
    write_json(RESULTS / "start.json", {"kind": "start", "rows": rows, "environment": environment()})
    cells = [[f"`{row['command']}`", f"{row['first_cpu_seconds']:.2f}", f"{row['second_cpu_seconds']:.2f}"] for row in rows]
    table = markdown(["command", "first time, CPU-s", "second time, CPU-s"], cells)
    write_atomically(RESULTS / "start.md", lambda file: file.write(table.encode()))


def run(command: str, cache: str) -> float:
    """CPU seconds of a command in a folder of its own, with the programs that are kept in `cache`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-c", "import sys; from mpnp.cli import main; sys.exit(main())", *shlex.split(command)[1:]],
            cwd=folder,
            env={**os.environ, "MPNP_CACHE": cache},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
