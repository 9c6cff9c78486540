"""The paper's study of Bayesian optimisation: many searches for the minimum of a known function, step by step together."""

import dataclasses
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from tqdm import tqdm

from mpnp.bayesopt.box import among
from mpnp.bayesopt.candidates import GRID, grid
from mpnp.bayesopt.objectives import Objective, find_objective
from mpnp.bayesopt.standardise import OutputScale
from mpnp.bayesopt.strategies import (
    ACQUISITIONS,
    EXPECTED_IMPROVEMENT,
    AbstractStrategy,
    choose,
    find_strategy,
    question_seed,
    require_acquisition,
)
from mpnp.bayesopt.surrogates import Seeds
from mpnp.errors import InputError, RunError
from mpnp.options import option, require_counts, require_seed
from mpnp.records import environment, read_json, write_json

__all__ = [
    "Study",
    "Trials",
    "initial_points",
    "read_acquisitions",
    "read_records",
    "regret_quartiles",
    "run_named",
    "run_study",
    "run_trials",
    "simple_regret",
    "study_folder",
]

KIND, NEEDED = "bayesopt", {"strategy", "settings", "minimum", "simple_regret", "predicted"}

SMALLEST_GAP = 1e-4
"""First points nearer to the minimum than this, in units of the function, are drawn anew: there is nothing left to find."""

SHOWN_AFTER, NUM_SHOWN = 5, 10
"""The best predicted solutions of the first trial are kept at the start, after so many iterations and at the end."""

Pieces = Float[np.ndarray, "trial point"]


@dataclasses.dataclass(frozen=True)
class Study:
    """Everything but the strategy that decides the numbers of a study."""

    objective: str
    acquisition: str = EXPECTED_IMPROVEMENT
    num_trials: int = option(100, "searches, each from first points of its own")
    num_iterations: int = option(44, "evaluations of a search after its first points")
    num_initial: int = option(3, "first points of a search, drawn evenly from the domain")
    num_samples: int = option(10, "functions that stand for a model's posterior")
    seed: int = option(0, "decides the first points and every draw")

    def __post_init__(self) -> None:
        find_objective(self.objective)
        require_acquisition(self.acquisition)
        require_counts(self)
        require_seed(self.seed)

    def trial_seed(self, trial: int) -> int:
        """The seed of the draws of one search."""
        return question_seed(self.seed, trial)


@dataclasses.dataclass(frozen=True)
class Trials:
    """All evaluations of all searches, inputs as shares of the domain, and what the first search expected when."""

    x: Pieces
    y: Pieces
    predicted: list[dict[str, Any]]


def run_study(study: Study, models: Sequence[str | Path], out: Path, *, quiet: bool = False) -> None:
    """Write the record of each model that has none yet: the directory or name of a model, 'gp' or 'random'."""
    run_named(study, _labels(models), out, quiet=quiet)


def run_named(study: Study, named: Mapping[str, str | Path], out: Path, *, quiet: bool = False) -> None:
    """The same, with the names that the records are to have."""
    _require_agreement(study_folder(out, study), read_records(out, study), dataclasses.asdict(study))
    for label, model in named.items():
        path = study_folder(out, study) / f"{label}.json"
        strategy = find_strategy(model, study.acquisition, num_samples=study.num_samples)
        strategy.require_inputs(1)
        if path.exists():
            if read_json(path)["strategy"] != strategy.describe():
                raise RunError(f"{path} is the record of another model of that name; delete it, or choose another --out")
            continue
        write_json(path, _record(study, label, strategy, quiet=quiet))


def read_records(out: Path, study: Study) -> dict[str, Any]:
    """The records of a study's objective and acquisition, by the name of the strategy."""
    records = {path.stem: read_json(path) for path in sorted(study_folder(out, study).glob("*.json"))}
    for label, record in records.items():
        if not isinstance(record, dict) or record.get("kind") != KIND or not record.keys() >= NEEDED:
            raise RunError(f"{study_folder(out, study) / label}.json is not a whole record of this study; move it elsewhere")
    if records:
        _require_agreement(study_folder(out, study), records, next(iter(records.values()))["settings"])
    return records


def read_acquisitions(out: Path, study: Study) -> dict[str, dict[str, Any]]:
    """The records of a study's objective under every acquisition that has some, by acquisition and strategy."""
    read = {name: read_records(out, dataclasses.replace(study, acquisition=name)) for name in ACQUISITIONS}
    return {name: records for name, records in read.items() if records}


def study_folder(out: Path, study: Study) -> Path:
    """Where strategies that are to be compared have their records."""
    return out / study.objective / study.acquisition


def regret_quartiles(record: Mapping[str, Any]) -> dict[str, tuple[float, float, float]]:
    """First quartile, median and third quartile over trials of the regret at the end, and of its sum over iterations."""
    regret = np.asarray(record["simple_regret"])
    quartiles = {}
    for name, values in (("regret", regret[:, -1]), ("sum", regret.sum(axis=1))):
        low, median, high = np.quantile(values, [0.25, 0.5, 0.75])
        quartiles[name] = float(low), float(median), float(high)
    return quartiles


def run_trials(study: Study, strategy: AbstractStrategy, *, quiet: bool = True) -> Trials:
    """All searches of a strategy, one iteration of all of them at a time."""
    objective, candidates = find_objective(study.objective), grid()
    seeds = [study.trial_seed(trial) for trial in range(study.num_trials)]
    x = initial_points(study)
    y = objective(objective.place(x))
    known = among(candidates, x[..., None])
    predicted = _predicted(strategy, objective, x, y, seeds, after=0)
    title = f"{study.objective}, {strategy.describe()['model']}"
    for iteration in tqdm(range(study.num_iterations), desc=title, unit="iteration", disable=True if quiet else None):
        z = OutputScale.of(y).apply(y)
        chosen = choose(strategy, x[..., None], z, candidates, known, _question_seeds(seeds, iteration))
        known[np.arange(study.num_trials), chosen] = True
        x = np.concatenate([x, candidates[chosen]], axis=1)
        y = objective(objective.place(x))
        if iteration + 1 in (SHOWN_AFTER, study.num_iterations):
            predicted += _predicted(strategy, objective, x, y, seeds, after=iteration + 1)
    return Trials(x, y, predicted)


def initial_points(study: Study) -> Pieces:
    """The first points of every search, the same for all strategies."""
    objective = find_objective(study.objective)
    return np.stack([_initial(objective, study.num_initial, [study.seed, trial]) for trial in range(study.num_trials)])


def simple_regret(y: Pieces, minimum: float, num_initial: int) -> Float[np.ndarray, "trial iteration"]:
    """How far the best value so far is above the minimum, as a share of the same before the first iteration."""
    gap = np.maximum(np.minimum.accumulate(y, axis=1)[:, num_initial - 1 :] - minimum, 0)
    return gap / gap[:, :1]


def _initial(objective: Objective, count: int, seed: list[int]) -> Float[np.ndarray, " point"]:
    rng = np.random.default_rng(seed)
    while True:
        x = rng.random(count)
        if objective(objective.place(x)).min() - objective.minimum[1] >= SMALLEST_GAP:
            return x


def _predicted(
    strategy: AbstractStrategy, objective: Objective, x: Pieces, y: Pieces, seeds: Sequence[int], *, after: int
) -> list[dict[str, Any]]:
    """What the first search has seen, and the candidates of which it expects most; nothing if it expects nothing."""
    scale, candidates = OutputScale.of(y), grid()
    # All searches are asked, though one is kept: for one alone, another program would have to be compiled.
    expected = strategy.expected(x[..., None], scale.apply(y), candidates, _question_seeds(seeds, after))
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


def _question_seeds(seeds: Sequence[int], number: int) -> Seeds:
    return np.asarray([question_seed(seed, number) for seed in seeds], np.uint32)


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
    """Models by the last part of their path, under which their records are kept."""
    named: dict[str, str | Path] = {}
    for model in models:
        label = Path(model).name
        if label in named:
            raise InputError(f"two of the models are called '{label}', and would share a record; rename one, or name it once")
        named[label] = model
    return named


def _require_agreement(folder: Path, records: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Strategies are compared on the same searches, or not at all."""
    for label, record in records.items():
        for name, value in record["settings"].items():
            if wanted.get(name) != value:
                raise RunError(
                    f"{folder / label}.json was made with {name} = {value}, not {wanted.get(name)}; repeat that choice, or "
                    "choose another --out"
                )


def _rounded(values: Iterable[Any]) -> list[Any]:
    """Six digits, as nested lists."""
    array = np.asarray(values)
    return np.reshape([float(f"{value:.6g}") for value in array.ravel()], array.shape).tolist()
