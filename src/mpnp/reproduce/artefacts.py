"""Every table and figure of the paper by name: what it needs, and what is written of it."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path

from mpnp.errors import unknown_name
from mpnp.reproduce import figures, pseudo_study, searches
from mpnp.reproduce.campaign import Campaign
from mpnp.reproduce.lines import Line
from mpnp.reproduce.plan import PLANS
from mpnp.reproduce.tables import TableView, write_tables

__all__ = ["ARTEFACTS", "Artefact", "find_artefact"]

Output = Callable[[Campaign, Sequence[Line]], list[Path]]
"""Writes what the records and runs that exist allow, and says which files those are."""

Needs = Callable[[Campaign, Sequence[Line]], list[Line]]
"""The lines whose trained models have to be there, beside their records."""


def _no_models(campaign: Campaign, lines: Sequence[Line]) -> list[Line]:
    return []


def _all_models(campaign: Campaign, lines: Sequence[Line]) -> list[Line]:
    return list(lines)


ABOVE_ITS_ORACLE = (
    "Our own protocol: x uniform in [-2, 2] in each of four dimensions, at most 50 points. No difference to the paper is "
    "given: its numbers lie above what exact inference reaches under the protocol it states."
)

OVERLAPPING = (
    "Tasks of hare-lynx are windows of one series of 91 years and overlap: their standard errors and intervals speak of "
    "windows of this series, not of other series."
)


@dataclasses.dataclass(frozen=True)
class Artefact:
    """A table or figure of the paper, or a study of what it leaves open."""

    name: str
    title: str
    outputs: tuple[Output, ...]
    study: Callable[[Campaign, Sequence[Line]], None] | None = None
    """What is to be measured on trained models beside their test scores."""
    needs: Needs = _no_models

    def lines(self, campaign: Campaign) -> list[Line]:
        """The lines that it needs."""
        return PLANS[self.name](campaign.budget)


def _table(view: TableView, *more: Output) -> Artefact:
    """A table with its learning curves."""
    outputs = (functools.partial(_write, view), functools.partial(figures.learning_curves, view.name), *more)
    return Artefact(view.name, view.title, outputs)


def _write(view: TableView, campaign: Campaign, lines: Sequence[Line]) -> list[Path]:
    return write_tables(campaign, view, lines)


_ALL = (
    _table(TableView("regression", "1-D regression", "regression", metrics=("context", "target"))),
    _table(TableView("regression-full", "1-D regression with task log-likelihoods", "regression")),
    _table(TableView("finite-data", "1-D regression from finite training sets"), figures.finite_data_figure),
    _table(TableView("size-matched", "Baselines enlarged to the martingale models' size", "size-matched")),
    _table(TableView("4d", "4-D regression", "4d", differences=False, remark=ABOVE_ITS_ORACLE)),
    _table(TableView("images", "Image completion", "images"), figures.image_figures),
    _table(TableView("predator-prey", "Predators and prey", "predator-prey", remark=OVERLAPPING), figures.population_figures),
    Artefact(
        "bayesopt",
        "Bayesian optimisation",
        (searches.search_table, searches.search_figures),
        searches.run_searches,
        searches.unsearched,
    ),
    _table(TableView("direct", "Directly generating models", "direct"), figures.direct_figures),
    Artefact("posterior-samples", "Posterior samples of MPANP", (figures.sample_figure,), needs=_all_models),
    Artefact(
        "num-pseudo",
        "Number of pseudo points in training",
        (pseudo_study.num_pseudo_table, functools.partial(figures.learning_curves, "num-pseudo")),
    ),
    Artefact(
        "pseudo-use",
        "What pseudo contexts do in trained models",
        (pseudo_study.pseudo_table, pseudo_study.pseudo_figure),
        pseudo_study.measure_pseudo_use,
        pseudo_study.unmeasured,
    ),
    Artefact(
        "learning-curves",
        "Validation against CPU time, 1-D regression",
        (functools.partial(figures.learning_curves, "regression"),),
    ),
)

ARTEFACTS: dict[str, Artefact] = {artefact.name: artefact for artefact in _ALL}


def find_artefact(name: str) -> Artefact:
    """The table or figure of that name."""
    if name not in ARTEFACTS:
        raise unknown_name("table or figure", name, ARTEFACTS, "Run 'mpnp reproduce' to see them all.")
    return ARTEFACTS[name]
