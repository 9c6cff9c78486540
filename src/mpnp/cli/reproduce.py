"""The command that makes the paper's tables and figures: run what is missing, then write what can be written."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mpnp.cli.table import format_table
from mpnp.errors import InputError
from mpnp.models.catalogue import find_model
from mpnp.reproduce.budgets import find_budget
from mpnp.reproduce.campaign import Campaign
from mpnp.reproduce.engines import find_engine
from mpnp.reproduce.lines import Line
from mpnp.reproduce.runner import run_missing

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
    for model in options.models or ():
        find_model(model)
    if not options.names:
        print(_listing(campaign, list(ARTEFACTS.values())))
        return
    names = list(ARTEFACTS) if EVERYTHING in options.names else list(dict.fromkeys(options.names))
    artefacts = [find_artefact(name) for name in names]
    if not options.draw_only:
        _run(campaign, artefacts, options)
    for artefact in artefacts:
        _show(campaign, artefact)


def _run(campaign: Campaign, artefacts: Sequence["Artefact"], options: argparse.Namespace) -> None:
    say = (lambda text: None) if options.quiet else print
    engine = find_engine(options.engine)
    try:
        for artefact in artefacts:
            lines = _chosen(artefact.lines(campaign), options)
            for obstacle in dict.fromkeys(filter(None, map(campaign.obstacle, lines))):
                say(f"{artefact.name}: lines are left out, {obstacle}")
            run_missing(campaign, lines, engine, say)
            if artefact.study is not None:
                artefact.study(campaign, lines)
    except KeyboardInterrupt:
        print(f"what is done is kept in {campaign.folder}; the same command continues")
        raise


def _chosen(lines: Sequence[Line], options: argparse.Namespace) -> list[Line]:
    """Those of the models and tasks asked for, if any are; the table shows all lines whatever was run now."""
    tasks = {task for line in lines for task in (line.task, line.tested_on)}
    if options.tasks and not tasks & set(options.tasks):
        raise InputError(
            f"none of these lines is of the tasks {', '.join(options.tasks)}; choose from {', '.join(sorted(tasks))}"
        )
    return [
        line
        for line in lines
        if (not options.models or line.model in options.models)
        and (not options.tasks or {line.task, line.tested_on} & set(options.tasks))
    ]


def _show(campaign: Campaign, artefact: "Artefact") -> None:
    lines = artefact.lines(campaign)
    paths = [path for output in artefact.outputs for path in output(campaign, lines)]
    for path in paths:
        if path.suffix == ".md":
            print(path.read_text())
    for path in paths:
        print(f"wrote {path}")
    if not paths:
        print(f"{artefact.name}: nothing to draw yet, its runs are missing; make them without --draw-only")


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
