"""The report of a fit, for whoever has to decide whether to trust it: leaderboard, learning curve, forecasts, limits."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import matplotlib
import numpy as np

from mpnp.diagnostics.checking import check
from mpnp.diagnostics.report import Report
from mpnp.diagnostics.sections import Section, Table, Verdict
from mpnp.inference.assess import Cut, cut_curves
from mpnp.inference.leaderboard import NETWORK, Standing
from mpnp.inference.model import FittedModel
from mpnp.plotting.style import BAND, MEAN, STYLE
from mpnp.tables.curves import Curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["fit_report"]

NUM_CHECKED, NUM_EXAMPLES = 24, 6
"""Held-out tasks for which functions are drawn, and those that are shown."""

RIGHT_COVERAGE = (0.87, 0.93)
"""Coverages of the 90% band that count as right on a leaderboard."""

FEW_HELD_OUT = 10
"""Scores on fewer held-out tasks than these are mostly chance."""

LATE = 0.9
"""A best step after this share of the training suggests that more training would help."""


def fit_report(model: FittedModel, held_out: Curves, *, quiet: bool = False) -> Report:
    """The report of a fitted model, on curves that it was not trained on."""
    sections = [_leaderboard(model), _learning(model), _warnings(model), _examples(model, held_out)]
    checked = check(model, held_out, num_tasks=NUM_CHECKED, quiet=quiet)
    kept = [section for section in sections if section is not None]
    description = f"{len(held_out):,} tasks held out from training; below the example forecasts, the network alone is checked"
    return Report(
        f"{model.card.model} fitted to {', '.join(model.card.columns.outputs)}", description, [*kept, *checked.sections], 0
    )


def _leaderboard(model: FittedModel) -> Section | None:
    board = model.leaderboard
    if board is None:
        return None
    header = ["forecaster", "tasks", "log-likelihood", "behind", "CRPS", "RMSE", "90% band covers"]
    rows = [[s.name, split, *_cells(s)] for split in ("validation", "test") for s in getattr(board, split)]
    best = next(standing for standing in board.validation if standing.name == board.best)
    low, high = RIGHT_COVERAGE
    band = Verdict(
        f"The 90% band of '{board.best}' covers {best.coverage_90:.1%} of held-out values.", low <= best.coverage_90 <= high
    )
    return Section(
        "leaderboard",
        "Leaderboard",
        "The network and simple rivals, scored on the same held-out tasks. Log-likelihood: higher is better; CRPS and RMSE: "
        "lower is better. The stack is scored with weights learnt on other tasks.",
        [Verdict(board.verdict(), None if board.best != NETWORK else True), band],
        [Table(header, rows)],
        board.to_json(),
    )


def _cells(standing: Standing) -> list[str]:
    behind = f"{standing.behind:.3f} ± {standing.behind_error:.3f}"
    return [
        f"{standing.log_likelihood:.3f}",
        behind,
        f"{standing.crps:.4g}",
        f"{standing.rmse:.4g}",
        f"{standing.coverage_90:.1%}",
    ]


def _learning(model: FittedModel) -> Section | None:
    about = model.card.about
    rows = about.get("learning_curve")
    if not rows:
        return None
    best, done, planned = about["progress"]["best_step"], about["steps_done"], about["recipe"]["steps"]
    late = best > LATE * planned
    text = f"The best validation score was at step {best:,} of {done:,}."
    text += " It was still improving: more training may help (--max-minutes)." if late else ""
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 2.6), layout="constrained")
        ax = figure.subplots()
        ax.plot([row["step"] for row in rows], [row["target"] for row in rows], color=MEAN)
        ax.axvline(best, color="black", lw=0.7)
        ax.set(xlabel="step", ylabel="validation log-likelihood")
    return Section(
        "learning", "Learning curve", "Log-likelihood of validation targets in training; the line marks the step that is kept.",
        [Verdict(text, not late)], [], {"rows": rows, "best_step": best}, [figure],
    )  # fmt: skip


def _warnings(model: FittedModel) -> Section:
    about, seen = model.card.about, model.card.seen
    num_held_out = about["tasks"]["validation"]
    verdicts = [
        Verdict(f"{num_held_out} validation tasks are few: all scores here are uncertain.", False)
        if num_held_out < FEW_HELD_OUT
        else Verdict(f"{num_held_out} validation tasks judge the model.", True),
        Verdict(f"Contexts of more than {seen.largest_context} rows are larger than any in training.", None),
    ]
    if board := model.leaderboard:
        verdicts += [Verdict(f"'{name}' was not compared: {reason}.", None) for name, reason in board.skipped.items()]
    return Section("limits", "Limits", "What to keep in mind.", verdicts, [], {"validation_tasks": num_held_out})


def _examples(model: FittedModel, held_out: Curves) -> Section | None:
    if len(model.card.columns.inputs) != 1:
        return None
    numbers = np.random.default_rng(0).permutation(np.flatnonzero(held_out.counts > 1))[:NUM_EXAMPLES]
    chosen = held_out.select(numbers.tolist())
    cuts = cut_curves(chosen, model.card.about["context"], max_rows=model.card.seen.largest_context + 1, num_cuts=1, seed=0)
    return Section(
        "examples", "Example forecasts", "Held-out tasks, drawn at random: the context (black), what it leaves open "
        "(white), the mean and the 90% band.", [], [], {}, [_forecasts(model, cuts, chosen.names)],
    )  # fmt: skip


def _forecasts(model: FittedModel, cuts: Sequence[Cut], names: Sequence[object]) -> "Figure":
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 2.4 * -(-len(cuts) // 3)), layout="constrained")
        axes = figure.subplots(-(-len(cuts) // 3), 3, squeeze=False).ravel()
        for ax in axes[len(cuts) :]:
            ax.set_visible(False)
        for ax, (x, y, x_rest, y_rest, *_), name in zip(axes, cuts, names, strict=False):
            at = np.unique(np.concatenate([x, x_rest, np.linspace(x_rest.min(), x_rest.max(), 50)[:, None]]), axis=0)
            (prediction,) = model.predict_pairs([(x, y)], [at], 32)
            low, high = np.moveaxis(prediction.quantiles([0.05, 0.95])[:, 0], -1, 0)
            ax.fill_between(at[:, 0], low, high, color=BAND, alpha=0.5, lw=0)
            ax.plot(at[:, 0], prediction.mean[:, 0], color=MEAN)
            ax.plot(x[:, 0], y[:, 0], "ko", ms=3.5)
            ax.plot(x_rest[:, 0], y_rest[:, 0], "o", mfc="white", mec="black", ms=3.5)
            ax.set_title(str(name))
    return figure
