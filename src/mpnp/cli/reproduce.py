"""The command that makes the paper's tables and figures: run what is missing, then write what can be written."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mpnp.cli.table import format_table
from mpnp.errors import InputError, unknown_name
from mpnp.reproduce.budgets import find_budget
from mpnp.reproduce.campaign import Campaign
from mpnp.reproduce.engines import find_engine
from mpnp.reproduce.lines import Line
from mpnp.reproduce.runner import run_missing, train_again

if TYPE_CHECKING:
    from mpnp.reproduce.artefacts import Artefact

__all__ = ["reproduce"]

EVERYTHING = "all"


def reproduce(options: argparse.Namespace) -> None:
    """List the tables and figures, or make those that are named."""
    from mpnp.reproduce.artefacts import ARTEFACTS, find_artefact  # here, because matplotlib takes half a second to import

    budget = find_budget(options.budget)
    seeds = budget.num_seeds if options.seeds is None else options.seeds
    campaign = Campaign(budget, seeds, options.out, options.runs, options.ceilings)
    if not options.names:
        print(_listing(campaign, list(ARTEFACTS.values())))
        return
    names = list(ARTEFACTS) if EVERYTHING in options.names else list(dict.fromkeys(options.names))
    selection = _select(campaign, [find_artefact(name) for name in names], options)
    try:
        for artefact, lines in selection:
            if not options.draw_only:
                _run(campaign, artefact, lines, options)
            _show(campaign, artefact)
    except KeyboardInterrupt:
        print(f"what is done is kept in {campaign.folder}; the same command continues")
        raise


Selection = list[tuple["Artefact", list[Line]]]


def _select(campaign: Campaign, artefacts: Sequence["Artefact"], options: argparse.Namespace) -> Selection:
    """The lines of the models and tasks asked for, if any are; a table shows all its lines whatever is run now."""
    lines_of = [(artefact, artefact.lines(campaign)) for artefact in artefacts]
    every = [line for _, lines in lines_of for line in lines]
    _require_among("model", options.models, [line.model for line in every])
    _require_among("task", options.tasks, [task for line in every for task in (line.task, line.tested_on)])
    chosen = [(artefact, [line for line in lines if _is_chosen(line, options)]) for artefact, lines in lines_of]
    if not any(lines for _, lines in chosen):
        raise InputError(f"no line is of {', '.join(options.models)} on {', '.join(options.tasks)}; leave out either choice")
    return [(artefact, lines) for artefact, lines in chosen if lines]


def _require_among(kind: str, wanted: Sequence[str] | None, found: Sequence[str]) -> None:
    """Refuse names that no line has."""
    for name in wanted or ():
        if name not in found:
            raise unknown_name(kind, name, found, f"What you chose has: {', '.join(dict.fromkeys(found))}.")


def _is_chosen(line: Line, options: argparse.Namespace) -> bool:
    return (not options.models or line.model in options.models) and (
        not options.tasks or bool({line.task, line.tested_on} & set(options.tasks))
    )


def _run(campaign: Campaign, artefact: "Artefact", lines: Sequence[Line], options: argparse.Namespace) -> None:
    say = (lambda text: None) if options.quiet else print
    engine = find_engine(options.engine)
    for obstacle in dict.fromkeys(filter(None, map(campaign.obstacle, lines))):
        say(f"{artefact.name}: lines are left out, {obstacle}")
    run_missing(campaign, lines, engine, say)
    train_again(campaign, artefact.needs(campaign, lines), engine, say)
    if artefact.study is not None:
        artefact.study(campaign, lines)


def _show(campaign: Campaign, artefact: "Artefact") -> None:
    lines = artefact.lines(campaign)
    paths = [path for output in artefact.outputs for path in output(campaign, lines)]
    for path in paths:
        if path.suffix == ".md":
            print(path.read_text())
    for path in paths:
        print(f"wrote {path}")
    if not paths:
        print(f"{artefact.name}: nothing to draw, no model of it has been trained")


def _listing(campaign: Campaign, artefacts: Sequence["Artefact"]) -> str:
    rows = [[artefact.name, artefact.title, *_state(campaign, artefact.lines(campaign))] for artefact in artefacts]
    effort = f"budget '{campaign.budget.name}': {campaign.budget.about}; seeds: {campaign.num_seeds}; in {campaign.folder}"
    return "\n".join([format_table(["name", "what", "lines done", "runs to make", "needs"], rows), "", effort])


def _state(campaign: Campaign, lines: Sequence[Line]) -> list[str]:
    done = sum(len(campaign.records(line)) == campaign.num_seeds for line in lines)
    blocked = sorted({line.task for line in lines if campaign.obstacle(line) is not None})
    ready = [line for line in lines if line.task not in blocked]
    return [
        f"{done} of {len(lines)}",
        str(campaign.count_missing(ready)),
        f"data of {', '.join(blocked)} ('mpnp data')" if blocked else "",
    ]
