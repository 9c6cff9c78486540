"""How well does `fit` learn real data sets of small related curves, next to simple forecasts on the same held-out tasks?

    python benchmarks/own_data.py                        what has no record yet, with the default fit (five minutes each)
    python benchmarks/own_data.py --max-minutes 0.5      the same with a tenth of the time
    python benchmarks/own_data.py --sets pigs --steps 400 --label short
    python benchmarks/own_data.py --runs DIRECTORY       keep fits there: one that was interrupted continues, and one that is
                                                         finished is judged anew, next to the rivals of today, without training

A quarter of the tasks, drawn with a fixed seed, is held out for the scores; the scales, the stopping and the choice of a
forecaster use the other tasks only. Each set and label has one record in results/own-data, with seed, budget and commit.
"""

import argparse
import dataclasses
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from own_data_sets import SETS, DataSet

from mpnp.inference.assess import Cut, HeldOut, cut_curves, outcomes, score_outputs
from mpnp.inference.card import TrainingDomain
from mpnp.inference.describe import held_out, judge
from mpnp.inference.files import CARD
from mpnp.inference.fit import FitOptions, fit_curves, has_unfinished_fit, resume_fit
from mpnp.inference.leaderboard import NETWORK, rank
from mpnp.inference.model import FittedModel, load
from mpnp.inference.prediction import Prediction
from mpnp.io.compile_cache import keep_compiled_programs
from mpnp.io.files import environment, read_json, write_atomically, write_json
from mpnp.reproduce.tables import markdown
from mpnp.tables.dataset import CurveDataset

RESULTS = Path(__file__).parents[1] / "results" / "own-data"
TEST, SEED = 0.25, 0
NUM_CONTEXTS, NUM_DRAWS = 40, 128
"""Contexts whose functionals are judged, and draws of each."""

FUNCTIONALS: dict[str, Callable[[np.ndarray], Any]] = {"maximum": np.nanmax, "mean": np.nanmean}
"""Of what is still to come of a curve."""


def main() -> None:
    """Fit what has no record, then tabulate all records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--max-minutes", type=float, default=FitOptions().max_minutes)
    parser.add_argument("--steps", type=int, help="a fixed number of steps instead")
    parser.add_argument("--model", default=FitOptions().model)
    parser.add_argument("--runs", type=Path, help="directory for unfinished fits (default: a temporary one)")
    parser.add_argument("--label", default="default", help="names the records, if the budget is not the default one")
    options = parser.parse_args()
    keep_compiled_programs()
    for name in options.sets:
        path = RESULTS / f"{name}-{options.label}.json"
        if not path.exists():
            fit_options = FitOptions(
                options.model, SETS[name].context, options.max_minutes, options.steps, test=TEST, seed=SEED
            )
            out = None if options.runs is None else options.runs / f"{name}-{options.label}"
            write_json(path, measure(name, SETS[name], fit_options, out))
    table = tabulate([read_json(path) for path in sorted(RESULTS.glob("*.json"))])
    write_atomically(RESULTS / "table.md", lambda file: file.write(table.encode()))
    print(table)


def measure(name: str, data: DataSet, options: FitOptions, out: Path | None) -> dict[str, Any]:
    """The record of one data set. Its fit continues from where it was interrupted, and is judged anew if it is finished."""
    curves = data.curves()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = CurveDataset(curves, options.context, options.validation, options.test, options.seed)
        model = obtain(table, options, out)
        cuts = cut_curves(
            table.parts["test"], options.context, max_rows=model.card.seen.largest_context + 1, num_cuts=1, seed=SEED
        )
        functionals = cover(model.use("best"), cuts[:NUM_CONTEXTS])
        crps = rank_by_crps(model, held_out(table, "test", options.held_out_contexts))
    return {
        "kind": "own data",
        "set": name,
        "source": data.source,
        "seed": SEED,
        "best": model.leaderboard.best if model.leaderboard else NETWORK,
        "max_minutes": options.max_minutes,
        "functionals": functionals,
        "crps": crps,
        "about": model.card.about,
        "model": model.card.model,
        "environment": environment(),
    }


def obtain(table: CurveDataset, options: FitOptions, out: Path | None) -> FittedModel:
    """The fitted model: a new one, or what there is of it in `out`."""
    if out is not None and has_unfinished_fit(out):
        return resume_fit(out)
    if out is not None and (out / CARD).exists():
        model = load(out)
        seen = TrainingDomain.learn(table.parts["train"], model.card.seen.largest_context)
        return judge(FittedModel(model.network, dataclasses.replace(model.card, seen=seen)), table, options, print)
    return fit_curves(table.curves, options, out=out)


def rank_by_crps(model: FittedModel, test: HeldOut) -> dict[str, Any]:
    """How far each forecaster is behind the first in CRPS, with the standard error of the difference over test tasks."""
    y, columns = outcomes(test.cuts), model.card.columns
    scale = np.nanstd(y, axis=0) if y.shape[1] > 1 else np.ones(1)
    names = [NETWORK] if model.leaderboard is None else [standing.name for standing in model.leaderboard.test]
    scores = {name: score_outputs(Prediction.decode(model.use(name).answer_cuts(test.cuts), columns), y) for name in names}
    by_crps = {name: {**some, "log_likelihood": -some["crps"] / scale} for name, some in scores.items()}
    standings = rank(by_crps, test.rows, scale)
    return {row.name: {"behind": row.behind, "behind_error": row.behind_error} for row in standings}


def cover(model: FittedModel, cuts: Sequence[Cut]) -> dict[str, Any] | None:
    """How often the 90% interval of a functional of the rest of a curve holds its true value; None without functions."""
    if not model.forecaster.has_functions:
        return None
    inside: dict[str, list[bool]] = {name: [] for name in FUNCTIONALS}
    for x, y, x_rest, y_rest, *_ in cuts:
        seen = ~np.isnan(y_rest[:, 0])
        if not seen.any():
            continue
        draws = model.condition(x, y).sample(x_rest[seen], NUM_DRAWS, noise=True).reshape(NUM_DRAWS, int(seen.sum()), -1)
        for name, functional in FUNCTIONALS.items():
            values = np.array([functional(draw[:, 0]) for draw in draws])
            low, high = np.quantile(values, [0.05, 0.95])
            inside[name].append(bool(low <= functional(y_rest[seen, 0]) <= high))
    return {name: float(np.mean(parts)) for name, parts in inside.items()} | {"contexts": len(inside["mean"])}


def tabulate(records: Sequence[dict[str, Any]]) -> str:
    """What answers by default on each set, and every forecaster, on test tasks."""
    header = ["set", "tasks", "answers", "log-likelihood, behind the first", "CRPS, behind the first",
              "90% band covers", "maximum, mean covered"]  # fmt: skip
    rows = []
    for record in records:
        about, best = record["about"], record["best"]
        standing = next(row for row in about["leaderboard"]["test"] if row["name"] == best)
        covered, crps = record["functionals"], record["crps"][best]
        rows.append(
            [record["set"], " + ".join(str(about["tasks"][part]) for part in ("train", "validation", "test")), best,
             _gap(standing["behind"], standing["behind_error"], 3), _gap(crps["behind"], crps["behind_error"], 4),
             f"{standing['coverage_90']:.1%}",
             "" if covered is None else f"{covered['maximum']:.0%}, {covered['mean']:.0%} of {covered['contexts']}"]
        )  # fmt: skip
    return "\n".join([markdown(header, rows), "", tabulate_all(records)])


def tabulate_all(records: Sequence[dict[str, Any]]) -> str:
    """One row per set and forecaster, on test tasks."""
    header = ["set, budget", "forecaster", "log-likelihood", "CRPS", "RMSE", "90% band covers"]
    rows = []
    for record in records:
        about = record["about"]
        budget = (
            f"{record['set']}, {record['model']}, {about['steps_done']:,} steps, {about['cpu_seconds']:,.0f} CPU-s, "
            f"{record['max_minutes']:g} minutes allowed"
        )
        for standing in about["leaderboard"]["test"]:
            name = standing["name"]
            rows.append(
                [budget, f"**{name}** (answers)" if name == record["best"] else name, f"{standing['log_likelihood']:.3f}",
                 f"{standing['crps']:.4f}", f"{standing['rmse']:.4f}", f"{standing['coverage_90']:.1%}"]
            )  # fmt: skip
            budget = ""
    return markdown(header, rows)


def _gap(behind: float, error: float, digits: int) -> str:
    """How far behind the first, marked if it is more than one standard error."""
    text = f"{behind:.{digits}f} ± {error:.{digits}f}"
    return text if behind <= error else f"*{text}*"


if __name__ == "__main__":
    main()
