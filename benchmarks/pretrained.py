"""Models that come with the package: those of a campaign, in half precision, with the scores of exactly these files.

    python benchmarks/pretrained.py [--budget hours] [--tasks rbf matern ...]

Needs the runs of `mpnp reproduce regression`. A model that is there already stays, unless the campaign's was better on
validation tasks.
"""

import argparse
import shutil
import tempfile
from pathlib import Path

from mpnp.errors import MpnpError
from mpnp.release import release
from mpnp.reproduce.budgets import BUDGETS, find_budget
from mpnp.reproduce.campaign import Campaign
from mpnp.reproduce.plan import PLANS
from mpnp.runs import PRETRAINED, RunDirectory

MODELS = ("cnp", "mpnp", "canp", "mpanp")
TASKS = ("rbf", "matern", "periodic", "t-noise")


def main() -> None:
    """Release what is trained, and better than what is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", choices=BUDGETS, default="hours", help="whose runs (default hours)")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS, help="only these")
    parser.add_argument("--records", type=Path, default=Path("results/reproduce"), help="where the campaign's records are")
    parser.add_argument("--runs", type=Path, default=Path("runs/reproduce"), help="where its runs are")
    options = parser.parse_args()
    campaign = Campaign(find_budget(options.budget), 1, options.records, options.runs, Path("results/ceilings"))
    for task in options.tasks:
        lines = [line for line in PLANS["regression"](campaign.budget) if line.task == task and line.model in MODELS]
        for model, directory in campaign.trained(lines).items():
            _release(directory, PRETRAINED / f"{model}-{task}")


def _release(directory: Path, out: Path) -> None:
    if out.exists() and _validation(directory) <= _validation(out):
        print(f"{out.name}: stays")
        return
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as scratch:
        try:
            record = release(directory, Path(scratch) / out.name)
        except MpnpError as error:
            print(f"{out.name}: not released, {error}")
            return
        shutil.rmtree(out, ignore_errors=True)
        shutil.move(Path(scratch) / out.name, out)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(f"{out.name}: target {record['scores']['target']['mean']:.3f}, {size / 1e6:.1f} MB")


def _validation(directory: Path) -> float:
    """Task log-likelihood of the best checkpoint, of which both kinds of run keep a curve."""
    return max(row["task"] for row in RunDirectory(directory).learning_curve())


if __name__ == "__main__":
    main()
