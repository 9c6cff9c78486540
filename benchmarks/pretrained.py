"""Make the pretrained models: the best runs of a campaign in half precision, with the scores of exactly these files.

    python benchmarks/pretrained.py [--budget hours] [--tasks rbf matern ...]
    python benchmarks/pretrained.py --draw-only

Needs the records of `mpnp reproduce regression` and `images`; a model whose run is gone is trained again. An existing model is
kept, unless the campaign's is better on validation tasks; that of digits was trained longer (docs/images.md). Tables go to
`results/pretrained` and, of models that do not come with the package, to `results/weights`.
"""

import argparse
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from release import release

from mpnp.errors import MpnpError
from mpnp.io.files import read_json, write_atomically
from mpnp.reproduce.budgets import BUDGETS, Effort, find_budget
from mpnp.reproduce.campaign import Campaign
from mpnp.reproduce.executor import SequentialEngine, train_again
from mpnp.reproduce.experiments import EXPERIMENTS, REGRESSION_TASKS
from mpnp.reproduce.rows import ExperimentRow
from mpnp.reproduce.tables import markdown
from mpnp.training.rundir import PRETRAINED, RunDirectory

RELEASED = {**dict.fromkeys(REGRESSION_TASKS, ("cnp", "mpnp", "canp", "mpanp")), "mnist": ("mpanp",)}
"""Models by training task."""
RESULTS = Path(__file__).parents[1] / "results"
TABLE = RESULTS / "pretrained" / "table.md"
WEIGHTS = RESULTS / "weights"


def main() -> None:
    """Release trained models that beat the existing ones; then write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", choices=BUDGETS, default="hours", help="whose runs (default hours)")
    parser.add_argument("--tasks", nargs="+", choices=RELEASED, default=list(RELEASED), help="only these")
    parser.add_argument("--records", type=Path, default=Path("results/reproduce"), help="where the campaign's records are")
    parser.add_argument("--runs", type=Path, default=Path("runs/reproduce"), help="where its runs are")
    parser.add_argument("--draw-only", action="store_true", help="release nothing")
    options = parser.parse_args()
    campaign = Campaign(find_budget(options.budget), 1, options.records, options.runs, Path("results/ceilings"))
    lines = [] if options.draw_only else _lines(campaign, options.tasks)
    train_again(campaign, [line for line in lines if not _folder(line).exists()], SequentialEngine(), print)
    for line in lines:
        for directory in campaign.trained([line]).values():
            _release(directory, _folder(line), campaign.effort(line))
    lines = {_folder(line): line for line in _lines(campaign, list(RELEASED)) if _folder(line).exists()}
    others = sorted(path for path in PRETRAINED.iterdir() if path.is_dir() and path not in lines)
    beside = sorted(path for path in WEIGHTS.iterdir() if path.is_dir())
    for path, folders in ((TABLE, [*lines, *others]), (WEIGHTS / "table.md", beside)):
        table = tabulate(campaign, folders, lines)
        write_atomically(path, lambda file, table=table: file.write(table.encode()))
        print(table)


def _lines(campaign: Campaign, tasks: list[str]) -> list[ExperimentRow]:
    lines = EXPERIMENTS["regression"].rows(campaign.budget) + EXPERIMENTS["images"].rows(campaign.budget)
    return [line for line in lines if line.task in tasks and line.model in RELEASED[line.task]]


def _folder(line: ExperimentRow) -> Path:
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


def tabulate(campaign: Campaign, folders: Sequence[Path], lines: Mapping[Path, ExperimentRow]) -> str:
    """One row per model: cost, scores on its card, and score of the same weights in single precision."""
    header = ["name", "parameters", "MB", "steps", "CPU-s", "target log-likelihood", "in single precision", "CRPS"]
    header += ["90% band covers", "test tasks"]
    return markdown(header, [_cells(campaign, folder, lines.get(folder)) for folder in folders])


def _cells(campaign: Campaign, folder: Path, line: ExperimentRow | None) -> list[str]:
    (scored,) = (folder / "scores").iterdir()
    record = read_json(scored)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    scores, training = record["scores"], record["training"]
    return [
        f"`{folder.name}`",
        f"{record['parameters']:,}",
        f"{size / 1e6:.1f}",
        f"{training['recipe']['steps']:,}",
        f"{training['cpu_seconds']:,.0f}",
        f"{scores['target']['mean']:.4f} ± {scores['target']['standard_error']:.4f}",
        _single_precision(campaign, folder, line) + (" before recalibration" if "uncalibrated" in record else ""),
        f"{scores['crps']['mean']:.3f}",
        f"{scores['coverage_90']['mean']:.1%}",
        f"{record['evaluation']['num_tasks']:,}",
    ]


def _single_precision(campaign: Campaign, folder: Path, line: ExperimentRow | None) -> str:
    """The target score before rounding, where there is a record of it."""
    own = TABLE.parent / "single-precision" / f"{folder.name}.json"
    if own.exists():
        return f"{read_json(own)['scores']['target']['mean']:.4f}"
    full = None if line is None else campaign.record(line, 0)
    return "" if full is None else f"{full.mean('target'):.4f}"


if __name__ == "__main__":
    main()
