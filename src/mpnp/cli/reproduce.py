"""`mpnp reproduce`: make the paper's tables and figures, including the runs they need."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mpnp.cli.fields import file_path
from mpnp.cli.table import format_table
from mpnp.errors import InputError, unknown_name
from mpnp.reproduce.budgets import BUDGETS, find_budget

if TYPE_CHECKING:
    from mpnp.reproduce.campaign import Campaign
    from mpnp.reproduce.costs import Costs
    from mpnp.reproduce.experiments import Experiment
    from mpnp.reproduce.rows import ExperimentRow

__all__ = ["add_arguments", "run"]

EVERYTHING = "all"

EPILOG = """\
examples:
  mpnp reproduce                                list the tables and figures, and how far they are
  mpnp reproduce direct --budget minutes        make one table
  mpnp reproduce regression size-matched --budget hours --seeds 2
  mpnp reproduce all --budget paper --engine ray
  mpnp reproduce all --draw-only                tables and figures of the existing records
  mpnp reproduce direct --retrain               train again what figures show and whose runs were deleted

Completed runs are skipped, so rerunning resumes. Records, tables (Markdown and LaTeX) and figures are written to OUT/BUDGET."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to reproduce, at what cost, and where to keep it."""
    from mpnp.reproduce.executor import ENGINES

    parser.epilog = EPILOG
    parser.add_argument("names", nargs="*", metavar="NAME", help="tables and figures, or all (default: list them)")
    parser.add_argument(
        "--budget", default="minutes", metavar="NAME", help=f"compute to spend: {', '.join(BUDGETS)} (default %(default)s)"
    )
    parser.add_argument("--seeds", type=int, metavar="N", help="training runs per model (default: as many as the budget says)")
    parser.add_argument("--models", nargs="+", metavar="MODEL", help="run these models only")
    parser.add_argument("--tasks", nargs="+", metavar="TASK", help="run only what is trained or tested on these tasks")
    for flag, default, text in (
        ("--out", "results/reproduce", "records, tables and figures"),
        ("--runs", "runs/reproduce", "training runs"),
        ("--ceilings", "results/ceilings", "records of ceilings"),
    ):
        parser.add_argument(
            flag, type=file_path, default=Path(default), metavar="FOLDER", help=f"folder of {text} (default %(default)s)"
        )
    parser.add_argument(
        "--engine", default="sequential", metavar="NAME", help=f"how jobs are run: {', '.join(ENGINES)} (default %(default)s)"
    )
    parser.add_argument("--retrain", action="store_true", help="train models again that figures show and whose runs are gone")
    parser.add_argument("--draw-only", action="store_true", help="run nothing; show the existing records")
    parser.add_argument("--quiet", action="store_true", help="print no progress")


def run(args: argparse.Namespace) -> None:
    """List the tables and figures, or make the named ones."""
    from mpnp.io.compile_cache import keep_compiled_programs
    from mpnp.reproduce.campaign import Campaign
    from mpnp.reproduce.experiments import EXPERIMENTS, find_experiment

    keep_compiled_programs()
    budget = find_budget(args.budget)
    seeds = budget.num_seeds if args.seeds is None else args.seeds
    campaign = Campaign(budget, seeds, args.out, args.runs, args.ceilings)
    if not args.names:
        print(_listing(campaign, list(EXPERIMENTS.values())))
        return
    names = list(EXPERIMENTS) if EVERYTHING in args.names else list(dict.fromkeys(args.names))
    selection = _select(campaign, [find_experiment(name) for name in names], args)
    try:
        for experiment, rows in selection:
            if not args.draw_only:
                _run(campaign, experiment, rows, args)
            _show(campaign, experiment)
    except KeyboardInterrupt:
        print(f"completed records are kept in {campaign.folder}; rerun the command to resume")
        raise


def _select(
    campaign: "Campaign", experiments: Sequence["Experiment"], args: argparse.Namespace
) -> "list[tuple[Experiment, list[ExperimentRow]]]":
    """The rows to run, for the selected models and tasks. Tables show all rows, whatever is run now."""
    rows_of = [(experiment, experiment.rows(campaign.budget)) for experiment in experiments]
    every = [row for _, rows in rows_of for row in rows]
    _require_among("model", args.models, [row.model for row in every])
    _require_among("task", args.tasks, [task for row in every for task in (row.task, row.tested_on)])
    chosen = [(experiment, [row for row in rows if _is_chosen(row, args)]) for experiment, rows in rows_of]
    if not any(rows for _, rows in chosen):
        models, tasks = ", ".join(args.models), ", ".join(args.tasks)
        raise InputError(f"no row combines {models} with {tasks}; leave out --models or --tasks")
    return [(experiment, rows) for experiment, rows in chosen if rows]


def _require_among(kind: str, wanted: Sequence[str] | None, found: Sequence[str]) -> None:
    """Raise an error for names that no row has."""
    for name in wanted or ():
        if name not in found:
            raise unknown_name(kind, name, found, f"Your selection has: {', '.join(dict.fromkeys(found))}.")


def _is_chosen(row: "ExperimentRow", args: argparse.Namespace) -> bool:
    return (not args.models or row.model in args.models) and (
        not args.tasks or bool({row.task, row.tested_on} & set(args.tasks))
    )


def _run(campaign: "Campaign", experiment: "Experiment", rows: Sequence["ExperimentRow"], args: argparse.Namespace) -> None:
    from mpnp.reproduce.executor import find_engine, run_missing, train_again

    say = (lambda text: None) if args.quiet else print
    engine = find_engine(args.engine)
    for obstacle in dict.fromkeys(filter(None, map(campaign.obstacle, rows))):
        say(f"{experiment.name}: rows are left out, {obstacle}")
    run_missing(campaign, rows, engine, say)
    shown = [row for row in experiment.shown(rows) if args.retrain and campaign.obstacle(row) is None]
    train_again(campaign, [*experiment.needs(campaign, rows), *shown], engine, say)
    if experiment.study is not None:
        experiment.study(campaign, rows)


def _show(campaign: "Campaign", experiment: "Experiment") -> None:
    """Write the outputs of an experiment, and print its tables."""
    rows = experiment.rows(campaign.budget)
    paths = [path for output in experiment.outputs for path in output(campaign, rows)]
    for path in paths:
        if path.suffix == ".md":
            print(path.read_text())
    for path in paths:
        print(f"wrote {path}")
    blocked = [row for row in experiment.shown(rows) if campaign.records(row)]
    for obstacle in dict.fromkeys(filter(None, map(campaign.obstacle, blocked))):
        print(f"{experiment.name}: figures are left out, {obstacle}")
    if gone := list(dict.fromkeys(row.label for row in campaign.without_runs(experiment.shown(rows)))):
        again = f"mpnp reproduce {experiment.name} --budget {campaign.budget.name} --retrain"
        print(f"{experiment.name}: no figures of {', '.join(gone)}, whose runs are gone; '{again}' makes them again")
    elif not paths:
        print(f"{experiment.name}: nothing to draw, because none of its models has been trained")


def _listing(campaign: "Campaign", experiments: Sequence["Experiment"]) -> str:
    from mpnp.reproduce.costs import Costs

    costs = Costs.read(campaign.out)
    rows_of = {experiment: experiment.rows(campaign.budget) for experiment in experiments}
    every = [row for rows in rows_of.values() for row in rows]
    blocked = {task for task, row in {row.task: row for row in every}.items() if campaign.obstacle(row) is not None}
    rows = [
        [experiment.name, experiment.title, *_progress(campaign, rows, blocked, costs)] for experiment, rows in rows_of.items()
    ]
    together = _hours(campaign, [row for row in every if row.task not in blocked], costs)
    total = f"all missing runs together, with those that tables share counted once: {together or '0'} CPU-hours of training"
    effort = f"budget '{campaign.budget.name}': {campaign.budget.about}; seeds: {campaign.num_seeds}; in {campaign.folder}"
    columns = ["name", "title", "rows done", "runs to make", "CPU-hours", "needs"]
    return "\n".join([format_table(columns, rows), "", total, effort])


def _progress(campaign: "Campaign", rows: Sequence["ExperimentRow"], blocked: set[str], costs: "Costs") -> list[str]:
    done = sum(len(campaign.records(row)) == campaign.num_seeds for row in rows)
    lacking = sorted({row.task for row in rows} & blocked)
    ready = [row for row in rows if row.task not in blocked]
    return [
        f"{done} of {len(rows)}",
        str(campaign.count_missing(ready)),
        _hours(campaign, ready, costs),
        f"data of {', '.join(lacking)} ('mpnp data')" if lacking else "",
    ]


def _hours(campaign: "Campaign", rows: Sequence["ExperimentRow"], costs: "Costs") -> str:
    """CPU-hours of the missing runs, as far as runs of the same models have been recorded."""
    seconds = [costs.seconds(job.run) for job in campaign.missing_trials(rows) + campaign.missing_runs(rows)]
    known = [value for value in seconds if value is not None]
    unknown = [f"{len(seconds) - len(known)} runs of unknown cost"] * (len(known) < len(seconds))
    return " + ".join([f"{sum(known) / 3600:.1f}"] * bool(known) + unknown)
