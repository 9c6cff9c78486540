"""The paper's Bayesian optimisation benchmark: many searches for the minimum of a known function, run in lockstep."""

import dataclasses
import functools
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from tqdm import tqdm

from mpnp.bayesopt.acquisition import ACQUISITIONS, EXPECTED_IMPROVEMENT, find_acquisition
from mpnp.bayesopt.objectives import Objective, find_objective
from mpnp.bayesopt.registry import find_strategy
from mpnp.bayesopt.space import GRID, OutputScale, among, grid
from mpnp.bayesopt.strategies import AbstractStrategy, child_seed, choose
from mpnp.bayesopt.surrogates import NeuralProcessSurrogate, Seeds
from mpnp.errors import InputError, RunError
from mpnp.io.files import environment, read_json, write_json
from mpnp.options import option, require_fields, require_seed

__all__ = [
    "SUMMARY_HEADER",
    "Study",
    "Summary",
    "Trials",
    "initial_points",
    "read_acquisitions",
    "read_records",
    "run_named",
    "run_study",
    "run_trials",
    "simple_regret",
    "study_folder",
    "summarise_regret",
    "summary_cells",
]

KIND = "bayesopt"

SMALLEST_GAP = 1e-4
"""Initial points whose best value is within this of the minimum are redrawn: nothing would be left to find."""

SHOWN_AFTER, NUM_SHOWN = 5, 10
"""Records keep the first trial's `NUM_SHOWN` best predicted solutions: first, after `SHOWN_AFTER` iterations, and last."""

TrialPoints = Float[np.ndarray, "trial point"]


@dataclasses.dataclass(frozen=True)
class Study:
    """Settings of a study: everything that determines its numbers except the strategy."""

    objective: str
    acquisition: str = EXPECTED_IMPROVEMENT
    num_trials: int = option(100, "number of searches, each with its own initial points")
    num_iterations: int = option(44, "evaluations per search after the initial points")
    num_initial: int = option(3, "initial points per search, drawn uniformly from the domain")
    num_samples: int = option(10, "function samples that represent a model's posterior")
    seed: int = option(0, "determines the initial points and every random draw")

    def __post_init__(self) -> None:
        find_objective(self.objective)
        find_acquisition(self.acquisition)
        require_fields(self)
        require_seed(self.seed)

    def trial_seed(self, trial: int) -> int:
        """The seed of one search."""
        return child_seed(self.seed, trial)


@dataclasses.dataclass(frozen=True)
class Trials:
    """All evaluations of all searches, with inputs in the unit interval, and the first search's predicted solutions."""

    x: TrialPoints
    y: TrialPoints
    predicted: list[dict[str, Any]]


def run_study(study: Study, models: Sequence[str | Path], out: Path, *, quiet: bool = False) -> None:
    """Run the study and write one record per model: a directory or name of a model, 'gp' or 'random'.

    Models that already have a record are skipped, so rerunning resumes.
    """
    run_named(study, _labels(models), out, quiet=quiet)


def run_named(study: Study, named: Mapping[str, str | Path], out: Path, *, quiet: bool = False) -> None:
    """Like `run_study`, with explicit names for the records."""
    _require_agreement(study_folder(out, study), read_records(out, study), dataclasses.asdict(study))
    for label, model in named.items():
        path = study_folder(out, study) / f"{label}.json"
        # The paper's models draw functions themselves.
        read = functools.partial(NeuralProcessSurrogate, num_samples=study.num_samples)
        strategy = find_strategy(model, study.acquisition, read=read)
        strategy.require_inputs(1)
        if path.exists():
            if read_json(path)["strategy"] != strategy.describe():
                raise RunError(f"{path} is the record of another model with the same name; delete it, or choose another --out")
            continue
        write_json(path, _record(study, label, strategy, quiet=quiet))


def read_records(out: Path, study: Study) -> dict[str, Any]:
    """The records of the study's objective and acquisition, by strategy name."""
    records = {path.stem: read_json(path) for path in sorted(study_folder(out, study).glob("*.json"))}
    for label, record in records.items():
        if not _is_complete(record):
            raise RunError(f"{study_folder(out, study) / label}.json is not a complete record of this study; move it elsewhere")
    if records:
        _require_agreement(study_folder(out, study), records, next(iter(records.values()))["settings"])
    return records


def read_acquisitions(out: Path, study: Study) -> dict[str, dict[str, Any]]:
    """The records of the study's objective under every acquisition that has any, by acquisition and strategy name."""
    read = {name: read_records(out, dataclasses.replace(study, acquisition=name)) for name in ACQUISITIONS}
    return {name: records for name, records in read.items() if records}


def study_folder(out: Path, study: Study) -> Path:
    """The folder of the records of one objective and acquisition."""
    return out / study.objective / study.acquisition


@dataclasses.dataclass(frozen=True)
class Summary:
    """A number over trials: quartiles (25%, 50%, 75%) and mean."""

    low: float
    median: float
    high: float
    mean: float

    def cells(self, digits: int) -> list[str]:
        """For a table: median, quartiles and mean."""
        low, median, high, mean = (f"{value:.{digits}f}" for value in dataclasses.astuple(self))
        return [median, f"{low} to {high}", mean]


SUMMARY_HEADER = ["regret", "quartiles", "mean", "sum", "quartiles", "mean"]
"""Header of the cells that `summary_cells` makes."""


def summarise_regret(record: Mapping[str, Any]) -> tuple[Summary, Summary]:
    """The final regret, and the regret summed over iterations."""
    regret = np.asarray(record["simple_regret"])
    final, total = (
        Summary(*(float(value) for value in (*np.quantile(values, [0.25, 0.5, 0.75]), values.mean())))
        for values in (regret[:, -1], regret.sum(axis=1))
    )
    return final, total


def summary_cells(record: Mapping[str, Any]) -> list[str]:
    """The cells of a record in a table."""
    final, total = summarise_regret(record)
    return [*final.cells(5), *total.cells(2)]


def run_trials(study: Study, strategy: AbstractStrategy, *, quiet: bool = True) -> Trials:
    """Run all searches of a strategy, one iteration of all of them at a time."""
    objective, candidates = find_objective(study.objective), grid()
    seeds = [study.trial_seed(trial) for trial in range(study.num_trials)]
    x = initial_points(study)
    y = objective(objective.place(x))
    known = among(candidates, x[..., None])
    predicted = _predicted(strategy, objective, x, y, seeds, after=0)
    title = f"{study.objective}, {strategy.describe()['model']}"
    for iteration in tqdm(range(study.num_iterations), desc=title, unit="iteration", disable=True if quiet else None):
        z = OutputScale.of(y).apply(y)
        chosen = choose(strategy, x[..., None], z, candidates, known, _child_seeds(seeds, iteration))
        known[np.arange(study.num_trials), chosen] = True
        x = np.concatenate([x, candidates[chosen]], axis=1)
        y = objective(objective.place(x))
        if iteration + 1 in (SHOWN_AFTER, study.num_iterations):
            predicted += _predicted(strategy, objective, x, y, seeds, after=iteration + 1)
    return Trials(x, y, predicted)


def initial_points(study: Study) -> TrialPoints:
    """The initial points of every search, the same for all strategies."""
    objective = find_objective(study.objective)
    return np.stack([_initial(objective, study.num_initial, [study.seed, trial]) for trial in range(study.num_trials)])


def simple_regret(y: TrialPoints, minimum: float, num_initial: int) -> Float[np.ndarray, "trial iteration"]:
    """Gap between the best value so far and the minimum, relative to the gap before the first iteration."""
    gap = np.maximum(np.minimum.accumulate(y, axis=1)[:, num_initial - 1 :] - minimum, 0)
    return gap / gap[:, :1]


def _initial(objective: Objective, count: int, seed: list[int]) -> Float[np.ndarray, " point"]:
    rng = np.random.default_rng(seed)
    while True:
        x = rng.random(count)
        if objective(objective.place(x)).min() - objective.minimum[1] >= SMALLEST_GAP:
            return x


def _predicted(
    strategy: AbstractStrategy, objective: Objective, x: TrialPoints, y: TrialPoints, seeds: Sequence[int], *, after: int
) -> list[dict[str, Any]]:
    """Observations and best predicted candidates of the first search; empty for strategies that predict nothing."""
    scale, candidates = OutputScale.of(y), grid()
    # Predict for all searches though only one is kept: a batch of one would need another compiled program.
    expected = strategy.expected(x[..., None], scale.apply(y), candidates, _child_seeds(seeds, after))
    if expected is None:
        return []
    best = np.argsort(expected[0], kind="stable")[:NUM_SHOWN]
    content = {
        "x": objective.place(candidates[best, 0]),
        "mean": scale.undo(expected)[0, best],
        "observed_x": objective.place(x[0]),
        "observed_y": y[0],
    }
    return [{"after": after, **{name: _rounded(values) for name, values in content.items()}}]


def _child_seeds(seeds: Sequence[int], index: int) -> Seeds:
    return np.asarray([child_seed(seed, index) for seed in seeds], np.uint32)


def _record(study: Study, label: str, strategy: AbstractStrategy, *, quiet: bool) -> dict[str, Any]:
    objective, started = find_objective(study.objective), time.process_time()
    trials = run_trials(study, strategy, quiet=quiet)
    cpu_seconds = time.process_time() - started
    return {
        "kind": KIND,
        "label": label,
        "strategy": strategy.describe(),
        "settings": dataclasses.asdict(study),
        "declared": {
            "candidates": f"regular grid of {GRID} points, none evaluated twice",
            "inputs": "affine from the function's domain to that of the model's training",
            "outputs": "standardised by mean and standard deviation of what the search has observed",
            "regret": "best so far above the minimum, as a share of the same after the first points",
        },
        "minimum": {"x": objective.minimum[0], "y": objective.minimum[1]},
        "cpu_seconds": round(cpu_seconds, 3),
        "environment": environment(),
        "simple_regret": _rounded(simple_regret(trials.y, objective.minimum[1], study.num_initial)),
        "x": _rounded(objective.place(trials.x)),
        "predicted": trials.predicted,
    }


def _labels(models: Sequence[str | Path]) -> dict[str, str | Path]:
    """Models by the last part of their path, which names their records."""
    named: dict[str, str | Path] = {}
    for model in models:
        label = Path(model).name
        if label in named:
            raise InputError(f"two of the models are called '{label}' and would share a record; rename one, or list it once")
        named[label] = model
    return named


def _is_complete(record: Any) -> bool:
    """Whether it is a record of a study, with all that tables and figures show."""
    try:
        regret, shown = np.asarray(record["simple_regret"], float), record["predicted"]
        return (
            record["kind"] == KIND
            and regret.ndim == 2
            and bool(np.isfinite(regret).all())
            and {*map(type, (record["settings"], record["strategy"], record["minimum"], *shown))} == {dict}
        )
    except (KeyError, TypeError, ValueError):
        return False


def _require_agreement(folder: Path, records: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Strategies are comparable only on the same searches."""
    for label, record in records.items():
        for name, value in record["settings"].items():
            if wanted.get(name) != value:
                raise RunError(
                    f"{folder / label}.json was made with {name} = {value}, not {wanted.get(name)}; use the same value, or "
                    "choose another --out"
                )


def _rounded(values: Iterable[Any]) -> list[Any]:
    """Nested lists, rounded to six significant digits."""
    array = np.asarray(values)
    return np.reshape([float(f"{value:.6g}") for value in array.ravel()], array.shape).tolist()
