"""`mpnp bayesopt`: compare models at minimising test functions."""

import argparse
import dataclasses
import itertools
from pathlib import Path

from mpnp.bayesopt.acquisition import ACQUISITIONS, EXPECTED_IMPROVEMENT
from mpnp.bayesopt.benchmark import (
    SUMMARY_HEADER,
    Study,
    read_acquisitions,
    read_records,
    run_study,
    study_folder,
    summary_cells,
)
from mpnp.bayesopt.objectives import OBJECTIVES
from mpnp.cli.fields import add_field, file_path, given
from mpnp.cli.table import format_table
from mpnp.errors import RunError
from mpnp.io.files import write_atomically
from mpnp.reproduce.tables import markdown

__all__ = ["add_arguments", "run"]

MODELS = ("mpanp-rbf", "gp-rbf", "random")

FLAGS = {"num_trials": "--trials", "num_iterations": "--iterations", "num_samples": "--num-samples", "seed": "--seed"}
"""Fields of a study that the command line can set."""

EPILOG = """\
examples:
  mpnp bayesopt forrester --models mpanp-rbf gp-rbf random --trials 10
  mpnp bayesopt --models runs/mpanp runs/canp gp-rbf gp random --out results/bayesopt
  mpnp bayesopt --draw-only                     table and figures of the existing records

A model is the directory of a run or of a fitted model, the name of a model that comes with mpnp, gp-rbf for a Gaussian process
whose kernel was learnt from the rbf tasks (the paper's baseline), gp for one that is fitted to each search, or random for
random search. Completed runs are skipped, so rerunning resumes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to minimise, with which models, and every setting of the study."""
    parser.epilog = EPILOG
    parser.add_argument(
        "objectives", nargs="*", metavar="OBJECTIVE", help=f"functions to minimise: {', '.join(OBJECTIVES)} (default: all)"
    )
    parser.add_argument("--models", nargs="+", metavar="MODEL", help=f"models to compare (default {' '.join(MODELS)})")
    parser.add_argument(
        "--acquisitions", nargs="+", default=[EXPECTED_IMPROVEMENT], metavar="NAME",
        help=f"acquisition functions: {', '.join(ACQUISITIONS)} (default {EXPECTED_IMPROVEMENT})",
    )  # fmt: skip
    for field in dataclasses.fields(Study):
        if field.name in FLAGS:
            add_field(parser, field, FLAGS[field.name], default=field.default)
    parser.add_argument(
        "--out", type=file_path, default=Path("results/bayesopt"), metavar="FOLDER",
        help="folder of records and figures (default %(default)s)",
    )  # fmt: skip
    parser.add_argument("--draw-only", action="store_true", help="run nothing; show the existing records")
    parser.add_argument("--quiet", action="store_true", help="print no progress")


def run(args: argparse.Namespace) -> None:
    """Minimise every test function with every model, and compare."""
    from mpnp.io.compile_cache import keep_compiled_programs

    keep_compiled_programs()
    choices = given(args, Study)
    by_objective = {
        objective: [Study(**{**choices, "objective": objective, "acquisition": name}) for name in args.acquisitions]
        for objective in args.objectives or OBJECTIVES
    }
    if not args.draw_only:
        for study in itertools.chain.from_iterable(by_objective.values()):
            _run(study, args)
    for studies in by_objective.values():
        for study in studies:
            _show(study, args.out)
        _show_acquisitions(studies[0], args.out)


def _run(study: Study, args: argparse.Namespace) -> None:
    try:
        run_study(study, args.models or MODELS, args.out, quiet=args.quiet)
    except KeyboardInterrupt:
        print(f"completed records are kept in {args.out}; rerun the command to resume")
        raise


def _show(study: Study, out: Path) -> None:
    """Print and write the table, and draw the figures."""
    from mpnp.bayesopt.figures import predicted_figure, regret_figure  # matplotlib takes half a second to import
    from mpnp.plotting.style import save_figure

    records, folder = read_records(out, study), study_folder(out, study)
    if not records:
        raise RunError(f"{folder} holds no records; run the command without --draw-only first")
    rows = [[label, *summary_cells(record)] for label, record in records.items()]
    print(format_table([f"{study.objective}, {study.acquisition}", *SUMMARY_HEADER], rows))
    text = markdown(["model", *SUMMARY_HEADER], rows)
    write_atomically(folder / "table.md", lambda file: file.write(text.encode()))
    print(f"wrote {folder / 'table.md'}")
    for name, figure in (("regret", regret_figure(records)), ("predicted", predicted_figure(records))):
        if figure is not None:
            save_figure(figure, folder / f"{name}.png")
            print(f"wrote {folder / name}.png")


def _show_acquisitions(study: Study, out: Path) -> None:
    """One figure that compares acquisition functions, if a model was run with several."""
    from mpnp.bayesopt.figures import acquisitions_figure
    from mpnp.plotting.style import save_figure

    if (figure := acquisitions_figure(read_acquisitions(out, study))) is not None:
        path = study_folder(out, study).parent / "acquisitions.png"
        save_figure(figure, path)
        print(f"wrote {path}")
