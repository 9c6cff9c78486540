"""Does a neural process trained on finished studies speed up the next study?

    python benchmarks/meta_optimisation.py           train, search, write results/meta-optimisation
    python benchmarks/meta_optimisation.py --validate   the same on validation objectives; writes nothing

All objectives are from one family: two parameters, one on a logarithmic scale; a tilted valley with a random minimum, a cliff
where the rate is too high, ripples, noise. 400 of them are past studies, with 30 trials of Optuna's default sampler each.
Models learn from these studies; then every sampler searches 30 others, with 15 trials each.
"""

import argparse
import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import optuna
from matplotlib.figure import Figure
from scipy.optimize import minimize

from mpnp.bayesopt.acquisition import EXPECTED_IMPROVEMENT
from mpnp.bayesopt.gaussian_process import JITTER
from mpnp.bayesopt.history import History
from mpnp.bayesopt.space import OutputScale
from mpnp.bayesopt.strategies import ModelBased
from mpnp.bayesopt.surrogates import AbstractSurrogate
from mpnp.inference.estimator import NeuralProcessRegressor
from mpnp.inference.model import FittedModel, load
from mpnp.integrations.optuna import NeuralProcessSampler, tasks_from_studies
from mpnp.integrations.optuna.beliefs import AbstractBelief, suggest_in_units
from mpnp.integrations.optuna.space import Space
from mpnp.io.files import environment, read_json, write_atomically, write_json
from mpnp.models.config import ModelSettings
from mpnp.plotting.style import STYLE, save_figure
from mpnp.reproduce.tables import markdown
from mpnp.tables.curves import Curves

RESULTS = Path(__file__).parents[1] / "results" / "meta-optimisation"
SPACE = {
    "rate": optuna.distributions.FloatDistribution(1e-4, 1.0, log=True),
    "width": optuna.distributions.FloatDistribution(0.0, 10.0),
}
PAST, VALIDATION, TEST = 0, 1, 2
"""Seed prefixes, which keep past, validation and test objectives apart."""

NUM_PAST, PAST_TRIALS, NUM_REPEATS, NUM_TRIALS = 400, 30, 30, 15
NUM_RIPPLES = 24
NOISE = 0.05
"""Noise of an evaluation, in units of the objective's scale: repeated training runs differ."""

SETTINGS = ModelSettings(width=64, num_heads=4, sigma_min=0.005)
"""Default settings, but with a lower floor, because costs at the cliff make the unit large."""
GRID = 801

Places = np.ndarray
"""Positions in the unit box, one row per point: of the log rate and of the width."""


@dataclasses.dataclass(frozen=True)
class Landscape:
    """An objective of the family. Its cost is lowest near `floor`; level and scale are random."""

    seed: list[int]
    floor: np.ndarray
    tilt: float
    widths: np.ndarray
    cliff: float
    level: float
    scale: float
    waves: np.ndarray
    phases: np.ndarray

    @staticmethod
    def draw(part: int, number: int) -> "Landscape":
        """The objective with this index."""
        rng = np.random.default_rng([part, number])
        rate = np.clip(rng.normal(0.5, 0.13), 0.15, 0.85)
        width = np.clip(0.8 - 0.6 * rate + rng.normal(0, 0.1), 0.1, 0.9)
        return Landscape(
            seed=[part, number],
            floor=np.array([rate, width]),
            tilt=rng.normal(0.4, 0.2),
            widths=np.array([0.10, 0.30]) * np.exp(rng.normal(0, 0.25, size=2)),
            cliff=rng.uniform(0.1, 0.25),
            level=rng.normal(0, 0.5),
            scale=np.exp(rng.normal(0, 0.3)),
            waves=rng.normal(0, 6.0, size=(NUM_RIPPLES, 2)),
            phases=rng.uniform(0, 2 * np.pi, size=NUM_RIPPLES),
        )

    def __call__(self, places: Places) -> np.ndarray:
        away = places - self.floor
        turn = np.array([[np.cos(self.tilt), -np.sin(self.tilt)], [np.sin(self.tilt), np.cos(self.tilt)]])
        valley = np.sqrt(1 + ((away @ turn / self.widths) ** 2).sum(axis=-1)) - 1
        fall = np.logaddexp(0, (away[..., 0] - self.cliff) / 0.03)
        ripples = np.cos(places @ self.waves.T + self.phases).sum(axis=-1) * np.sqrt(2 / NUM_RIPPLES)
        return self.level + self.scale * (valley + np.minimum(fall, 4.0) + 0.12 * ripples)

    def minimum(self) -> float:
        """On a grid, then downhill from its five best points."""
        side = np.linspace(0, 1, GRID)
        places = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
        costs = self(places)
        starts = places[np.argsort(costs)[:5]]
        found = [minimize(self, start, method="L-BFGS-B", bounds=[(0, 1)] * 2).fun for start in starts]
        return float(min(costs.min(), *found))

    def objective(self, trial: optuna.Trial) -> float:
        """What Optuna minimises. The noise of the n-th trial is the same for every sampler."""
        params = {name: trial.suggest_float(name, one.low, one.high, log=one.log) for name, one in SPACE.items()}
        noise = np.random.default_rng([*self.seed, trial.number]).normal(0, NOISE)
        return self.cost(params) + self.scale * noise

    def cost(self, params: dict[str, float]) -> float:
        """The objective without its noise."""
        space = Space.of(SPACE)
        return float(self(space.box.to_unit(space.places([params])))[0])


class ProcessOfStudies(AbstractBelief, AbstractSurrogate):
    """A Gaussian process whose mean and kernel maximise the joint likelihood of all past studies, in their units.

    Matérn-5/2 with one length scale per parameter and a polynomial mean. It suggests from the first trial on, like our model.
    """

    def __init__(self, curves: Curves, degree: int) -> None:
        self.strategy, self.degree = ModelBased(self, EXPECTED_IMPROVEMENT), degree
        x, y = (np.stack(part) for part in zip(*map(curves.pair, range(len(curves))), strict=True))
        self.low, self.high = x.min(axis=(0, 1)), x.max(axis=(0, 1))
        x, y = self._units(x), y[..., 0]
        self.shift, self.spread = y.mean(), y.std()
        start = np.concatenate([np.log([1.0, 0.3, 0.3, 0.1]), np.zeros(_features(x[:1], degree).shape[-1])])
        with jax.enable_x64(True):
            loss = jax.jit(jax.value_and_grad(lambda p: _negative_log_likelihood(p, x, (y - self.shift) / self.spread, degree)))
            found = minimize(lambda p: [np.asarray(part, np.float64) for part in loss(p)], start, jac=True, method="L-BFGS-B")
        self.parameters, self.loss = found.x, float(found.fun)

    def require(self, space: Space) -> None:
        """Any."""

    def require_inputs(self, num_inputs: int) -> None:
        """Any."""

    def num_startup(self, space: Space) -> int:
        return 0

    def suggest(self, space: Space, history: History, seed: int) -> np.ndarray:
        return suggest_in_units(self.strategy, self._units, self.scale, space, history, seed)

    def scale(self, costs: np.ndarray) -> OutputScale:
        return OutputScale(np.full((len(costs), 1), self.shift), np.full((len(costs), 1), self.spread))

    def moments(self, x: Any, z: Any, candidates: Any, seeds: Any) -> tuple[np.ndarray, np.ndarray]:
        means, stds = [], []
        noise, amplitude = np.exp(2 * self.parameters[3]), np.exp(2 * self.parameters[0])
        for some, costs in zip(x, z, strict=True):
            factor = np.linalg.cholesky(_kernel(self.parameters, some, some) + noise * np.eye(len(some)))
            across = np.linalg.solve(factor, _kernel(self.parameters, some, candidates))
            rest = np.linalg.solve(factor, costs - self._mean(some))
            means.append(self._mean(candidates) + across.T @ rest)
            stds.append(np.sqrt(np.maximum(amplitude - (across**2).sum(axis=0), JITTER * amplitude)))
        return np.stack(means), np.stack(stds)

    def draw(self, x: Any, z: Any, candidates: Any, seeds: Any) -> np.ndarray:
        """Not needed here."""
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        return {
            "kernel": "Matérn-5/2",
            "degree_of_mean": self.degree,
            "parameters": [float(f"{value:.4g}") for value in self.parameters],
            "negative_log_likelihood": self.loss,
        }

    def _mean(self, x: np.ndarray) -> np.ndarray:
        return _features(x, self.degree) @ self.parameters[4:]

    def _units(self, places: Places) -> Places:
        return (places - self.low) / (self.high - self.low)


def _features(x: Any, degree: int) -> Any:
    """All monomials of the two inputs up to a degree."""
    powers = [(i, j) for i in range(degree + 1) for j in range(degree + 1 - i)]
    return np.stack([x[..., 0] ** i * x[..., 1] ** j for i, j in powers], axis=-1)


def _kernel(parameters: Any, a: Any, b: Any, xp: Any = np) -> Any:
    """Of every pair, in numpy, or in JAX where it is differentiated."""
    scaled = (a[:, None] - b[None]) / xp.exp(parameters[1:3])
    distance = xp.sqrt(5 * (scaled**2).sum(axis=-1) + 1e-12)
    return xp.exp(2 * parameters[0]) * (1 + distance + distance**2 / 3) * xp.exp(-distance)


def _negative_log_likelihood(parameters: Any, x: np.ndarray, z: np.ndarray, degree: int) -> Any:
    rest = z - _features(x, degree) @ parameters[4:]
    noise = (jnp.exp(2 * parameters[3]) + 1e-6) * jnp.eye(x.shape[1])

    def one(x: Any, rest: Any) -> Any:
        factor = jnp.linalg.cholesky(_kernel(parameters, x, x, jnp) + noise)
        white = jax.scipy.linalg.solve_triangular(factor, rest, lower=True)
        return (white**2).sum() / 2 + jnp.log(jnp.diag(factor)).sum()

    return jax.vmap(one)(jnp.asarray(x), rest).mean()


def past_studies() -> list[optuna.Study]:
    """The past studies."""
    studies = []
    for number in range(NUM_PAST):
        study = optuna.create_study(study_name=f"past {number}", sampler=optuna.samplers.TPESampler(seed=number))
        study.optimize(Landscape.draw(PAST, number).objective, n_trials=PAST_TRIALS)
        studies.append(study)
    return studies


def learnt_model(curves: Curves, steps: int, directory: Path) -> FittedModel:
    """Our model of the past studies, fitted as a user would; saved, so that it is fitted once."""
    if not (directory / "card.json").exists():
        NeuralProcessRegressor(steps=steps, rivals="none", settings=SETTINGS).fit(curves).model_.save(directory)
    return load(directory)


def search(make: Callable[[int], optuna.samplers.BaseSampler], part: int, repeats: int) -> dict[str, Any]:
    """Regret after every trial of every repeat, and CPU time of the search."""
    regrets, started = [], time.process_time()
    for number in range(repeats):
        landscape = Landscape.draw(part, number)
        study = optuna.create_study(sampler=make(number))
        study.optimize(landscape.objective, n_trials=NUM_TRIALS)
        costs = [landscape.cost(trial.params) for trial in study.trials]
        regrets.append((np.minimum.accumulate(costs) - landscape.minimum()) / landscape.scale)
    return {
        "regret": np.round(regrets, 6).tolist(),
        "cpu_seconds_a_trial": (time.process_time() - started) / (repeats * NUM_TRIALS),
    }


def main() -> None:
    """Learn, search, tabulate, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_500, help="training steps of our model")
    parser.add_argument("--models", type=Path, default=Path("runs/meta-optimisation"), help="where the fitted model lives")
    parser.add_argument("--validate", action="store_true", help="search validation objectives, and write nothing")
    parser.add_argument("--draw-only", action="store_true", help="table and figure of the record that exists")
    options = parser.parse_args()
    if options.draw_only:
        show(read_json(RESULTS / "regret.json"))
        return
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    curves = tasks_from_studies(past_studies())
    model = learnt_model(curves, options.steps, options.models)
    processes = {degree: ProcessOfStudies(curves, degree) for degree in (0, 2)}
    samplers: dict[str, tuple[Callable[[int], optuna.samplers.BaseSampler], dict[str, Any]]] = {
        "MPANP, learnt from past studies": (
            lambda seed: NeuralProcessSampler(model, search_space=SPACE, seed=seed),
            {key: model.card.about[key] for key in ("recipe", "cpu_seconds", "validation", "environment")},
        ),
        "GP, learnt from past studies": (
            lambda seed: NeuralProcessSampler(processes[0], search_space=SPACE, seed=seed),
            processes[0].describe(),
        ),
        "GP with quadratic mean, learnt from past studies": (
            lambda seed: NeuralProcessSampler(processes[2], search_space=SPACE, seed=seed),
            processes[2].describe(),
        ),
        "Optuna's GPSampler": (lambda seed: optuna.samplers.GPSampler(seed=seed), {}),
        "Optuna's TPESampler": (lambda seed: optuna.samplers.TPESampler(seed=seed), {}),
        "random": (lambda seed: optuna.samplers.RandomSampler(seed=seed), {}),
    }
    part = VALIDATION if options.validate else TEST
    rows = [{"sampler": name, **search(make, part, NUM_REPEATS), "about": about} for name, (make, about) in samplers.items()]
    if options.validate:
        print(tabulate(rows))
        return
    record = {
        "kind": "meta-optimisation",
        "protocol": {
            "past_studies": NUM_PAST,
            "past_trials": PAST_TRIALS,
            "past_sampler": "TPESampler",
            "repeats": NUM_REPEATS,
            "trials": NUM_TRIALS,
            "noise": NOISE,
            "regret": "best cost so far, without its noise, above the minimum, in units of the objective's scale",
            "seeds": f"objectives: [part, number], parts {PAST} past, {VALIDATION} validation, {TEST} test; samplers: number",
            "optuna": optuna.__version__,
        },
        "rows": rows,
        "environment": environment(),
    }
    write_json(RESULTS / "regret.json", record)
    show(record)


def show(record: dict[str, Any]) -> None:
    """The table and the figure of a record."""
    write_atomically(RESULTS / "table.md", lambda file: file.write(tabulate(record["rows"]).encode()))
    save_figure(draw(record["rows"]), RESULTS / "regret.png")
    print(tabulate(record["rows"]))


def tabulate(rows: list[dict[str, Any]]) -> str:
    """Medians over repeats."""
    shown = (1, 2, 3, 5, 10, 15)
    after = [f"{trial} trial{'s' if trial > 1 else ''}" for trial in shown]
    header = ["median regret after", *after, f"mean of {NUM_TRIALS} trials", "CPU-ms per trial"]
    return markdown(
        header,
        [
            [
                row["sampler"],
                *(f"{np.median(np.asarray(row['regret'])[:, trial - 1]):.3f}" for trial in shown),
                f"{np.median(np.mean(row['regret'], axis=1)):.3f}",
                f"{1e3 * row['cpu_seconds_a_trial']:.0f}",
            ]
            for row in rows
        ],
    )


def draw(rows: list[dict[str, Any]]) -> Figure:
    """Medians, and the range from the first to the third quartile."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8, 4.6), layout="constrained")
        ax = figure.subplots()
        for row in rows:
            low, median, high = np.quantile(row["regret"], [0.25, 0.5, 0.75], axis=0)
            trials = np.arange(1, len(median) + 1)
            (line,) = ax.plot(trials, median, lw=1.8, marker="o", ms=3, label=row["sampler"])
            ax.fill_between(trials, low, high, color=line.get_color(), alpha=0.12, lw=0)
        ax.set(
            xlabel="trial", ylabel="regret", yscale="log", title=f"{NUM_REPEATS} objectives never seen: median and quartiles"
        )
        figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


if __name__ == "__main__":
    main()
