"""Searches for the minima of classic test functions, beside Optuna's and BoTorch's.

    python benchmarks/classic_functions.py --strategies random tpe --seeds 20
    python benchmarks/classic_functions.py                write the tables from the records
    python benchmarks/classic_functions.py --validate --strategies gp   on functions made for choices; prints only

Each strategy has one record with all its searches, results/classic-functions/STRATEGY.json; a search that has been recorded is
not run again. Every strategy starts in its own way: ours and BoTorch with Sobol points, Optuna's samplers with their ten random
trials. Regret is the value of the function, without noise, at the point that the strategy would return, above the minimum.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from classic_objectives import BENCHMARK, VALIDATION, Classic

from mpnp.io.files import environment, read_json, write_atomically, write_json
from mpnp.reproduce.tables import markdown

RESULTS = Path(__file__).parents[1] / "results" / "classic-functions"

Evaluate = Callable[[np.ndarray], float]
"""Evaluates the function, with noise, at a point in the unit box."""

Search = Callable[[Classic, int, Evaluate], tuple[np.ndarray, list[float]]]
"""Runs one search with a seed. Returns its recommendation after each evaluation, and the CPU-seconds of each suggestion."""


def unit_search(
    ask: Callable[[], np.ndarray], tell: Callable[[np.ndarray, float], np.ndarray], classic: Classic, f: Evaluate
) -> Any:
    """The loop of every strategy: time the suggestion, evaluate, and note the recommendation."""
    recommended, seconds = [], []
    for _ in range(classic.num_evaluations):
        started = time.process_time()
        x = ask()
        asked = time.process_time() - started
        y = f(x)
        started = time.process_time()
        recommended.append(tell(x, y))
        seconds.append(asked + time.process_time() - started)
    return np.stack(recommended), seconds


def best_observed(xs: list[np.ndarray], ys: list[float]) -> np.ndarray:
    """The point with the lowest observed value."""
    return xs[int(np.argmin(ys))]


def random_search(classic: Classic, seed: int, f: Evaluate) -> Any:
    """Uniform random points."""
    rng, xs, ys = np.random.default_rng(seed), [], []

    def tell(x: np.ndarray, y: float) -> np.ndarray:
        xs.append(x)
        ys.append(y)
        return best_observed(xs, ys)

    return unit_search(lambda: rng.random(len(classic.bounds)), tell, classic, f)


def ours(model: str) -> Search:
    """The ask-and-tell optimiser with its defaults."""

    def search(classic: Classic, seed: int, f: Evaluate) -> Any:
        from mpnp.bayesopt import Optimizer

        optimizer = Optimizer(model, [(0.0, 1.0)] * len(classic.bounds), seed=seed)

        def tell(x: np.ndarray, y: float) -> np.ndarray:
            optimizer.tell(x, y)
            return optimizer.best.x

        return unit_search(optimizer.ask, tell, classic, f)

    return search


def in_optuna(sampler: str) -> Search:
    """A sampler of Optuna with its defaults."""

    def search(classic: Classic, seed: int, f: Evaluate) -> Any:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        names = [f"x{i}" for i in range(len(classic.bounds))]
        space = {name: optuna.distributions.FloatDistribution(0.0, 1.0) for name in names}
        study = optuna.create_study(sampler=getattr(optuna.samplers, sampler)(seed=seed))
        trials = []

        def ask() -> np.ndarray:
            trials.append(study.ask(space))
            return np.array([trials[-1].params[name] for name in names])

        def tell(x: np.ndarray, y: float) -> np.ndarray:
            study.tell(trials[-1], y)
            return np.array([study.best_params[name] for name in names])

        return unit_search(ask, tell, classic, f)

    return search


def in_botorch(classic: Classic, seed: int, f: Evaluate) -> Any:
    """SingleTaskGP and qLogEI of BoTorch, after 2d + 2 Sobol points; recommends the observed point of lowest posterior mean."""
    import torch
    from botorch.acquisition import qLogExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    num_inputs = len(classic.bounds)
    start = torch.quasirandom.SobolEngine(num_inputs, scramble=True, seed=seed).draw(2 * num_inputs + 2, dtype=torch.float64)
    box = torch.stack([torch.zeros(num_inputs), torch.ones(num_inputs)]).double()
    xs, ys, models = [], [], []

    def ask() -> np.ndarray:
        if len(xs) < len(start):
            return start[len(xs)].numpy()
        model, X = models[-1], torch.tensor(np.stack(xs))
        best = model.posterior(X).mean.max().detach() if classic.noise else -min(ys)
        acquisition = qLogExpectedImprovement(model, best_f=best)
        return optimize_acqf(acquisition, box, q=1, num_restarts=8, raw_samples=256)[0][0].numpy()

    def tell(x: np.ndarray, y: float) -> np.ndarray:
        xs.append(x)
        ys.append(y)
        if len(xs) < len(start):
            return best_observed(xs, ys)
        X = torch.tensor(np.stack(xs))
        model = SingleTaskGP(X, -torch.tensor(ys).double()[:, None])
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        models[:] = [model]
        return xs[int(model.posterior(X).mean.argmax())] if classic.noise else best_observed(xs, ys)

    return unit_search(ask, tell, classic, f)


STRATEGIES: dict[str, tuple[str, Search]] = {
    "auto": ("mpnp, default", ours("auto")),
    "gp": ("mpnp, `gp`", ours("gp")),
    "random": ("random", random_search),
    "tpe": ("Optuna TPE", in_optuna("TPESampler")),
    "gpsampler": ("Optuna GPSampler", in_optuna("GPSampler")),
    "botorch": ("BoTorch qLogEI", in_botorch),
}


def run_search(search: Search, classic: Classic, seed: int) -> dict[str, Any]:
    """One search: regret after each evaluation, and the median CPU time of suggestions by a model."""
    low, high = np.array(classic.bounds).T
    noise = iter(np.random.default_rng([seed, 7]).normal(0, classic.noise, classic.num_evaluations))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recommended, seconds = search(classic, seed, lambda x: classic(low + x * (high - low)) + next(noise))
    regret = [max(classic(low + x * (high - low)) - classic.minimum, 0.0) for x in recommended]
    late = np.median(seconds[classic.num_evaluations // 2 :])
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
                    **run_search(STRATEGIES[name][1], BENCHMARK[function], seed),
                    "commit": environment()["commit"],
                }
                write_json(path, record)


def validate(name: str, functions: list[str], seeds: int) -> None:
    """Print the median regret of a strategy on the functions made for choices."""
    for function in functions:
        runs = [run_search(STRATEGIES[name][1], VALIDATION[function], 100 + seed) for seed in range(seeds)]
        final, time_taken = [run["regret"][-1] for run in runs], np.median([run["milliseconds"] for run in runs])
        half = [run["regret"][len(run["regret"]) // 2] for run in runs]
        numbers = f"{np.median(half):9.3g} {np.median(final):9.3g} {np.mean(final):9.3g}"
        print(f"{name:10} {function:24} {numbers} {time_taken:7.1f} ms", flush=True)


def tables() -> None:
    """Tables of all records, for the documents: medians of all strategies, and everything."""
    records = {name: read_json(RESULTS / f"{name}.json")["runs"] for name in STRATEGIES if (RESULTS / f"{name}.json").exists()}
    write_table(
        "all", ["function", "strategy", "median", "quartiles", "mean", "ms a suggestion", "searches"], all_rows(records)
    )
    rows = []
    for function in BENCHMARK:
        medians = [[run["regret"][-1] for run in runs.get(function, {}).values()] for runs in records.values()]
        rows.append([function, *(f"{np.median(one):.2g}" if one else "" for one in medians)])
    everything = [[run for some in runs.values() for run in some.values()] for runs in records.values()]
    rows.append(["ms a suggestion", *(f"{np.median([run['milliseconds'] for run in some]):.0f}" for some in everything)])
    counts = [[len(runs.get(function, {})) for function in BENCHMARK if function in runs] for runs in records.values()]
    rows.append(["searches per function", *(" to ".join(map(str, sorted({min(some), max(some)}))) for some in counts)])
    write_table("medians", ["function", *(STRATEGIES[name][0] for name in records)], rows)


def all_rows(records: dict[str, Any]) -> list[list[str]]:
    """One row for each function and strategy."""
    return [
        [function, STRATEGIES[name][0], *cells(list(runs[function].values()))]
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
