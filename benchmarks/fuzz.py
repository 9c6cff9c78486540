"""Throw random inputs at tables, pictures, model directories, command lines and the Python interface.

    python benchmarks/fuzz.py --cases 10000 --minutes 60
    python benchmarks/fuzz.py --only 1234          replay one case, with its traceback

A case fails if it raises anything but an `MpnpError`, prints a traceback, takes longer than a minute or a gigabyte of memory,
or gives a wrong answer. Every case is determined by its seed. `make fuzz` runs this.
"""

import argparse
import collections
import contextlib
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

from mpnp.errors import MpnpError
from mpnp.io.compile_cache import keep_compiled_programs

DOORS: dict[str, tuple[Callable[[np.random.Generator, Path], None], ...]] = {
    "tables": tables.CASES,
    "pictures": pictures.CASES,
    "models": models.CASES,
    "commands": commands.CASES,
    "api": api.CASES,
}

SECONDS = 60
"""A case that takes longer hangs. Compiling takes a few seconds."""

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

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    faulthandler.dump_traceback_later(2 * SECONDS, exit=True)  # for a hang in compiled code, which no signal reaches
    try:
        yield
    finally:
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()


def fuzz(first: int, cases: int, minutes: float) -> int:
    """Run cases until their number or the time is used up, and return the number of failures."""
    endings: collections.Counter[str] = collections.Counter()
    failed, end = [], time.monotonic() + 60 * minutes
    progress = Path(tempfile.gettempdir()) / "seed"
    print(f"the seed of the current case is in {progress}, should the process die with it", flush=True)
    for seed in range(first, first + cases):
        if time.monotonic() > end:
            break
        progress.write_text(str(seed))
        try:
            endings[run_case(seed)] += 1
        except (Exception, HangError) as error:
            failed.append(seed)
            text = str(error).partition("\n")[0][:300]
            print(f"seed {seed}: {type(error).__name__}: {text}\n  replay: python benchmarks/fuzz.py --only {seed}", flush=True)
    for ending, count in sorted(endings.items()):
        print(f"{count:6}  {ending}")
    print(f"{sum(endings.values()) + len(failed)} cases from seed {first}, {len(failed)} failed")
    return len(failed)


def main() -> int:
    """Fuzz, or replay one case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000, help="number of cases (default %(default)s)")
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after this time (default %(default)s)")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="seed of the first case (default %(default)s)")
    parser.add_argument("--only", type=int, metavar="SEED", help="replay the case of this seed")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mpnp-fuzz-") as scratch:
        tempfile.tempdir = scratch  # so that everything that cases write is removed at the end
        os.environ |= {"MPNP_DATA": f"{scratch}/data", "MPNP_CACHE": f"{scratch}/cache"}
        keep_compiled_programs()
        return int(fuzz(args.first, args.cases, args.minutes) > 0) if args.only is None else replay(args.only)


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
