"""Throw random inputs at tables, pictures, model directories, command lines and the Python interface.

    python benchmarks/fuzz.py --cases 10000 --minutes 60
    python benchmarks/fuzz.py --first 4000 --cases 6000      the rest of a campaign whose time was up
    python benchmarks/fuzz.py --only 1234                    replay one case, with its traceback

A case fails if it raises anything but an `MpnpError`, prints a traceback, takes more than a minute of CPU time or a gigabyte of
memory, or gives a wrong answer. Every case is determined by its seed. `make fuzz` runs this.
"""

import argparse
import collections
import contextlib
import dataclasses
import faulthandler
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from fuzzing import api, commands, models, pictures, tables

from mpnp.errors import MpnpError, first_line
from mpnp.io.compile_cache import keep_compiled_programs
from mpnp.io.files import environment, write_json

DOORS: dict[str, tuple[Callable[[np.random.Generator, Path], None], ...]] = {
    "tables": tables.CASES,
    "pictures": pictures.CASES,
    "models": models.CASES,
    "commands": commands.CASES,
    "api": api.CASES,
}

SECONDS, PATIENCE = 60, 1_200
"""A case that takes more CPU time hangs, and so does one that takes more time by the clock. Compiling takes some seconds, and
on a busy machine minutes by the clock."""

QUICK_TO_COMPILE = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
"""Most programs run only once."""

MEMORY = 2**20
"""Growth of the memory in use that one case may cause, in kB."""


class HangError(BaseException):
    """No `Exception`, so that no handler in between takes it for an error it knows."""


def run_case(seed: int) -> str:
    """Run the case of this seed and return how it ended. Raises what a failing case raises."""
    door = list(DOORS)[seed % len(DOORS)]
    rng = np.random.default_rng(seed)
    case = DOORS[door][rng.integers(len(DOORS[door]))]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as folder, _time_limit(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            case(rng, Path(folder))
            ending = "answered"
        except MpnpError:
            ending = "refused"
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    if grown > MEMORY:
        raise MemoryError(f"memory grew by {grown >> 10} MB")
    return f"{door}.{case.__name__} {ending}"


@contextlib.contextmanager
def _time_limit() -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise HangError

    for kind in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(kind, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.alarm(PATIENCE)
    faulthandler.dump_traceback_later(2 * PATIENCE, exit=True)  # for a hang in compiled code, which no signal reaches
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()


@dataclasses.dataclass
class Campaign:
    """Cases from a first seed on, and how they ended."""

    first: int
    endings: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    failed: list[int] = dataclasses.field(default_factory=list)
    minutes: float = 0.0

    @property
    def cases(self) -> int:
        """Number of cases so far."""
        return self.endings.total() + len(self.failed)

    def run(self, cases: int, minutes: float) -> None:
        """Run cases until their number or the time is used up."""
        started = time.monotonic()
        progress = Path(tempfile.gettempdir()) / "seed"
        print(f"the seed of the current case is in {progress}, should the process die with it", flush=True)
        for seed in range(self.first, self.first + cases):
            progress.write_text(str(seed))
            self._run_case(seed)
            self.minutes = (time.monotonic() - started) / 60
            if self.minutes > minutes:
                break

    def _run_case(self, seed: int) -> None:
        try:
            self.endings[run_case(seed)] += 1
        except (Exception, HangError) as error:
            self.failed.append(seed)
            text = first_line(error)[:300] if isinstance(error, Exception) else "it takes too long"
            print(f"seed {seed}: {type(error).__name__}: {text}\n  replay: python benchmarks/fuzz.py --only {seed}", flush=True)

    def tell(self, wanted: int) -> None:
        """Print how the cases ended; the last line says it all."""
        for ending, count in sorted(self.endings.items()):
            print(f"{count:6}  {ending}")
        following = self.first + self.cases
        rest = f" (time is up; go on with --first {following})" if self.cases < wanted else ""
        cases = f"{self.cases} of {wanted} cases from seed {self.first}"
        print(f"{cases} in {self.minutes:.1f} minutes{rest}, {len(self.failed)} failed")

    def to_json(self) -> dict[str, Any]:
        """The record of the campaign."""
        counts = {"first": self.first, "cases": self.cases, "failed": self.failed, "minutes": round(self.minutes, 1)}
        return {"kind": "fuzz", **counts, "endings": dict(sorted(self.endings.items())), "environment": environment()}


def main() -> int:
    """Fuzz, or replay one case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000, help="number of cases (default %(default)s)")
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after this time (default %(default)s)")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="seed of the first case (default %(default)s)")
    parser.add_argument("--only", type=int, metavar="SEED", help="replay the case of this seed")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write a record of the campaign")
    args = parser.parse_args()
    out = None if args.out is None else args.out.resolve()
    with tempfile.TemporaryDirectory(prefix="mpnp-fuzz-") as scratch:
        tempfile.tempdir = scratch  # so that everything that cases write is removed at the end
        os.environ |= {"MPNP_DATA": f"{scratch}/data", "MPNP_CACHE": f"{scratch}/cache", "XLA_FLAGS": QUICK_TO_COMPILE}
        keep_compiled_programs()
        if args.only is not None:
            return replay(args.only)
        campaign = Campaign(args.first)
        campaign.run(args.cases, args.minutes)
        if out is not None:
            write_json(out, campaign.to_json())
        campaign.tell(args.cases)
        return int(bool(campaign.failed))


def replay(seed: int) -> int:
    """Run one case, show its traceback if it fails, and return the exit code."""
    try:
        print(run_case(seed))
    except (Exception, HangError):
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
