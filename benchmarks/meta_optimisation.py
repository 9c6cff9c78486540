"""Do finished studies speed up the next one? Three families of objectives, each with past studies to learn from.

    python benchmarks/meta_optimisation.py                       learn, search, write results/meta-optimisation
    python benchmarks/meta_optimisation.py --families svr --validate   on validation objectives; prints only
    python benchmarks/meta_optimisation.py --draw-only           tables and figure from the records

Past studies have 30 trials of Optuna's default sampler each. Models learn from them; then every sampler searches 30 objectives
of its family that nobody has seen, with 20 trials each. Warm-started samplers try five configurations first, which together do
best on the past studies, and then suggest at once. A sampler that has a record is not run again.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import optuna
from matplotlib.figure import Figure
from meta_families import FAMILIES, PAST, TEST, VALIDATION, Family
from meta_rivals import ProcessOfStudies, portfolio, warm_start

from mpnp.bayesopt.acquisition import EXPECTED_IMPROVEMENT
from mpnp.bayesopt.registry import AUTO
from mpnp.inference.estimator import NeuralProcessRegressor
from mpnp.inference.model import FittedModel, load
from mpnp.integrations.optuna import NeuralProcessSampler, tasks_from_studies
from mpnp.integrations.optuna.beliefs import OfStudies, find_belief
from mpnp.integrations.optuna.space import Space
from mpnp.io.files import environment, read_json, write_atomically, write_json
from mpnp.models.config import ModelSettings
from mpnp.plotting.style import STYLE, save_figure
from mpnp.reproduce.tables import markdown
from mpnp.tables.curves import Curves

RESULTS = Path(__file__).parents[1] / "results" / "meta-optimisation"

PAST_TRIALS, NUM_TRIALS, NUM_WARM = 30, 20, 5

SETTINGS = ModelSettings(width=64, num_heads=4, sigma_min=0.005)
"""Default settings, but with a lower floor, because the highest costs of a study make the unit large."""

SHOWN = (1, 2, 3, 5, 10, 15, 20)

Make = Callable[[int], optuna.samplers.BaseSampler]


def past_studies(family: Family) -> list[optuna.Study]:
    """The past studies of a family."""
    studies = []
    for number in range(family.sizes[PAST]):
        study = optuna.create_study(study_name=f"past {number}", sampler=optuna.samplers.TPESampler(seed=number))
        study.optimize(family.objective(PAST, number), n_trials=PAST_TRIALS)
        studies.append(study)
    return studies


def learnt_model(curves: Curves, options: argparse.Namespace, directory: Path) -> FittedModel:
    """A network of the past studies, fitted as a user would; saved, so that it is fitted once."""
    if not (directory / "card.json").exists():
        regressor = NeuralProcessRegressor(options.model, steps=options.steps, rivals="none", settings=SETTINGS)
        regressor.fit(curves).model_.save(directory)
    return load(directory)


def samplers(name: str, options: argparse.Namespace) -> dict[str, tuple[Make, np.ndarray, dict[str, Any]]]:
    """Each with its first configurations, and what its record says about it."""
    family = FAMILIES[name]
    curves, space = tasks_from_studies(past_studies(family)), dict(family.space)
    process, none = ProcessOfStudies(curves), np.zeros((0, len(space)))
    first = portfolio(process, NUM_WARM)
    ours = find_belief(AUTO, EXPECTED_IMPROVEMENT, curves)  # as the sampler does with past_studies, but once for all searches
    assert isinstance(ours, OfStudies)
    learnt = ours.members[0].describe()
    found: dict[str, tuple[Make, np.ndarray, dict[str, Any]]] = {
        "mpnp, past studies": (_of(ours, space), none, learnt),
        "GP, pre-trained": (_of(process, space), none, process.describe()),
        "TPESampler, warm start": (lambda seed: optuna.samplers.TPESampler(seed=seed, n_startup_trials=NUM_WARM), first, {}),
        "GPSampler, warm start": (lambda seed: optuna.samplers.GPSampler(seed=seed, n_startup_trials=NUM_WARM), first, {}),
        "TPESampler": (lambda seed: optuna.samplers.TPESampler(seed=seed), none, {}),
        "mpnp, default": (_of("auto", space), none, {}),
        "GPSampler": (lambda seed: optuna.samplers.GPSampler(seed=seed), none, {}),
        "random": (lambda seed: optuna.samplers.RandomSampler(seed=seed), none, {}),
    }
    if options.steps:
        model = learnt_model(curves, options, options.models / name)
        both = find_belief(model, EXPECTED_IMPROVEMENT, curves)
        about = {key: model.card.about[key] for key in ("recipe", "cpu_seconds", "validation", "environment")}
        found["mpnp, past studies and network"] = (_of(both, space), none, {"model": model.card.model, **about})
    return found


def _of(model: Any, space: dict[str, Any]) -> Make:
    return lambda seed: NeuralProcessSampler(model, search_space=space, seed=seed)


def search(family: Family, make: Make, first: np.ndarray, part: int) -> dict[str, Any]:
    """Regret after every trial of every repeat, and CPU time of the search."""
    regrets, started = [], time.process_time()
    for number in range(family.sizes[part]):
        objective, study = family.objective(part, number), optuna.create_study(sampler=make(number))
        warm_start(study, Space.of(family.space), first)
        study.optimize(objective, n_trials=NUM_TRIALS)
        regrets.append([float(f"{value:.4g}") for value in objective.regret(study.trials)])
    return {"regret": regrets, "cpu_seconds_a_trial": (time.process_time() - started) / (len(regrets) * NUM_TRIALS)}


def run(name: str, options: argparse.Namespace) -> None:
    """Search the test objectives of a family with every sampler that has no record, or print a search of validation ones."""
    family, path = FAMILIES[name], RESULTS / f"{name}.json"
    record: dict[str, Any] = read_json(path) if path.exists() and not options.validate else new_record(family)
    done, all_samplers = {row["sampler"] for row in record["rows"]}, samplers(name, options)
    for sampler, (make, first, about) in all_samplers.items():
        if sampler in done or (options.samplers and sampler not in options.samplers):
            continue
        row = {"sampler": sampler, **search(family, make, first, VALIDATION if options.validate else TEST), "about": about}
        record["rows"].append({**row, "environment": environment()})
        record["rows"].sort(key=lambda row: list(all_samplers).index(row["sampler"]))
        print(tabulate([row]), flush=True)
        if not options.validate:
            write_json(path, record)


def new_record(family: Family) -> dict[str, Any]:
    """What the rows of a family have in common."""
    return {
        "kind": "meta-optimisation",
        "protocol": {
            "family": family.title,
            "past_studies": family.sizes[PAST],
            "past_trials": PAST_TRIALS,
            "past_sampler": "TPESampler",
            "repeats": family.sizes[TEST],
            "trials": NUM_TRIALS,
            "first_configurations_of_a_warm_start": NUM_WARM,
            "noise": family.noise,
            "regret": "lowest cost so far, without its noise, above the minimum, in units of the objective's scale",
            "seeds": f"objectives: [part, number], parts {PAST} past, {VALIDATION} validation, {TEST} test; samplers: number",
            "optuna": optuna.__version__,
        },
        "rows": [],
    }


def tabulate(rows: list[dict[str, Any]]) -> str:
    """Medians over repeats."""
    header = ["sampler", *(f"trial {trial}" for trial in SHOWN), f"mean of {NUM_TRIALS} trials", "CPU-ms per trial"]
    return markdown(header, [[row["sampler"], *cells(row)] for row in rows])


def cells(row: dict[str, Any]) -> list[str]:
    """Medians after some trials, the median of the mean over trials, and the time."""
    regret = np.asarray(row["regret"])
    medians = [np.median(regret[:, trial - 1]) for trial in SHOWN]
    return [
        *(f"{value:.2g}" for value in [*medians, np.median(regret.mean(axis=1))]),
        f"{1e3 * row['cpu_seconds_a_trial']:.0f}",
    ]


def show() -> None:
    """The tables and the figure of the records that exist."""
    records = {name: read_json(RESULTS / f"{name}.json") for name in FAMILIES if (RESULTS / f"{name}.json").exists()}
    for name, record in records.items():
        text = tabulate(record["rows"])
        write_atomically(RESULTS / f"{name}.md", lambda file, text=text: file.write(text.encode()))
        print(f"{name}\n{text}")
    save_figure(draw(list(records.values())), RESULTS / "families.png")


def draw(records: list[dict[str, Any]]) -> Figure:
    """Medians by family, and the range from the first to the third quartile."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(4.2 * len(records), 4.6), layout="constrained")
        axes = figure.subplots(1, len(records), squeeze=False)[0]
        for ax, record in zip(axes, records, strict=True):
            for row in record["rows"]:
                low, median, high = np.maximum(np.quantile(row["regret"], [0.25, 0.5, 0.75], axis=0), 1e-6)
                trials = np.arange(1, len(median) + 1)
                (line,) = ax.plot(trials, median, lw=1.6, marker="o", ms=2.5, label=row["sampler"])
                ax.fill_between(trials, low, high, color=line.get_color(), alpha=0.08, lw=0)
            ax.set(xlabel="trial", yscale="log", title=record["protocol"]["family"])
        axes[0].set(ylabel="regret, median and quartiles")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def main() -> None:
    """Learn, search, tabulate, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="*", default=list(FAMILIES), choices=FAMILIES, help="families to search")
    parser.add_argument("--samplers", nargs="*", help="samplers to run (default: all)")
    parser.add_argument("--model", default="tnp", help="that network")
    parser.add_argument("--steps", type=int, default=0, help="training steps of a network of past studies (default: none)")
    parser.add_argument("--models", type=Path, default=Path("runs/meta-optimisation"), help="where the fitted models live")
    parser.add_argument("--validate", action="store_true", help="search validation objectives, and write nothing")
    parser.add_argument("--draw-only", action="store_true", help="tables and figure of the records that exist")
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    for name in [] if options.draw_only else options.families:
        run(name, options)
    if not options.validate:
        show()


if __name__ == "__main__":
    main()
