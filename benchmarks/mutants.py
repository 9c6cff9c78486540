"""Make seeded mistakes in the numerical core, one at a time, and check that the tests see each of them.

    python benchmarks/mutants.py                          every mutant of benchmarks/mutants.toml
    python benchmarks/mutants.py --only softmax-scale crps
    python benchmarks/mutants.py --minutes 8 --first pseudo-loss        a part of them, in the order of the file
    python benchmarks/mutants.py --out FILE               also write a record of their fates

Each mutant replaces a text in a copy of the package, never in the working tree, and runs its own tests there. It is killed if
they fail. It has survived if they pass, and it is stale if the text to replace is no longer there exactly once: both mean that
the tests, or the file of mutants, need work.
"""

import argparse
import dataclasses
import functools
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

from mpnp.io.files import environment, write_json

ROOT = Path(__file__).parents[1]
FILE = Path(__file__).with_suffix(".toml")

KILLED, SURVIVED, STALE, BROKEN, SICK = "killed", "survived", "stale", "broken", "sick"

LONGEST = 1_200
"""Seconds that the tests of one mutant may take."""

FAILED = 1
"""Exit code of pytest if tests ran and some failed. Other codes say that nothing was tested, for example a wrong name."""


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A mistake, and the tests that must see it."""

    name: str
    file: str
    """The module, relative to the package."""
    old: str
    new: str
    tests: list[str]
    why: str

    def applied_to(self, source: str) -> str | None:
        """The source with the mistake; None if the text to replace is not there exactly once."""
        return source.replace(self.old, self.new) if source.count(self.old) == 1 else None


def read_mutants(path: Path = FILE) -> list[Mutant]:
    """The mutants of a file, in its order."""
    return [Mutant(**entry) for entry in tomllib.loads(path.read_text())["mutant"]]


@dataclasses.dataclass(frozen=True)
class Laboratory:
    """A copy of the package beside the tests of the working tree."""

    root: Path
    """The working tree, with `tests/`."""
    source: Path
    """The folder that holds the copy."""
    package: str = "mpnp"

    def run(self, mutant: Mutant) -> tuple[str, str]:
        """Apply a mutant, run its tests, and undo it. Returns the verdict and the last lines of the tests' output."""
        path = self.source / self.package / mutant.file
        original = path.read_text() if path.exists() else ""
        mutated = mutant.applied_to(original)
        if mutated is None:
            return (
                STALE,
                f"{mutant.file} must have the old text exactly once, but it is there {original.count(mutant.old)} times",
            )
        path.write_text(mutated)
        try:
            code, output = self.test(mutant.tests)
        finally:
            path.write_text(original)
        return {0: SURVIVED, FAILED: KILLED}.get(code, BROKEN), output

    @functools.cache  # noqa: B019 - a laboratory lives as long as the process
    def is_healthy(self, tests: tuple[str, ...]) -> bool:
        """Whether tests pass without any mutant. Otherwise their failures would prove nothing."""
        code, output = self.test(tests)
        if code != 0:
            print(f"{' '.join(tests)} fails without any mutant:\n{output}", flush=True)
        return code == 0

    def test(self, tests: Sequence[str]) -> tuple[int | None, str]:
        """Exit code of pytest, None if it took too long, and the end of its output."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        # Without bytecode: a file that changes twice within a second would keep the bytecode of its first version.
        variables = {**os.environ, "PYTHONPATH": str(self.source), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            done = subprocess.run(command, cwd=self.root, env=variables, capture_output=True, text=True, timeout=LONGEST)
        except subprocess.TimeoutExpired:
            return None, f"the tests took more than {LONGEST} seconds"
        return done.returncode, "\n".join((done.stdout + done.stderr).splitlines()[-15:])


def copied(root: Path, source: Path) -> Laboratory:
    """A laboratory with a fresh copy of the package."""
    shutil.copytree(root / "src" / "mpnp", source / "mpnp", ignore=shutil.ignore_patterns("__pycache__"))
    return Laboratory(root, source)


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the mutants; returns the exit code, 0 if all that were tried were killed."""
    mutants = read_mutants()
    names = [mutant.name for mutant in mutants]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", default=names, help="these mutants only")
    parser.add_argument("--first", metavar="NAME", default=names[0], help="begin with this mutant of the file")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no mutant after this time (default: no limit)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write a record of the campaign")
    options = parser.parse_args(arguments)
    if unknown := {*options.only, options.first} - set(names):
        parser.error(f"no mutants of these names in {FILE.name}: {', '.join(sorted(unknown))}")
    chosen = [mutant for mutant in mutants[names.index(options.first) :] if mutant.name in options.only]
    with tempfile.TemporaryDirectory() as folder:
        fates = try_all(copied(ROOT, Path(folder)), chosen, options.minutes)
    if options.out is not None:
        write_json(options.out, {"kind": "mutants", "fates": fates, "environment": environment()})
    return int(bool(set(fates.values()) - {KILLED}))


def try_all(laboratory: Laboratory, mutants: Sequence[Mutant], minutes: float) -> dict[str, str]:
    """Try mutants until the time is up, say how many were killed, and return the fate of each."""
    started, fates = time.monotonic(), {}
    for mutant in mutants:
        if time.monotonic() - started > 60 * minutes:
            break
        fates[mutant.name] = report(laboratory, mutant)
    rest = "" if len(fates) == len(mutants) else f" (time is up; go on with --first {mutants[len(fates)].name})"
    print(f"{list(fates.values()).count(KILLED)} killed of {len(fates)} tried, {len(mutants)} wanted{rest}")
    return fates


def report(laboratory: Laboratory, mutant: Mutant) -> str:
    """Try a mutant, print its fate, and return it."""
    started = time.monotonic()
    verdict, output = laboratory.run(mutant) if laboratory.is_healthy(tuple(mutant.tests)) else (SICK, "mend the tests first")
    print(f"{verdict:9} {mutant.name:32} {time.monotonic() - started:5.0f} s", flush=True)
    if verdict != KILLED:
        print(f"          {mutant.why}\n{output}", flush=True)
    return verdict


if __name__ == "__main__":
    sys.exit(main())
