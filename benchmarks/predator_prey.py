"""Predators and prey: the paper's fourth table, and remedies when simulation and reality differ.

    python benchmarks/predator_prey.py [--models ...]     train what is missing, score everything, write results/predator-prey
    python benchmarks/predator_prey.py --draw-only        tables and figures from the records that exist

All models of the paper's table are trained on the same tasks for the same steps. Windows of the real series are drawn with the
test seed. No model or checkpoint is chosen on them, but scores on them were known when the remedies were devised.
"""

import argparse
import dataclasses
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from remedies import Adapted, Recalibrated
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, ExpSineSquared, Kernel, Matern, WhiteKernel
from stacking import Answer, Forecaster, stack

from mpnp.evaluation.metrics import summarise
from mpnp.evaluation.scoring import make_scorer
from mpnp.inference.card import Reference
from mpnp.inference.model import load
from mpnp.inference.ood import half_scores
from mpnp.io.files import environment, read_json, write_atomically, write_json
from mpnp.models.base import AbstractNeuralProcess
from mpnp.plotting.style import save_figure
from mpnp.plotting.tasks import plot_posterior
from mpnp.reproduce.budgets import HOURS
from mpnp.reproduce.model_groups import PAPER_MODELS
from mpnp.reproduce.paper import METRICS, paper_rows
from mpnp.reproduce.tables import markdown
from mpnp.tasks.base import TEST_SEED, fixed_tasks
from mpnp.tasks.registry import find_problem
from mpnp.tasks.task import PointSet, Task
from mpnp.training.config import RunConfig
from mpnp.training.evaluate import evaluate_run
from mpnp.training.loop import finish
from mpnp.training.rundir import RunDirectory, load_model

RESULTS = Path(__file__).parents[1] / "results" / "predator-prey"
REMEDIED = ("canp", "mpanp")
WORLDS = {"lotka-volterra": PAPER_MODELS, "predation": ("canp",), "predation-targets": REMEDIED}
"""Training tasks: the paper's simulator, the broader family, and the same with a loss on targets only."""

START = {("predation-targets", "canp"): "predation/canp", ("predation-targets", "mpanp"): "predation-targets/canp"}
"""The run that a model of the broader family starts from."""

EFFORT = HOURS.efforts["predator-prey"]
FAST = EFFORT.recipe
RECIPE_FOR = {
    "lotka-volterra": dict.fromkeys(PAPER_MODELS, FAST),
    "predation": {"canp": dataclasses.replace(FAST, steps=5_000, validate_every=200, select_by="target")},
    "predation-targets": {
        "canp": dataclasses.replace(FAST, steps=3_000, learning_rate=5e-3, validate_every=200, select_by="target"),
        "mpanp": dataclasses.replace(FAST, learning_rate=5e-3, select_by="target"),
    },
}
"""Equal for all models of the paper's table."""

NUM_WINDOWS, NUM_SAMPLES = EFFORT.num_elsewhere, EFFORT.num_samples
NUM_REFERENCE, NUM_TIMED = 400, 128
CONSTANT, RIVAL = "constant N(0, 1.1²)", "Matérn GP fitted to each context"

Forecast = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Means and standard deviations somewhere, given inputs and outputs of a context."""

REMEDIES = {
    "as trained": lambda model: model,
    "recalibrated": Recalibrated,
    "adapted": Adapted,
}


def main() -> None:
    """Make the records that are missing, then tables and figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=list(PAPER_MODELS), choices=PAPER_MODELS, help="only these")
    parser.add_argument("--worlds", nargs="*", default=list(WORLDS), choices=list(WORLDS), help="only these")
    parser.add_argument("--runs", type=Path, default=Path("runs/predator-prey"), help="where the runs live")
    parser.add_argument("--draw-only", action="store_true", help="train and score nothing")
    options = parser.parse_args()
    if not options.draw_only:
        for world in options.worlds:
            for model in WORLDS[world]:
                if model in options.models:
                    make_record(world, model, options.runs / world / model)
        if not (RESULTS / "bars.json").exists():
            write_json(RESULTS / "bars.json", {"kind": "bars", "rows": score_bars(), "environment": environment()})
        if not (RESULTS / "stacks.json").exists():
            write_json(
                RESULTS / "stacks.json", {"kind": "stacks", "rows": score_stacks(options.runs), "environment": environment()}
            )
    draw(options.runs)
    write_tables()


def make_record(world: str, model: str, directory: Path) -> None:
    """Train and score one model: simulated and real, and on the real series with each remedy."""
    out = RESULTS / f"{world}-{model}.json"
    if out.exists():
        return
    start = START.get((world, model))
    start_from = None if start is None else str(directory.parents[1] / start)
    finish(RunConfig(model, world, recipe=RECIPE_FOR[world][model], start_from=start_from), directory)
    record = {
        "kind": "predator-prey",
        "simulated": evaluate_run(directory, num_tasks=EFFORT.num_test, num_samples=NUM_SAMPLES),
        "real": evaluate_run(directory, task="hare-lynx", num_tasks=NUM_WINDOWS, num_samples=NUM_SAMPLES),
        "remedies": score_remedies(load_model(directory)[0]) if model in REMEDIED else {},
        "plausibility": measure_plausibility(directory, world),
    }
    write_json(out, record)


def score_remedies(model: AbstractNeuralProcess) -> dict[str, Any]:
    """Scores on windows of the real series, and what they cost."""
    source = fixed_tasks(find_problem("hare-lynx").test, TEST_SEED)
    scores = {}
    for name, remedy in REMEDIES.items():
        scorer, remedied = make_scorer(source, num_samples=NUM_SAMPLES), remedy(model)
        windows = scorer(remedied, NUM_WINDOWS)
        started = time.process_time()
        scorer(remedied, NUM_TIMED)
        seconds = (time.process_time() - started) / NUM_TIMED
        scores[name] = {"scores": summarise(windows), "target": _listed(windows["target"]), "cpu_seconds_a_window": seconds}
    return scores


def _listed(values: np.ndarray) -> list[float]:
    return np.round(values, 4).tolist()


def measure_plausibility(directory: Path, world: str) -> dict[str, float]:
    """p-values of real and of simulated contexts: does the model detect implausible contexts?"""
    model = load(directory)
    predictor = model.predictor(NUM_SAMPLES)

    def statistic(task: str, first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        tasks = jax.device_get(fixed_tasks(find_problem(task).test, TEST_SEED).batch(jnp.arange(first, first + count)))
        masks = tasks.context_mask
        contexts = [(x[mask].astype(float), y[mask].astype(float)) for x, y, mask in zip(tasks.x, tasks.y, masks, strict=True)]
        return masks.sum(axis=-1), half_scores(predictor, model.units, contexts)

    reference = Reference(*statistic(world, 0, NUM_REFERENCE))
    shares = {}
    for name, (sizes, scores) in {
        "real": statistic("hare-lynx", 0, 200),
        "simulated": statistic(world, NUM_REFERENCE, 200),
    }.items():
        p_values = np.array([reference.p_value(size, score) for size, score in zip(sizes, scores, strict=True)])
        shares |= {f"{name}_median": float(np.median(p_values)), f"{name}_below_0.01": float((p_values < 0.01).mean())}
    return shares


def score_bars() -> dict[str, Any]:
    """Baselines without simulation: a constant Gaussian, and Gaussian processes fitted to each context."""
    tasks, bars = real_windows(), {}
    for name, forecast in {
        CONSTANT: constant,
        RIVAL: fitted_process(matern(1.5)),
        "Matérn GP, smoothness chosen by likelihood": fitted_process(matern(0.5), matern(1.5), matern(2.5)),
        "cyclic GP, or Matérn if likelier": fitted_process(cyclic(), matern(0.5), matern(1.5), matern(2.5)),
    }.items():
        answers = Fitted(forecast, tasks)
        bars[name] = _scored(tasks, answers(tasks.context_mask), answers.cpu_seconds)
    return bars


def score_stacks(runs: Path) -> dict[str, Any]:
    """Models of the broader family and, as a check, a constant, stacked with the Gaussian process."""
    tasks, world, stacks = real_windows(), "predation-targets", {}
    process = Fitted(fitted_process(matern(1.5)), tasks)
    for name in (*WORLDS[world], CONSTANT):
        started, already = time.process_time(), process.cpu_seconds
        answers = Fitted(constant, tasks) if name == CONSTANT else network_answers(load_model(runs / world / name)[0], tasks)
        mixture = stack(answers, process, tasks.context_mask)
        alone = time.process_time() - started - (process.cpu_seconds - already)
        stacks[name] = _scored(tasks, mixture, alone + process.cpu_seconds)
    return stacks


def real_windows() -> Task:
    """The windows of the real series on which everything is compared."""
    return jax.device_get(fixed_tasks(find_problem("hare-lynx").test, TEST_SEED).batch(jnp.arange(NUM_WINDOWS)))


class Fitted:
    """Predictions of a method that is fitted to each context; cached by context."""

    def __init__(self, forecast: Forecast, tasks: Task) -> None:
        self.forecast, self.tasks, self.cpu_seconds = forecast, tasks, 0.0
        self.known: dict[bytes, Answer] = {}

    def __call__(self, context: np.ndarray) -> Answer:
        if context.tobytes() not in self.known:
            started = time.process_time()
            windows = zip(self.tasks.x, self.tasks.y, context, strict=True)
            moments = [(y, *self.forecast(x[mask], y[mask], x)) for x, y, mask in windows]
            log_density = np.stack([norm.logpdf(y, mean, std).sum(axis=-1) for y, mean, std in moments])
            self.known[context.tobytes()] = log_density, np.stack([norm.cdf(y, mean, std) for y, mean, std in moments])
            self.cpu_seconds += time.process_time() - started
        return self.known[context.tobytes()]


def network_answers(model: AbstractNeuralProcess, tasks: Task) -> Forecaster:
    """Predictions of a trained model."""

    @jax.jit
    @jax.vmap
    def answer(x: jax.Array, y: jax.Array, mask: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        context = PointSet(x, y, mask)
        predictive = model.predict_given(context, x, model.draw_noise(context, NUM_SAMPLES, key=key))
        return predictive.log_prob(y), predictive.cdf(y)

    keys = jax.random.split(jax.random.key(0), len(tasks.x))
    return lambda context: jax.device_get(answer(tasks.x, tasks.y, context, keys))


def _scored(tasks: Task, answers: Answer, cpu_seconds: float) -> dict[str, Any]:
    log_density, inside = answers[0], (np.abs(answers[1] - 0.5) <= 0.45).mean(axis=-1)
    masks = {"context": tasks.context_mask, "target": ~tasks.context_mask, "task": np.ones_like(tasks.context_mask)}
    columns = {name: np.mean(log_density, axis=1, where=mask) for name, mask in masks.items()}
    columns["coverage_90"] = np.mean(inside, axis=1, where=~tasks.context_mask)
    return {
        "scores": summarise(columns),
        "target": _listed(columns["target"]),
        "cpu_seconds_a_window": cpu_seconds / len(log_density),
    }


def constant(x: np.ndarray, y: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A constant prediction."""
    return np.zeros((len(at), y.shape[1])), np.full((len(at), y.shape[1]), 1.1)


def matern(smoothness: float) -> Kernel:
    """A rough curve and noise."""
    return ConstantKernel(1.0) * Matern(length_scale=0.3, nu=smoothness) + WhiteKernel(0.1)


def cyclic() -> Kernel:
    """Cycles that slowly lose step and shape, begun near ten years, and noise."""
    ten_years = 10 / 26
    cycles = ExpSineSquared(length_scale=1.0, periodicity=ten_years, periodicity_bounds=(ten_years / 3, 3 * ten_years))
    return ConstantKernel(1.0) * Matern(length_scale=1.0, nu=1.5) * cycles + WhiteKernel(0.1)


def fitted_process(*kernels: Kernel) -> Forecast:
    """One process per species, with kernel and parameters chosen by maximum likelihood."""

    def forecast(x: np.ndarray, y: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        means, stds = [], []
        for values in y.T:
            fits = [GaussianProcessRegressor(kernel, n_restarts_optimizer=1, random_state=0) for kernel in kernels]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                process = max((fit.fit(x, values) for fit in fits), key=lambda fit: fit.log_marginal_likelihood_value_)
            mean, std = process.predict(at, return_std=True)
            means.append(mean)
            stds.append(np.maximum(std, 1e-3))
        return np.stack(means, axis=-1), np.stack(stds, axis=-1)

    return forecast


def draw(runs: Path) -> None:
    """Context, mean, band and draws of both worlds' MPANP, simulated and real."""
    for world in WORLDS:
        directory = runs / world / "mpanp"
        if not RunDirectory(directory).best.exists():
            continue
        model, _, _ = load_model(directory)
        for task in (world, "hare-lynx"):
            figure = plot_posterior(model, find_problem(task).test, num_samples=NUM_SAMPLES)
            figure.suptitle(f"MPANP trained on {world}, shown {task}")
            save_figure(figure, RESULTS / f"mpanp-{world}-on-{task}.png")


def write_tables() -> None:
    """The paper's table beside ours, the remedies, and whether the models notice."""
    records = {
        (world, model): read_json(path)
        for world, models in WORLDS.items()
        for model in models
        if (path := RESULTS / f"{world}-{model}.json").exists()
    }
    bars, stacks = (read_json(RESULTS / f"{name}.json")["rows"] for name in ("bars", "stacks"))
    tables = {
        "scores": score_table(records, bars),
        "remedies": remedy_table(records, bars, stacks),
        "plausibility": plausibility_table(records),
    }
    for name, text in tables.items():
        write_atomically(RESULTS / f"{name}.md", lambda file, text=text: file.write(text.encode()))
        print(text)


Records = dict[tuple[str, str], dict[str, Any]]
"""Records by training task and model."""


def score_table(records: Records, bars: dict[str, Any]) -> str:
    """Models of the paper's table, with the paper's numbers in brackets, and what needs no simulation."""
    header = ["model", *(f"simulated {name}" for name in METRICS), *(f"real {name}" for name in METRICS), "CPU-s"]
    rows = []
    for (world, model), record in records.items():
        if world == "lotka-volterra":
            cells = [
                f"{record[part]['scores'][name]['mean']:.3f} "
                f"({paper_rows()['predator-prey', tested_on, model].scores[name].mean:.3f})"
                for part, tested_on in (("simulated", "lotka-volterra"), ("real", "hare-lynx"))
                for name in METRICS
            ]
            rows.append([model, *cells, f"{record['real']['training']['cpu_seconds']:,.0f}"])
    rows += [
        [name, "", "", "", *(f"{bar['scores'][metric]['mean']:.3f}" for metric in METRICS), ""] for name, bar in bars.items()
    ]
    return markdown(header, rows)


def remedy_table(records: Records, bars: dict[str, Any], stacks: dict[str, Any]) -> str:
    """Every world, model and remedy on the real series, window by window against the fitted process."""
    header = [
        "trained on",
        "model",
        "remedy",
        "real target",
        "minus the GP's",
        "windows won",
        "90% band covers",
        "CPU-ms per window",
    ]
    rival = np.array(bars[RIVAL]["target"])
    rows = [
        [world, model, remedy, *_against(rival, result)]
        for (world, model), record in records.items()
        for remedy, result in record["remedies"].items()
    ]
    for name, result in stacks.items():
        world = "nothing" if name == CONSTANT else "predation-targets"
        rows.append([world, name, "stacked with the GP", *_against(rival, result)])
    return markdown(header, rows + [["nothing", name, "", *_against(rival, bar)] for name, bar in bars.items()])


def plausibility_table(records: Records) -> str:
    """How implausible real contexts are to models of simulated ones."""
    header = ["trained on", "model", "real contexts: median p", "p < 0.01", "simulated contexts: median p", "p < 0.01"]
    keys = ("real_median", "real_below_0.01", "simulated_median", "simulated_below_0.01")
    return markdown(
        header,
        [[world, model, *(f"{record['plausibility'][key]:.3f}" for key in keys)] for (world, model), record in records.items()],
    )


def _against(rival: np.ndarray, result: dict[str, Any]) -> list[str]:
    """Cells of a method on the real series, window by window against the fitted process."""
    difference = np.array(result["target"]) - rival
    won = f"{np.mean(difference > 0):.0%}" if difference.any() else ""
    cells = [f"{result['scores']['target']['mean']:.3f}", f"{difference.mean():+.3f}", won]
    return [*cells, f"{result['scores']['coverage_90']['mean']:.1%}", f"{1e3 * result['cpu_seconds_a_window']:.0f}"]


if __name__ == "__main__":
    main()
