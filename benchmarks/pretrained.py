"""Models that come with the package: those of a campaign, in half precision, with the scores of exactly these files.

    python benchmarks/pretrained.py [--budget hours] [--tasks rbf matern ...]
    python benchmarks/pretrained.py --draw-only

Needs the records of `mpnp reproduce regression` and `images`; a model whose run is gone is trained again. A model that is there
already stays, unless the campaign's was better on validation tasks; that of digits was trained longer (docs/images.md). The
table of all of them goes to `results/pretrained`.
"""

import argparse
import shutil
import tempfile
from pathlib import Path

from mpnp.errors import MpnpError
from mpnp.records import read_json, write_atomically
from mpnp.release import release
from mpnp.reproduce.budgets import BUDGETS, Effort, find_budget
from mpnp.reproduce.campaign import Campaign
from mpnp.reproduce.engines import OneAfterAnother
from mpnp.reproduce.lines import Line
from mpnp.reproduce.plan import PLANS, REGRESSION_TASKS
from mpnp.reproduce.render import markdown
from mpnp.reproduce.runner import train_again
from mpnp.runs import PRETRAINED, RunDirectory

RELEASED = {**dict.fromkeys(REGRESSION_TASKS, ("cnp", "mpnp", "canp", "mpanp")), "mnist": ("mpanp",)}
"""Models by the task that they learnt."""
TABLE = Path(__file__).parents[1] / "results" / "pretrained" / "table.md"


def main() -> None:
    """Release what is trained, and better than what is there; then tabulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", choices=BUDGETS, default="hours", help="whose runs (default hours)")
    parser.add_argument("--tasks", nargs="+", choices=RELEASED, default=list(RELEASED), help="only these")
    parser.add_argument("--records", type=Path, default=Path("results/reproduce"), help="where the campaign's records are")
    parser.add_argument("--runs", type=Path, default=Path("runs/reproduce"), help="where its runs are")
    parser.add_argument("--draw-only", action="store_true", help="release nothing")
    options = parser.parse_args()
    campaign = Campaign(find_budget(options.budget), 1, options.records, options.runs, Path("results/ceilings"))
    lines = [] if options.draw_only else _lines(campaign, options.tasks)
    train_again(campaign, [line for line in lines if not _folder(line).exists()], OneAfterAnother(), print)
    for line in lines:
        for directory in campaign.trained([line]).values():
            _release(directory, _folder(line), campaign.effort(line))
    table = tabulate(campaign)
    write_atomically(TABLE, lambda file: file.write(table.encode()))
    print(table)


def _lines(campaign: Campaign, tasks: list[str]) -> list[Line]:
    lines = PLANS["regression"](campaign.budget) + PLANS["images"](campaign.budget)
    return [line for line in lines if line.task in tasks and line.model in RELEASED[line.task]]


def _folder(line: Line) -> Path:
    return PRETRAINED / f"{line.model}-{line.task}"


def _release(directory: Path, out: Path, effort: Effort) -> None:
    if out.exists() and _validation(directory) <= _validation(out):
        print(f"{out.name}: stays")
        return
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as scratch:
        try:
            release(directory, Path(scratch) / out.name, num_tasks=effort.num_test, num_samples=effort.num_samples)
        except MpnpError as error:
            print(f"{out.name}: not released, {error}")
            return
        shutil.rmtree(out, ignore_errors=True)
        shutil.move(Path(scratch) / out.name, out)


def _validation(directory: Path) -> float:
    """Task log-likelihood of the best checkpoint, of which both kinds of run keep a curve; none if it was not kept."""
    return max((row["task"] for row in RunDirectory(directory).learning_curve()), default=float("-inf"))


def tabulate(campaign: Campaign) -> str:
    """One row a model: what it cost, what its card promises, and what the same weights scored in single precision."""
    header = ["name", "parameters", "MB", "steps", "CPU-s", "target log-likelihood", "in single precision", "CRPS"]
    header += ["90% band covers", "test tasks"]
    lines = [line for line in _lines(campaign, list(RELEASED)) if RunDirectory(_folder(line)).scores(line.task).exists()]
    return markdown(header, [_cells(campaign, line) for line in lines])


def _cells(campaign: Campaign, line: Line) -> list[str]:
    record = read_json(RunDirectory(_folder(line)).scores(line.task))
    size = sum(path.stat().st_size for path in _folder(line).rglob("*") if path.is_file())
    scores, training, full = record["scores"], record["training"], campaign.record(line, 0)
    return [
        f"`{_folder(line).name}`",
        f"{record['parameters']:,}",
        f"{size / 1e6:.1f}",
        f"{training['recipe']['steps']:,}",
        f"{training['cpu_seconds']:,.0f}",
        f"{scores['target']['mean']:.4f} ± {scores['target']['standard_error']:.4f}",
        "" if full is None else f"{full.mean('target'):.4f}",
        f"{scores['crps']['mean']:.3f}",
        f"{scores['coverage_90']['mean']:.1%}",
        f"{record['evaluation']['num_tasks']:,}",
    ]


if __name__ == "__main__":
    main()
