"""Wall time of commands from the shell: the first time, when everything is compiled, and the second time.

    python benchmarks/start.py

The record and its table go to `results/speed`. The work is as small as possible, so that start-up dominates. In a third run,
JAX reports how long it took to trace, lower and load programs.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time

from measure import RESULTS

from mpnp.io.files import environment, write_atomically, write_json
from mpnp.reproduce.tables import markdown

COMMANDS = [
    "mpnp models",
    "mpnp info mpanp-rbf",
    "mpnp evaluate cnp-rbf --num-tasks 64",
    "mpnp evaluate mpanp-rbf --num-tasks 64",
    "mpnp plot mpanp-rbf --out plot.png",
    "mpnp train --model cnp --recipe fast --steps 1 --validation-tasks 64 --out cnp",
    "mpnp train --model mpanp --recipe fast --steps 1 --validation-tasks 64 --out mpanp",
]


PARTS = {
    "tracing": r"Finished tracing (\S+) for jit in ([\d.e\-]+) sec",
    "lowering": r"Finished jaxpr to MLIR module conversion jit\((\S+)\) in ([\d.e\-]+) sec",
    "loading": r"Finished XLA compilation of jit\((\S+)\) in ([\d.e\-]+) sec",
}
"""JAX's log messages about a program. A cached program is only loaded."""


def main() -> None:
    """Time every command twice, with an empty cache of programs at first."""
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        for command in COMMANDS:
            first, second = (run(command, cache)[0] for _ in range(2))
            _, log = run(command, cache, JAX_LOG_COMPILES="1")
            rows.append({"command": command, "first_wall_seconds": first, "second_wall_seconds": second, **parts(log)})
            print(f"{command}: {first:.1f} s, then {second:.1f} s", file=sys.stderr)
    write_json(RESULTS / "start.json", {"kind": "start", "rows": rows, "environment": environment()})
    columns = {"first time, s": "first_wall_seconds", "second time, s": "second_wall_seconds"}
    columns |= {f"of it {part}": f"{part}_seconds" for part in PARTS}
    cells = [[f"`{row['command']}`", *(f"{row[name]:.1f}" for name in columns.values())] for row in rows]
    table = markdown(["command", *columns], cells)
    write_atomically(RESULTS / "start.md", lambda file: file.write(table.encode()))


def run(command: str, cache: str, **settings: str) -> tuple[float, str]:
    """Wall seconds in a folder of its own, with the programs that are kept in `cache`, and what went to the error stream."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", "import sys; from mpnp.cli import main; sys.exit(main())", *shlex.split(command)[1:]],
            cwd=folder,
            env={**os.environ, "MPNP_CACHE": cache, **settings},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=True,
        )
        return time.perf_counter() - started, done.stderr


def parts(log: str) -> dict[str, float]:
    """Seconds of each part in what JAX logged. A function traced inside of a program is part of its tracing."""
    programs = {name for name, _ in re.findall(PARTS["loading"], log)}
    return {
        f"{part}_seconds": sum(float(seconds) for name, seconds in re.findall(pattern, log) if name in programs)
        for part, pattern in PARTS.items()
    }


if __name__ == "__main__":
    main()
