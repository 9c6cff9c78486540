"""Does a model trained on the family `surfaces` help the first evaluations of a search with several inputs?

    mpnp train --model tnp --task surfaces --recipe fast --steps 3000 --layer-width 40 --width 64 --num-heads 4 \\
        --sigma-min 0.005 --target-weight 10 --out runs/surfaces
    python benchmarks/learnt_surrogate.py runs/surfaces --seeds 8

Searches of the functions that serve for choices, by the fitted process alone and by `auto` with the model, which hands over to
the process once that predicts better. Regret as in `classic_functions.py`. Writes results/classic-functions/surfaces.*
"""

import argparse
from pathlib import Path

import numpy as np
from classic_objectives import VALIDATION, Classic

from mpnp.bayesopt import Optimizer
from mpnp.bayesopt.auto import AutoSearch
from mpnp.inference.model import FittedModel, load
from mpnp.io.files import environment, write_atomically, write_json
from mpnp.reproduce.tables import markdown

RESULTS = Path(__file__).parents[1] / "results" / "classic-functions"
AT = (10, 20)
"""Evaluations after which the regret is shown."""


def main() -> None:
    """Search, then write record and table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the trained model")
    parser.add_argument("--seeds", type=int, default=8, help="searches per function and strategy (default 8)")
    options = parser.parse_args()
    model = load(options.run)
    functions = {name: classic for name, classic in VALIDATION.items() if len(classic.bounds) > 1}
    runs = {
        name: {
            strategy: [regrets(classic, learnt, seed) for seed in range(options.seeds)]
            for strategy, learnt in (("gp", None), ("auto", model))
        }
        for name, classic in functions.items()
    }
    record = {"kind": "surfaces", "model": model.card.model, "evaluations": AT, "runs": runs, "environment": environment()}
    write_json(RESULTS / "surfaces.json", record)
    header = ["function", "inputs", *(f"{strategy}, after {count}" for strategy in ("gp", "auto") for count in AT)]
    rows = [[name, str(len(functions[name].bounds)), *_medians(found)] for name, found in runs.items()]
    table = markdown(header, rows)
    write_atomically(RESULTS / "surfaces.md", lambda file: file.write(table.encode()))
    print(table)


def regrets(classic: Classic, learnt: FittedModel | None, seed: int) -> list[float]:
    """Regret of the best point after each number of evaluations in `AT`."""
    rng = np.random.default_rng([seed, 1])
    strategy = "gp" if learnt is None else AutoSearch(model=learnt)
    optimizer, found = Optimizer(strategy, list(classic.bounds), seed=seed), []
    for number in range(1, max(AT) + 1):
        x = np.atleast_1d(optimizer.ask())
        optimizer.tell(x, classic(x) + classic.noise * float(rng.normal()))
        if number in AT:
            found.append(classic(np.atleast_1d(optimizer.best.x)) - classic.minimum)
    return found


def _medians(found: dict[str, list[list[float]]]) -> list[str]:
    return [f"{value:.2g}" for strategy in ("gp", "auto") for value in np.median(np.array(found[strategy]), axis=0)]


if __name__ == "__main__":
    main()
