"""What forecasts best if there are two, five or ten tasks to learn from: simple rivals, or a model that learnt from others?

    python benchmarks/own_data_few.py --sets sea depression

Rivals learn from a few training tasks, drawn with fixed seeds; the pretrained model `curves` reads each context as it is. All
are scored on the test tasks of benchmarks/own_data.py. Each set has one record in results/own-data/few.
"""

import argparse
import warnings
from typing import Any

import numpy as np
from own_data import RESULTS, SEED, TEST
from own_data_sets import SETS, DataSet

from mpnp.inference.assess import HeldOut, forecast, outcomes, score_outputs
from mpnp.inference.describe import held_out
from mpnp.inference.fit import FitOptions
from mpnp.inference.forecasters import AbstractForecaster, RivalForecaster
from mpnp.inference.model import NUM_SAMPLES, load
from mpnp.inference.prediction import join
from mpnp.inference.pretrained import PRETRAINED, PretrainedForecaster
from mpnp.inference.rivalry import learn_rivals
from mpnp.io.files import environment, read_json, write_atomically, write_json
from mpnp.reproduce.tables import markdown
from mpnp.tables.columns import Schema
from mpnp.tables.curves import Curves
from mpnp.tables.dataset import CurveDataset
from mpnp.tables.points import many_contexts, many_targets

SINGLE = ("depression", "power", "sea", "spectra", "weather")
"""Sets of one input and one output."""

COUNTS, DRAWS = (2, 5, 10), 3
RIVALS = ("mean", "persistence", "gp")
NUM_CONTEXTS = 200


def main() -> None:
    """Score what has no record, then tabulate all records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SINGLE, default=list(SINGLE))
    folder = RESULTS / "few"
    for name in parser.parse_args().sets:
        path = folder / f"{name}.json"
        if not path.exists():
            write_json(path, measure(name, SETS[name]))
    table = tabulate([read_json(path) for path in sorted(folder.glob("*.json"))])
    write_atomically(folder / "table.md", lambda file: file.write(table.encode()))
    print(table)


def measure(name: str, data: DataSet) -> dict[str, Any]:
    """Scores for each number of tasks, as means over the draws of these tasks."""
    options = FitOptions(context=data.context, test=TEST, seed=SEED)
    table = CurveDataset(data.curves(), options.context, options.validation, options.test, options.seed)
    test = held_out(table, "test", NUM_CONTEXTS)
    scores = {
        count: [_score(_draw(table.parts["train"], count, draw), options, test) for draw in range(DRAWS)] for count in COUNTS
    }
    return {
        "kind": "own data, few tasks",
        "set": name,
        "seed": SEED,
        "draws": DRAWS,
        "contexts": len(test.cuts),
        "scores": {str(count): _mean(parts) for count, parts in scores.items()},
        "environment": environment(),
    }


def _draw(curves: Curves, count: int, draw: int) -> Curves:
    """Some of the training tasks."""
    return curves.select(np.random.default_rng([SEED, count, draw]).permutation(len(curves))[:count].tolist())


def _score(few: Curves, options: FitOptions, test: HeldOut) -> dict[str, dict[str, float]]:
    """Scores of rivals that learnt from all of these tasks, and of the pretrained model."""
    everything = Curves.from_pairs([few.pair(n) for n in (*range(len(few)), 0)], groups=["train"] * len(few) + ["validation"])
    table = CurveDataset(everything, options.context, seed=options.seed)
    columns = table.columns
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rivals, _ = learn_rivals(table, RIVALS, seed=SEED, tell=lambda line: None)
    forecasters: dict[str, AbstractForecaster] = {name: RivalForecaster(rival, columns) for name, rival in rivals.items()}
    forecasters[PRETRAINED] = PretrainedForecaster(load(PRETRAINED), columns)
    return {name: _score_one(forecaster, columns, test) for name, forecaster in forecasters.items()}


def _score_one(forecaster: AbstractForecaster, columns: Schema, test: HeldOut) -> dict[str, float]:
    contexts = many_contexts(columns, [cut[:2] for cut in test.cuts])
    targets = many_targets(columns, [cut.x_target for cut in test.cuts])
    answer = join(forecaster.predictor(NUM_SAMPLES).many(contexts, targets))
    scores = score_outputs(forecast(columns, answer, test.cuts), outcomes(test.cuts))
    return {metric: float(np.nanmean(scores[metric])) for metric in ("log_likelihood", "crps", "coverage_90")}


def _mean(parts: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    return {
        name: {metric: float(np.mean([part[name][metric] for part in parts])) for metric in parts[0][name]} for name in parts[0]
    }


def tabulate(records: list[dict[str, Any]]) -> str:
    """One row per set and number of tasks: log-likelihood and CRPS of each forecaster, the best in bold."""
    names = (*RIVALS, PRETRAINED)
    rows = []
    for record in records:
        for count, scores in record["scores"].items():
            best = min(names, key=lambda name: scores[name]["crps"])
            cells = {name: f"{scores[name]['log_likelihood']:.2f}, {scores[name]['crps']:.3f}" for name in names}
            rows.append([record["set"], count, *(f"**{cells[name]}**" if name == best else cells[name] for name in names)])
    return markdown(["set", "tasks", *names], rows)


if __name__ == "__main__":
    main()
