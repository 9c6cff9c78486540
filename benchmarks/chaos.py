"""Kill commands at random moments, resume them, and check that nothing is lost and that the result is that of an unkilled run.

    python benchmarks/chaos.py                      at least 100 kills over all workloads
    python benchmarks/chaos.py --kills 10 --minutes 5 --seed 3      a part of a campaign, from the cases of seed 3 on
    python benchmarks/chaos.py --only train fit
    python benchmarks/chaos.py --replay fit-17      one case again, as printed by a failure

Half of the kills come just before a change of a file, which replays exactly; the others come after a random time. After each
kill, finished results must still be there; at the end, all files must be those of a straight run up to times, no other file may
be left, and no process may have printed a traceback. Commands run in forks of a process that has imported everything, so that a
case takes seconds and kills come while commands work.
"""

import argparse
import dataclasses
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from chaos_child import changes_file, printed_file, run_killed

import mpnp
from mpnp.errors import MpnpError
from mpnp.io.files import environment, write_json
from mpnp.io.tensors import load_named

FORKS = multiprocessing.get_context("forkserver")
MOST_KILLS = 4
"""Kills of one case, at most; then the command is left alone until it ends."""

SIZES = ["--steps=60", "--batch-size=4", "--num-samples=2", "--width=8", "--num-heads=2", "--encoder-depth=1", "--quiet"]
TABLE = [
    "--task-column=task",
    "--input=x",
    "--output=y",
    "--held-out-contexts=20",
    "--rivals=mean,persistence",
    "--licence=CC0",
]
RUN = ["--validate-every=5", "--checkpoint-every=7", "--validation-tasks=8"]

TABLES = {".md": ("|", 2), ".tex": ("&", 1)}
"""How to split off the last column of a table, which is CPU seconds."""

END_OF_PICTURE = b"IEND\xaeB`\x82"
"""The last bytes of every whole PNG file."""


class ChaosError(Exception):
    """What should not have happened."""


@dataclasses.dataclass(frozen=True)
class Workload:
    """A command, how to call it again after a kill, and what must survive every kill."""

    command: Callable[[Path], list[str]]
    """Arguments to start or continue in a directory; empty once there is nothing left to do."""
    finished: Callable[[Path], dict[str, Any]]
    """The finished results in a directory: a later kill must neither remove nor change any of them."""
    begins_with: str | None = None
    """The workload whose straight run it continues."""


def train_command(place: Path) -> list[str]:
    """Start a run, or resume it."""
    run = place / "run"
    if (run / "config.json").exists():
        return ["train", "--resume", str(run), "--quiet"]
    return ["train", "--model", "np", *SIZES, *RUN, "--out", str(run)]


def fit_command(place: Path) -> list[str]:
    """Start a fit, or resume it; nothing once it is finished."""
    out = place / "model"
    if (out / "card.json").exists() and not (out / "training").exists():
        return []
    if (out / "training" / "plan.json").exists() or (out / "card.json").exists():
        return ["fit", "--resume", str(out), "--quiet"]
    return ["fit", str(place.with_name("table.csv")), "--model", "mpnp", *SIZES, *TABLE, "--out", str(out)]


def update_command(place: Path) -> list[str]:
    """Update the model of the straight fit, or resume the update; nothing once it is finished."""
    out = place / "model"
    if (out / "card.json").exists() or (out / "training" / "plan.json").exists():
        return fit_command(place)
    sizes = ["--steps=20", "--batch-size=4", *TABLE]
    return ["fit", str(place.with_name("table.csv")), "--update", str(fitted(place)), *sizes, "--quiet", "--out", str(out)]


def fitted(place: Path) -> Path:
    """The model of the straight fit."""
    return place.with_name("fit") / "model"


def bayesopt_command(place: Path) -> list[str]:
    """Run a small study; completed records are skipped."""
    sizes = ["--trials", "2", "--iterations", "2", "--num-samples", "2", "--quiet"]
    return ["bayesopt", "forrester", "--models", "cnp-rbf", "random", *sizes, "--out", str(place / "study")]


def reproduce_command(place: Path) -> list[str]:
    """Two models of the smallest budget; completed records are skipped."""
    choice = ["regression", "--models", "cnp", "np", "--tasks", "rbf", "--quiet"]
    return ["reproduce", *choice, "--out", str(place / "records"), "--runs", str(place / "runs")]


def loaded_model(place: Path) -> dict[str, Any]:
    """The weights of a finished model, as they load."""
    return {"model": weights(place / "model")} if (place / "model" / "card.json").exists() else {}


def loaded_models(place: Path) -> dict[str, Any]:
    """The weights of a finished update, and of the model that it must not change."""
    return {"updated": weights(fitted(place)), **loaded_model(place)}


def weights(model: Path) -> list[bytes]:
    """The weights of a model."""
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(mpnp.load(model).network)]


def json_records(place: Path) -> dict[str, Any]:
    """The content of all JSON records of finished jobs."""
    return {
        str(path): json.loads(path.read_text()) for folder in ("study", "records") for path in place.glob(f"{folder}/**/*.json")
    }


WORKLOADS = {
    "train": Workload(train_command, lambda place: {}),
    "fit": Workload(fit_command, loaded_model),
    "update": Workload(update_command, loaded_models, begins_with="fit"),
    "bayesopt": Workload(bayesopt_command, json_records),
    "reproduce": Workload(reproduce_command, json_records),
}


def run_child(arguments: list[str], place: Path, *, change: int = 0, seconds: float | None = None) -> int:
    """Run a command, killed before a change of a file or after some seconds, and return its exit code."""
    process = FORKS.Process(target=run_killed, args=(change, place, arguments))
    process.start()
    process.join(seconds)
    if process.is_alive():
        process.kill()
        process.join()
    printed = printed_file(place).read_text()
    if "Traceback" in printed or process.exitcode not in (0, -signal.SIGKILL):
        raise ChaosError(f"exit code {process.exitcode} of 'mpnp {' '.join(arguments)}': {printed.strip()}")
    return process.exitcode


def contents(place: Path) -> dict[str, Any]:
    """All files of a directory by name, without what holds times."""
    return {str(path.relative_to(place)): content(path) for path in sorted(place.rglob("*")) if not path.is_dir()}


def content(path: Path) -> Any:
    """The content of a file, without times."""
    if path.suffix == ".safetensors":
        card, arrays = load_named(path)
        return without_times(card), {name: (array.shape, array.tobytes()) for name, array in arrays.items()}
    if path.suffix in (".json", ".jsonl"):
        return [without_times(json.loads(text)) for text in ([path.read_text()] if path.suffix == ".json" else path.open())]
    if path.suffix == ".png":  # some show times; all are drawn from records, which are compared
        return path.read_bytes().endswith(END_OF_PICTURE)
    if path.suffix in TABLES:
        return [line.rsplit(*TABLES[path.suffix])[0] for line in path.read_text().splitlines()]
    return path.read_bytes()


def without_times(value: Any) -> Any:
    """Nested JSON without entries that are seconds, and without the environment, whose commit may change meanwhile."""
    if isinstance(value, dict):
        names = [name for name in value if not name.endswith("_seconds") and name != "environment"]
        return {name: without_times(value[name]) for name in names}
    return [without_times(each) for each in value] if isinstance(value, list) else value


@dataclasses.dataclass(frozen=True)
class Straight:
    """A run that nothing disturbed: its files, the changes it made and the time it took."""

    contents: dict[str, Any]
    changes: int
    seconds: float


def run_straight(workload: Workload, place: Path) -> Straight:
    """Run a workload to its end, twice: the first run compiles."""
    for _ in range(2):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        started = time.monotonic()
        run_child(workload.command(place), place)
        seconds = time.monotonic() - started
    return Straight(contents(place), int(changes_file(place).read_text()), seconds)


def run_case(workload: Workload, straight: Straight, place: Path, seed: str) -> int:
    """Kill and resume a workload a few times, let it end, check it, and return the number of kills."""
    rng, kills = random.Random(seed), 0
    place.mkdir()
    for attempt in range(rng.randint(1, MOST_KILLS) + 1):
        change, seconds = rng.randint(1, straight.changes), rng.uniform(0, straight.seconds)
        moment = {"change": change} if rng.random() < 0.5 else {"seconds": seconds}
        if not (arguments := workload.command(place)):
            break
        before = workload.finished(place)
        killed = run_child(arguments, place, **moment) != 0
        kills += killed
        after = workload.finished(place)
        if any(after.get(name) != result for name, result in before.items()):
            raise ChaosError(f"attempt {attempt}, {moment}: a finished result was lost or changed")
    if arguments := workload.command(place):
        run_child(arguments, place)
    require_same(contents(place), straight.contents)
    return kills


def require_same(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Raise an error that names all files which are missing, left over or different."""
    faults = [f"{name} is missing" for name in wanted.keys() - found.keys()]
    faults += [f"{name} is left over" for name in found.keys() - wanted.keys()]
    faults += [f"{name} differs" for name in wanted.keys() & found.keys() if found[name] != wanted[name]]
    if faults:
        raise ChaosError("; ".join(sorted(faults)))


def write_table(path: Path) -> None:
    """Curves to fit: parallel lines."""
    rng = np.random.default_rng(0)
    rows = [f"{task},{x},{3 * x + shift}" for task, shift in enumerate(rng.normal(size=20)) for x in range(6)]
    path.write_text("\n".join(["task,x,y", *rows]) + "\n")


def cases(names: list[str], seed: int, replay: str | None) -> Iterator[str]:
    """Names of cases, as a workload and a seed: one to replay, or an endless stream."""
    if replay is not None:
        yield replay
        return
    number = seed
    while True:
        yield from (f"{name}-{number}" for name in names)
        number += 1


@dataclasses.dataclass
class Campaign:
    """Cases of some workloads in a folder, and how they ended."""

    folder: Path
    kills: int = 0
    ended: list[str] = dataclasses.field(default_factory=list)
    failed: dict[str, str] = dataclasses.field(default_factory=dict)
    minutes: float = 0.0
    straight: dict[str, Straight] = dataclasses.field(default_factory=dict)

    def run(self, names: Iterable[str], kills: int, minutes: float) -> None:
        """Run cases until there were enough kills or the time is up."""
        started = time.monotonic()
        write_table(self.folder / "table.csv")
        for case in names:
            self._run_case(case)
            self.minutes = (time.monotonic() - started) / 60
            if self.kills >= kills or self.minutes > minutes:
                break

    def _straight(self, name: str) -> Straight:
        if name not in self.straight:
            if (first := WORKLOADS[name].begins_with) is not None:
                self._straight(first)
            self.straight[name] = run_straight(WORKLOADS[name], self.folder / name)
        return self.straight[name]

    def _run_case(self, case: str) -> None:
        name = case.rpartition("-")[0]
        try:
            kills = run_case(WORKLOADS[name], self._straight(name), self.folder / case, case)
            self.kills += kills
            print(f"{case}: {kills} kills, ends like a straight run", flush=True)
        except (ChaosError, MpnpError, ValueError) as error:
            self.failed[case] = str(error)
            print(f"{case}: FAILED, {error}\n  replay with: python benchmarks/chaos.py --replay {case}", flush=True)
        self.ended.append(case)
        shutil.rmtree(self.folder / case, ignore_errors=True)

    def tell(self, wanted: int) -> None:
        """Print how the cases ended."""
        following = int(self.ended[-1].rpartition("-")[2]) + 1
        rest = f" (time is up; go on with --seed {following})" if self.kills < wanted else ""
        cases = f"{self.kills} of {wanted} kills in {len(self.ended)} cases, {self.ended[0]} to {self.ended[-1]}"
        print(f"{cases}, in {self.minutes:.1f} minutes{rest}, {len(self.failed)} failed")

    def to_json(self) -> dict[str, Any]:
        """The record of the campaign."""
        counts = {"kills": self.kills, "cases": self.ended, "failed": self.failed, "minutes": round(self.minutes, 1)}
        return {"kind": "chaos", **counts, "environment": environment()}


def main() -> int:
    """Read the options, and run in a temporary folder with its own cache of compiled programs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="stop after this many kills (default %(default)s)")
    parser.add_argument("--minutes", type=float, default=60, help="stop after this many minutes (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="determines all moments (default %(default)s)")
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), metavar="NAME", help="these workloads")
    parser.add_argument("--replay", metavar="CASE", help="run one case, such as fit-17")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write a record of the campaign")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mpnp-chaos-") as folder:
        os.environ["MPNP_CACHE"] = str(Path(folder) / "programs")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))  # so that forks run the same code
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=0"  # compile fast
        FORKS.set_forkserver_preload(["chaos_child"])
        campaign = Campaign(Path(folder))
        campaign.run(cases(options.only, options.seed, options.replay), options.kills, options.minutes)
    if options.out is not None:
        write_json(options.out, campaign.to_json())
    if options.replay is None:
        campaign.tell(options.kills)
    return int(bool(campaign.failed))


if __name__ == "__main__":
    raise SystemExit(main())
