"""Bayesian optimisation by ask and tell: ask for a point, evaluate it in any way, tell the result."""

import dataclasses
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.bayesopt.acquisition import EXPECTED_IMPROVEMENT, find_acquisition
from mpnp.bayesopt.space import Box, OutputScale, among, candidate_points, same_point, sobol_points
from mpnp.bayesopt.strategies import child_seed, choose, find_strategy
from mpnp.errors import InputError, RunError, first_line, show
from mpnp.io.files import read_json, write_json
from mpnp.options import require_count, require_seed

__all__ = ["Evaluation", "FailedEvaluationWarning", "Optimizer", "Result", "minimize"]

FORMAT, VERSION = "mpnp-bayesopt", 1

INITIAL, ELSEWHERE = 0, 1
"""Separate random streams for initial points and for points beyond an exhausted grid."""

Point = Float[np.ndarray, " input"]


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """A point in the user's units and its output, or NaN if the evaluation failed."""

    x: Point
    y: float


class Optimizer:
    """Minimises a function of any number of inputs within bounds, one suggestion at a time.

    `model` is a loaded model, the directory or name of one, a surrogate, 'gp' or 'random'. `bounds` is a pair (low, high), or
    a list with one pair per input. Until `num_initial` points are known, suggestions come from a scrambled Sobol sequence;
    then they maximise the acquisition over candidates. Suggestions are determined by the seed and the observations.

    >>> optimizer = Optimizer("random", (0, 10), seed=1)
    >>> for _ in range(5):
    ...     x = optimizer.ask()
    ...     optimizer.tell(x, (x[0] - 3) ** 2)
    >>> len(optimizer.evaluations)
    5
    """

    def __init__(
        self, model: Any, bounds: Any, *, acquisition: str = EXPECTED_IMPROVEMENT, num_initial: int = 3, seed: int = 0
    ) -> None:
        self.box = Box.read(bounds)
        require_count("num_initial", num_initial)
        require_seed(seed)
        self.strategy = find_strategy(model, acquisition)
        self.strategy.require_inputs(self.box.num_inputs)
        self.acquisition, self.num_initial, self.seed = acquisition, num_initial, int(seed)
        self.evaluations: list[Evaluation] = []
        """All observations, in the order of `tell`."""
        self.pending: list[Point] = []
        """Suggested points without an observation yet."""
        self._num_asked = 0

    @property
    def best(self) -> Evaluation | None:
        """The evaluation with the smallest output so far; None if there is none or all failed."""
        succeeded = self._succeeded()
        return min(succeeded, key=lambda evaluation: evaluation.y) if succeeded else None

    def ask(self) -> Point:
        """Suggest the point to evaluate next. Never repeats a suggested or observed point.

        Pending points are assumed to have the mean output so far, so that consecutive calls suggest different regions.
        """
        best = self.best
        known = self._known()
        unit = self._next_sobol(known) if best is None or len(known) < self.num_initial else self._acquire(best, known)
        point = self.box.from_unit(unit)
        self.pending.append(point)
        self._num_asked += 1
        return point.copy()

    def tell(self, x: Any, y: Any) -> None:
        """Report the output at a point; NaN, an infinity or None mark a failed evaluation.

        The point may be any within the bounds, suggested or not, and may be reported more than once. Failed points are never
        suggested again and are ignored by the model.
        """
        evaluation = Evaluation(self.box.point(x), _read_output(y))
        unit = self.box.to_unit(evaluation.x)
        self.pending = [point for point in self.pending if not same_point(self.box.to_unit(point), unit)]
        self.evaluations.append(evaluation)

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
    def restore(path: str | Path, model: Any) -> "Optimizer":
        """Continue from a file written by `save`. With the same model, suggestions go on as if there had been no interruption.

        Warns if the model differs from the one that was saved.
        """
        state = _SavedState.read(Path(path))
        optimizer = Optimizer(model, state.bounds, **state.options)
        if state.strategy is not None and state.strategy != optimizer.strategy.describe():
            warnings.warn(f"{path} was saved with another model; further suggestions come from this one", stacklevel=2)
        for x, y in state.evaluations:
            optimizer.tell(x, y)
        optimizer.pending, optimizer._num_asked = state.pending, state.num_asked
        return optimizer

    def _succeeded(self) -> list[Evaluation]:
        return [evaluation for evaluation in self.evaluations if not math.isnan(evaluation.y)]

    def _known(self) -> Float[np.ndarray, "point input"]:
        """Points, in the unit box, that must not be suggested again."""
        points = [evaluation.x for evaluation in self.evaluations] + self.pending
        return self.box.to_unit(np.reshape(points, (-1, self.box.num_inputs)))

    def _next_sobol(self, known: Float[np.ndarray, "point input"]) -> Point:
        """The next unknown point of the Sobol sequence."""
        points = sobol_points(self.box.num_inputs, self._num_asked + len(known) + 1, [self.seed, INITIAL])
        return next(point for point in points[self._num_asked :] if not same_point(known, point).any())

    def _acquire(self, best: Evaluation, known: Float[np.ndarray, "point input"]) -> Point:
        seed = child_seed(self.seed, self._num_asked)
        candidates = candidate_points(self.box.num_inputs, self.box.to_unit(best.x), [seed])
        is_known = among(candidates, known)
        if is_known.all():  # only with one input, after a thousand suggestions
            return np.random.default_rng([seed, ELSEWHERE]).random(self.box.num_inputs)
        succeeded = self._succeeded()
        y = np.asarray([[evaluation.y for evaluation in succeeded]])
        x = self.box.to_unit(np.stack([*(evaluation.x for evaluation in succeeded), *self.pending]))
        z = np.pad(OutputScale.of(y).apply(y), ((0, 0), (0, len(self.pending))))  # 0 is the mean output so far
        chosen = choose(self.strategy, x[None], z, candidates, is_known[None], np.asarray([seed], np.uint32))
        return candidates[chosen[0]]


@dataclasses.dataclass(frozen=True)
class _SavedState:
    """The content of a file written by `Optimizer.save`, all of it checked."""

    bounds: Any
    options: dict[str, Any]
    num_asked: int
    pending: list[Point]
    evaluations: list[tuple[Point, float]]
    strategy: Any
    """What described the model; None in files of earlier versions."""

    @staticmethod
    def read(path: Path) -> "_SavedState":
        """Read a file. Whatever is wrong with it is a `RunError`."""
        content = read_json(path)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise RunError(f"{path} was not written by Optimizer.save; expected the state of an optimisation")
        if content.get("version") != VERSION:
            raise RunError(f"{path} has format version {show(content.get('version'))}, but this mpnp reads {VERSION}")
        try:
            return _SavedState._check(content)
        except KeyError as error:
            raise RunError(f"{path} is damaged: it lacks {error}; restore it from a copy") from None
        except (TypeError, ValueError) as error:
            raise RunError(f"{path} is damaged ({first_line(error)}); restore it from a copy") from None

    @staticmethod
    def _check(content: dict[str, Any]) -> "_SavedState":
        options = {name: content[name] for name in ("acquisition", "num_initial", "seed")}
        find_acquisition(options["acquisition"])
        require_count("num_initial", options["num_initial"])
        require_seed(options["seed"])
        box, num_asked = Box.read(content["bounds"]), content["num_asked"]
        pending = [box.point(x) for x in content["pending"]]
        evaluations = [(box.point(x), _read_output(y)) for x, y in content["evaluations"]]
        require_count("num_asked", num_asked, least=len(pending))
        if num_asked > len(pending) + len(evaluations):  # every suggestion is pending or was observed
            raise ValueError(f"num_asked is {num_asked}, more than all pending points and evaluations")
        return _SavedState(content["bounds"], options, num_asked, pending, evaluations, content.get("strategy"))


def _read_output(y: Any) -> float:
    """A finite number, or NaN for a failed evaluation."""
    try:
        array = np.asarray(np.nan if y is None else y)
        if array.dtype.kind not in "iufb" or array.size != 1:
            raise TypeError
    except (TypeError, ValueError):
        raise InputError(f"an output must be one number, or None if the evaluation failed; got {show(y)}") from None
    value = float(array.reshape(()))
    return value if math.isfinite(value) else math.nan


class FailedEvaluationWarning(UserWarning):
    """The objective raised an error."""


@dataclasses.dataclass(frozen=True)
class Result:
    """The best point and its output, and all evaluations in order, with NaN for failed ones."""

    x: Float[np.ndarray, " input"]
    y: float
    inputs: Float[np.ndarray, "evaluation input"]
    outputs: Float[np.ndarray, " evaluation"]


def minimize(
    f: Callable[[Float[np.ndarray, " input"]], Any],
    bounds: Any,
    *,
    model: Any = "mpanp-rbf",
    num_iterations: int = 30,
    acquisition: str = EXPECTED_IMPROVEMENT,
    num_initial: int = 3,
    seed: int = 0,
    callback: Callable[[Optimizer], object] | None = None,
) -> Result:
    """Minimise `f` within the bounds by `num_initial` + `num_iterations` evaluations.

    `f` takes an array with one number per input and returns a number. If it raises an error, the evaluation counts as failed,
    with a warning, and the point is not tried again. `callback` gets the optimiser after every evaluation, for
    example to save it. The other arguments are those of `Optimizer`.

    >>> minimize(lambda x: (x[0] - 3) ** 2, (0, 10), model="random", num_iterations=7).outputs.shape
    (10,)
    """
    require_count("num_iterations", num_iterations, least=0)
    optimizer = Optimizer(model, bounds, acquisition=acquisition, num_initial=num_initial, seed=seed)
    for _ in range(num_initial + num_iterations):
        x = optimizer.ask()
        optimizer.tell(x, _evaluate(f, x))
        if callback is not None:
            callback(optimizer)
    best, evaluations = optimizer.best, optimizer.evaluations
    if best is None:
        raise InputError(
            f"all {len(evaluations)} evaluations failed, so there is no minimum; call the objective at "
            f"{evaluations[0].x.tolist()} to see why"
        )
    return Result(best.x, best.y, np.stack([e.x for e in evaluations]), np.asarray([e.y for e in evaluations]))


def _evaluate(f: Callable[[Float[np.ndarray, " input"]], Any], x: Float[np.ndarray, " input"]) -> Any:
    try:
        return f(x.copy())
    except Exception as error:
        warnings.warn(
            f"the objective failed at {x.tolist()} ({type(error).__name__}: {error}); this evaluation is ignored",
            FailedEvaluationWarning,
            stacklevel=3,
        )
        return None
