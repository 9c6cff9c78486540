"""The command for the study of Bayesian optimisation: run what has no record yet, then show all records."""

import argparse
import itertools
from pathlib import Path
from typing import Any

from mpnp.bayesopt.objectives import OBJECTIVES
from mpnp.bayesopt.study import Study, read_acquisitions, read_records, regret_quartiles, run_study, study_folder
from mpnp.cli.commands import given
from mpnp.cli.table import format_number, format_table
from mpnp.errors import RunError

__all__ = ["bayesopt"]

MODELS = ("mpanp-rbf", "gp", "random")


def bayesopt(options: argparse.Namespace) -> None:
    """Search the minima of the test functions with every model, and compare."""
    choices = given(options, Study)
    by_objective = {
        objective: [Study(**{**choices, "objective": objective, "acquisition": name}) for name in options.acquisitions]
        for objective in options.objectives or OBJECTIVES
    }
    if not options.draw_only:
        for study in itertools.chain.from_iterable(by_objective.values()):
            _run(study, options)
    for studies in by_objective.values():
        for study in studies:
            _show(study, options.out)
        _show_acquisitions(studies[0], options.out)


def _run(study: Study, options: argparse.Namespace) -> None:
    try:
        run_study(study, options.models or MODELS, options.out, quiet=options.quiet)
    except KeyboardInterrupt:
        print(f"finished records are kept in {options.out}; the same command continues")
        raise


def _show(study: Study, out: Path) -> None:
    from mpnp.bayesopt.figures import predicted_figure, regret_figure  # here, because matplotlib takes half a second
    from mpnp.pictures import save_figure

    records, folder = read_records(out, study), study_folder(out, study)
    if not records:
        raise RunError(f"{folder} holds no records; make them first, without --draw-only")
    print(_table(study, records))
    for name, figure in (("regret", regret_figure(records)), ("predicted", predicted_figure(records))):
        if figure is not None:
            save_figure(figure, folder / f"{name}.png")
            print(f"wrote {folder / name}.png")


def _show_acquisitions(study: Study, out: Path) -> None:
    """All ways to choose in one figure, where a model was run with several."""
    from mpnp.bayesopt.figures import acquisitions_figure
    from mpnp.pictures import save_figure

    if (figure := acquisitions_figure(read_acquisitions(out, study))) is not None:
        path = study_folder(out, study).parent / "acquisitions.png"
        save_figure(figure, path)
        print(f"wrote {path}")


def _table(study: Study, records: dict[str, Any]) -> str:
    """Regret at the end, and its sum over all iterations: the median trial, and where the middle half lies."""
    rows = []
    for label, record in records.items():
        cells = [label]
        for (low, median, high), digits in zip(regret_quartiles(record).values(), (5, 2), strict=True):
            cells += [format_number(median, digits), f"{format_number(low, digits)} to {format_number(high, digits)}"]
        rows.append(cells)
    return format_table([f"{study.objective}, {study.acquisition}", "regret", "quartiles", "sum", "quartiles"], rows)
