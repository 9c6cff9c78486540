"""Bayesian optimisation by ask and tell: ask for a point, evaluate it in any way, tell the result."""

import dataclasses
import math
import warnings
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
from jaxtyping import Float

from mpnp.bayesopt.acquisition import EXPECTED_IMPROVEMENT
from mpnp.bayesopt.history import History, anywhere
from mpnp.bayesopt.registry import AUTO, find_strategy
from mpnp.bayesopt.saved_state import FORMAT, VERSION, SavedState, read_output, read_pairs
from mpnp.bayesopt.space import Box, same_point, sobol_points
from mpnp.bayesopt.strategies import child_seed
from mpnp.io.files import write_json
from mpnp.options import require_count, require_seed

__all__ = ["Evaluation", "Optimizer", "StalledSearchWarning"]

INITIAL = 0
"""Random stream of the initial points."""

STALLED_AFTER, STALLED_WITHIN = 12, 1e-3
"""A search whose latest evaluations, this many, lie this close together in the unit box has stalled."""

Point = Float[np.ndarray, " input"]
Points = Float[np.ndarray, "point input"]


class StalledSearchWarning(UserWarning):
    """A search suggests the same place again and again."""


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """A point in the user's units and its output, or NaN if the evaluation failed."""

    x: Point
    y: float


class Optimizer:
    """Minimises a function of any number of inputs within bounds, one suggestion or one batch at a time.

    `model` is 'auto', 'gp', 'gp-rbf', 'random', a loaded model, the directory or name of one, or a surrogate. `bounds` is a
    pair (low, high), or a list with one pair per input. Until `num_initial` points are known (by default three, and one more
    for each input beyond the first), suggestions come from a scrambled Sobol sequence; then they maximise the acquisition.
    Suggestions are determined by the seed and the observations.

    >>> optimizer = Optimizer("random", (0, 10), seed=1)
    >>> for _ in range(5):
    ...     x = optimizer.ask()
    ...     optimizer.tell(x, (x[0] - 3) ** 2)
    >>> len(optimizer.evaluations)
    5
    """

    def __init__(
        self,
        model: Any = AUTO,
        bounds: Any = None,
        *,
        acquisition: str = EXPECTED_IMPROVEMENT,
        num_initial: SupportsIndex | None = None,
        seed: SupportsIndex = 0,
    ) -> None:
        self.box = Box.read(bounds)
        num_initial = self.box.num_inputs + 2 if num_initial is None else num_initial
        require_count("num_initial", num_initial)
        require_seed(seed)
        self.strategy = find_strategy(model, acquisition)
        self.strategy.require_inputs(self.box.num_inputs)
        self.acquisition, self.num_initial, self.seed = str(acquisition), int(num_initial), int(seed)
        self.evaluations: list[Evaluation] = []
        """All observations, in the order of `tell`."""
        self.pending: list[Point] = []
        """Suggested points without an observation yet."""
        self._num_asked = 0

    @property
    def best(self) -> Evaluation | None:
        """The evaluation believed to be the best; None if there is none or all failed.

        With a Gaussian process that sees noise, it is that with the lowest posterior mean; otherwise that with the smallest
        output.
        """
        succeeded = self._succeeded()
        return succeeded[self.strategy.best(self._history())] if succeeded else None

    @property
    def explanation(self) -> str:
        """Which model made the latest suggestion, and why."""
        return f"suggestions come from {self.strategy.explanation}"

    def ask(self, n: SupportsIndex | None = None) -> Point | Points:
        """Suggest the point to evaluate next, or a matrix of `n` points. Never repeats a suggested or observed point.

        Suggestions are made one after another, each of which takes those before and all pending ones into account: the model
        believes them to have their expected outputs. With `acquisition="thompson"` each is the minimum of another function.
        """
        if n is None:
            return self._ask()
        require_count("n", n)
        return np.stack([self._ask() for _ in range(int(n))])

    def tell(self, x: Any, y: Any) -> None:
        """Report the output at a point, or one output for each row of a matrix of points.

        NaN, an infinity or None mark a failed evaluation. A point may be any within the bounds, suggested or not, and may be
        reported more than once. Failed points are never suggested again, and points surrounded by failures are avoided.
        """
        pairs = [(x, y)] if self.box.is_point(x) else read_pairs(x, y)
        for point, output in [(self.box.point(point), read_output(output)) for point, output in pairs]:
            self._tell(point, output)

    def save(self, path: str | Path) -> None:
        """Write suggestions and observations as JSON. The file identifies the model but does not contain it."""
        write_json(
            Path(path),
            {
                "format": FORMAT,
                "version": VERSION,
                "bounds": np.stack([self.box.low, self.box.high], axis=1).tolist(),
                "strategy": self.strategy.describe(),
                "acquisition": self.acquisition,
                "num_initial": self.num_initial,
                "seed": self.seed,
                "num_asked": self._num_asked,
                "pending": [point.tolist() for point in self.pending],
                "evaluations": [[e.x.tolist(), None if math.isnan(e.y) else e.y] for e in self.evaluations],
            },
        )

    @staticmethod
    def restore(path: str | Path, model: Any = AUTO) -> "Optimizer":
        """Continue from a file written by `save`. With the same model, suggestions go on as if there had been no interruption.

        Warns if the model differs from the one that was saved.
        """
        state = SavedState.read(Path(path))
        optimizer = Optimizer(model, state.bounds, **state.options)
        if state.strategy is not None and state.strategy != optimizer.strategy.describe():
            warnings.warn(f"{path} was saved with another model; further suggestions come from this one", stacklevel=2)
        optimizer.evaluations = [Evaluation(x, y) for x, y in state.evaluations]
        optimizer.pending, optimizer._num_asked = state.pending, state.num_asked
        return optimizer

    def _ask(self) -> Point:
        history = self._history()
        if not len(history.x) or len(history.known) < self.num_initial:
            unit = self._next_sobol(history.known)
        else:
            unit = self.strategy.suggest(history, anywhere, child_seed(self.seed, self._num_asked))
        point = self.box.from_unit(unit)
        self.pending.append(point)
        self._num_asked += 1
        return point.copy()

    def _tell(self, x: Point, y: float) -> None:
        unit = self.box.to_unit(x)
        self.pending = [point for point in self.pending if not same_point(self.box.to_unit(point), unit)]
        self.evaluations.append(Evaluation(x, y))
        latest = self.box.to_unit(np.stack([evaluation.x for evaluation in self.evaluations[-STALLED_AFTER:]]))
        if len(latest) == STALLED_AFTER and (np.ptp(latest, axis=0) < STALLED_WITHIN).all():
            warnings.warn(
                f"the latest {STALLED_AFTER} evaluations lie within a thousandth of the box, so the search has stalled at "
                f"{x.tolist()}: stop here, or continue with another model or acquisition",
                StalledSearchWarning,
                stacklevel=3,
            )

    def _succeeded(self) -> list[Evaluation]:
        return [evaluation for evaluation in self.evaluations if not math.isnan(evaluation.y)]

    def _history(self) -> History:
        succeeded = self._succeeded()
        failed = [evaluation for evaluation in self.evaluations if math.isnan(evaluation.y)]
        x, failures = ([evaluation.x for evaluation in some] for some in (succeeded, failed))
        y = np.asarray([evaluation.y for evaluation in succeeded], np.float64)
        return History(self._unit(x), y, self._unit(self.pending), self._unit(failures))

    def _unit(self, points: list[Point]) -> Points:
        return self.box.to_unit(np.reshape(points, (-1, self.box.num_inputs)))

    def _next_sobol(self, known: Points) -> Point:
        """The next unknown point of the Sobol sequence."""
        points = sobol_points(self.box.num_inputs, self._num_asked + len(known) + 1, [self.seed, INITIAL])
        return next(point for point in points[self._num_asked :] if not same_point(known, point).any())
