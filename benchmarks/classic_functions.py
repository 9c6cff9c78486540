"""Searches for the minima of classic test functions, beside Optuna's and BoTorch's.

    python benchmarks/classic_functions.py --strategies random tpe --seeds 20
    python benchmarks/classic_functions.py --strategies thompson-batches --functions branin hartmann-6
    python benchmarks/classic_functions.py                write the tables from the records
    python benchmarks/classic_functions.py --validate --strategies gp   on functions made for choices; prints only

Each strategy has one record with all its searches, results/classic-functions/STRATEGY.json; a search that has been recorded is
not run again. Regret is the value of the function, without noise, at the point that the strategy would return, above the
minimum.
"""

import argparse
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from classic_objectives import BENCHMARK, VALIDATION, Classic
from classic_searches import STRATEGIES, Strategy

from mpnp.io.files import environment, read_json, write_atomically, write_json
from mpnp.reproduce.tables import markdown

RESULTS = Path(__file__).parents[1] / "results" / "classic-functions"


def run_search(strategy: Strategy, classic: Classic, seed: int) -> dict[str, Any]:
    """One search: regret after each evaluation, and the median CPU time of suggestions by a model."""
    low, high = np.array(classic.bounds).T
    num_evaluations = strategy.num_evaluations(classic)
    noise = iter(np.random.default_rng([seed, 7]).normal(0, classic.noise, num_evaluations))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recommended, seconds = strategy.search(strategy, classic, seed, lambda x: classic(low + x * (high - low)) + next(noise))
    regret = [max(classic(low + x * (high - low)) - classic.minimum, 0.0) for x in recommended]
    late = np.median(seconds[num_evaluations // 2 :])
    return {"regret": [float(f"{value:.4g}") for value in regret], "milliseconds": round(1e3 * float(late), 2)}


def run_strategy(name: str, functions: list[str], seeds: int) -> None:
    """Run the searches that have no record yet."""
    path = RESULTS / f"{name}.json"
    record = read_json(path) if path.exists() else {"strategy": name, "versions": {}, "runs": {}}
    record["versions"] = {package: version(package) for package in ("optuna", "botorch", "scipy", "numpy")}
    for seed in range(seeds):
        for function in functions:
            runs = record["runs"].setdefault(function, {})
            if str(seed) not in runs:
                runs[str(seed)] = {
                    **run_search(STRATEGIES[name], BENCHMARK[function], seed),
                    "commit": environment()["commit"],
                }
                write_json(path, record)


def validate(name: str, functions: list[str], seeds: int) -> None:
    """Print the median regret of a strategy on the functions made for choices."""
    for function in functions:
        runs = [run_search(STRATEGIES[name], VALIDATION[function], 100 + seed) for seed in range(seeds)]
        final, time_taken = [run["regret"][-1] for run in runs], np.median([run["milliseconds"] for run in runs])
        half = [run["regret"][len(run["regret"]) // 2] for run in runs]
        numbers = f"{np.median(half):9.3g} {np.median(final):9.3g} {np.mean(final):9.3g}"
        print(f"{name:10} {function:24} {numbers} {time_taken:7.1f} ms", flush=True)


def tables() -> None:
    """Tables of all records, for the documents: medians of searches point by point and in batches, and everything."""
    records = {name: read_json(RESULTS / f"{name}.json")["runs"] for name in STRATEGIES if (RESULTS / f"{name}.json").exists()}
    for table, batches in (("medians", False), ("batches", True)):
        some = {name: runs for name, runs in records.items() if (STRATEGIES[name].batch > 1) == batches}
        write_table(table, ["function", *(STRATEGIES[name].title for name in some)], median_rows(some))
        header = ["function", "strategy", "median", "quartiles", "mean", "ms a suggestion", "searches"]
        write_table("all-batches" if batches else "all", header, all_rows(some))


def median_rows(records: dict[str, Any]) -> list[list[str]]:
    """One row for each function, then times and numbers of searches."""
    rows = []
    for function in (name for name in BENCHMARK if any(runs.get(name) for runs in records.values())):
        medians = [[run["regret"][-1] for run in runs.get(function, {}).values()] for runs in records.values()]
        rows.append([function, *(f"{np.median(one):.2g}" if one else "" for one in medians)])
    everything = [[run for some in runs.values() for run in some.values()] for runs in records.values()]
    rows.append(["ms a suggestion", *(f"{np.median([run['milliseconds'] for run in some]):.0f}" for some in everything)])
    counts = [[len(searches) for searches in runs.values()] for runs in records.values()]
    rows.append(["searches per function", *(" to ".join(map(str, sorted({min(some), max(some)}))) for some in counts)])
    return rows


def all_rows(records: dict[str, Any]) -> list[list[str]]:
    """One row for each function and strategy."""
    return [
        [function, STRATEGIES[name].title, *cells(list(runs[function].values()))]
        for function in BENCHMARK
        for name, runs in records.items()
        if runs.get(function)
    ]


def write_table(name: str, header: list[str], rows: list[list[str]]) -> None:
    """Write a table next to the records, and print it."""
    text = markdown(header, rows)
    write_atomically(RESULTS / f"{name}.md", lambda file: file.write(text.encode()))
    print(text)


def cells(runs: list[dict[str, Any]]) -> list[str]:
    """Final regret over searches, and the time of a suggestion."""
    final = np.array([run["regret"][-1] for run in runs])
    low, median, high = np.quantile(final, [0.25, 0.5, 0.75])
    times = np.median([run["milliseconds"] for run in runs])
    return [f"{median:.2g}", f"{low:.2g} to {high:.2g}", f"{final.mean():.2g}", f"{times:.1f}", str(len(runs))]


def main() -> None:
    """Run what was asked for, then write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategies", nargs="*", default=[], choices=STRATEGIES, help="strategies to run")
    parser.add_argument("--functions", nargs="*", help="functions to minimise (default: all)")
    parser.add_argument("--seeds", type=int, default=20, help="searches per function")
    parser.add_argument("--validate", action="store_true", help="use the functions made for choices; write nothing")
    args = parser.parse_args()
    for name in args.strategies:
        if args.validate:
            validate(name, args.functions or list(VALIDATION), args.seeds)
        else:
            run_strategy(name, args.functions or list(BENCHMARK), args.seeds)
    if not args.validate:
        tables()


if __name__ == "__main__":
    main()
