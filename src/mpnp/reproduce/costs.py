"""What missing runs will cost, estimated from the CPU time of recorded runs of the same models."""

import collections
import dataclasses
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mpnp.errors import MpnpError
from mpnp.io.files import read_json
from mpnp.models.registry import MODELS
from mpnp.reproduce.rows import Run
from mpnp.tasks.registry import task_reach

__all__ = ["Costs"]


@dataclasses.dataclass(frozen=True)
class Costs:
    """CPU seconds per training point of each model, in runs that train the whole model."""

    per_point: Mapping[str, float]

    @staticmethod
    def read(out: Path) -> "Costs":
        """Read all records below a folder, of any budget. Unreadable records are ignored."""
        measured: dict[str, list[tuple[Run, float]]] = collections.defaultdict(list)
        for path in sorted(out.glob("*/records/*/*/*.json")):
            try:
                run, seconds = _measurement(read_json(path))
            except (MpnpError, KeyError, TypeError, IndexError):
                continue
            measured[run.model].append((run, seconds))
        costs = Costs({})
        for model in sorted(measured, key=lambda name: MODELS[name].core is not None):  # cores are known before their wholes
            costs = Costs({**costs.per_point, model: statistics.median(costs._rates(measured[model]))})
        return costs

    def _rates(self, runs: Iterable[tuple[Run, float]]) -> list[float]:
        """CPU seconds per point that each of these runs spent on the whole model."""
        return [
            max(seconds - self._core_seconds(run), 0) / (_points(run) * (1 - self._core_share(run))) for run, seconds in runs
        ]

    def seconds(self, run: Run) -> float | None:
        """The expected CPU seconds of training; None if no run of this model was recorded."""
        if run.model not in self.per_point:
            return None
        return self._core_seconds(run) + _points(run) * (1 - self._core_share(run)) * self.per_point[run.model]

    def _core_share(self, run: Run) -> float:
        """The share of the points on which only the core is trained, as far as its cost is known."""
        return run.recipe.core_share if MODELS[run.model].core in self.per_point else 0.0

    def _core_seconds(self, run: Run) -> float:
        if not (share := self._core_share(run)):
            return 0.0
        core = dataclasses.replace(run, model=MODELS[run.model].core)
        return share * _points(core) * self.per_point[core.model]


def _measurement(content: Any) -> tuple[Run, float]:
    """The run of a record, and its CPU seconds."""
    config = {field.name: content["config"][field.name] for field in dataclasses.fields(Run)}
    return Run.from_json(config), float(content["curve"][-1]["cpu_seconds"])


def _points(run: Run) -> int:
    """Points of all tasks of a run, each of them once for every function that the model samples."""
    num_functions = 1 if run.model == MODELS[run.model].base else run.recipe.num_samples
    return run.recipe.steps * run.recipe.batch_size * num_functions * task_reach(run.task)[2]
