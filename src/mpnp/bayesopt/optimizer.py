"""Bayesian optimisation by ask and tell: the loop asks for a point, whoever can evaluates it, and tells."""

import dataclasses
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.bayesopt.box import Box, among, same_point
from mpnp.bayesopt.candidates import candidate_points, sobol_points
from mpnp.bayesopt.standardise import OutputScale
from mpnp.bayesopt.strategies import EXPECTED_IMPROVEMENT, choose, find_strategy, question_seed
from mpnp.errors import InputError, RunError
from mpnp.options import require_seed
from mpnp.records import read_json, write_json

__all__ = ["Evaluation", "Optimizer"]

FORMAT, VERSION = "mpnp-bayesopt", 1

INITIAL, ELSEWHERE = 0, 1
"""What random numbers are for, so that no two uses share any."""

Point = Float[np.ndarray, " input"]


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """A point in the user's units, and what came of it: a number, or NaN if the evaluation failed."""

    x: Point
    y: float


class Optimizer:
    """A search for the minimum of a function of any number of inputs within bounds.

    `model` is a loaded model, the directory or name of one, a surrogate, 'gp' or 'random'. The first `num_initial` points come
    from a scrambled Sobol sequence, unless as many were told; all others maximise the acquisition over candidates. The same
    seed and the same answers give the same questions.

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
        if not isinstance(num_initial, int) or num_initial < 1:
            raise InputError(f"num_initial must be a whole number of at least 1, got {num_initial!r}")
        require_seed(seed)
        self.strategy = find_strategy(model, acquisition)
        self.strategy.require_inputs(self.box.num_inputs)
        self.acquisition, self.num_initial, self.seed = acquisition, num_initial, int(seed)
        self.evaluations: list[Evaluation] = []
        """Everything that was told, in order."""
        self.pending: list[Point] = []
        """Points that were asked for and not told yet."""
        self._num_asked = 0

    @property
    def best(self) -> Evaluation | None:
        """The smallest output so far, or nothing if every evaluation failed."""
        succeeded = self._succeeded()
        return min(succeeded, key=lambda evaluation: evaluation.y) if succeeded else None

    def ask(self) -> Point:
        """The point to evaluate next. It is none that was asked for or told before.

        Points that are still pending are taken to have had the mean of the outputs so far, so that several questions in a row
        lead to several places.
        """
        best = self.best
        known = self._known()
        unit = self._next_sobol(known) if best is None or len(known) < self.num_initial else self._acquire(best, known)
        point = self.box.from_unit(unit)
        self.pending.append(point)
        self._num_asked += 1
        return point.copy()

    def tell(self, x: Any, y: Any) -> None:
        """What an evaluation gave; NaN, an infinity or None if it failed.

        Any point within the bounds will do, asked for or not, and the same point may be told again. One that failed is not
        asked for again, and is not conditioned on.
        """
        evaluation = Evaluation(self.box.point(x), _read_output(y))
        unit = self.box.to_unit(evaluation.x)
        self.pending = [point for point in self.pending if not same_point(self.box.to_unit(point), unit)]
        self.evaluations.append(evaluation)

    def save(self, path: str | Path) -> None:
        """Write all that was asked and told as JSON. The model is named in it, but not part of it."""
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
        """Continue what `save` wrote, with the same model: the next question is the one that would have come.

        Another model is warned about.
        """
        content = read_json(Path(path))
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise RunError(f"{path} was not written by Optimizer.save; expected the state of an optimisation")
        if content.get("version") != VERSION:
            raise RunError(f"{path} has format version {content.get('version')!r}, but this mpnp reads {VERSION}")
        try:
            options = {name: content[name] for name in ("acquisition", "num_initial", "seed")}
            num_asked, pending, evaluations = content["num_asked"], content["pending"], content["evaluations"]
            bounds = content["bounds"]
            Box.read(bounds)  # here, where what is wrong with them is the file's fault
        except KeyError as error:
            raise RunError(f"{path} is damaged: it lacks {error}; restore it from a copy") from None
        except InputError as error:
            raise RunError(f"{path} is damaged ({error}); restore it from a copy") from None
        optimizer = Optimizer(model, bounds, **options)
        if content.get("strategy", now := optimizer.strategy.describe()) != now:
            warnings.warn(f"{path} was saved with another model; the questions from here on are this one's", stacklevel=2)
        try:
            for x, y in evaluations:
                optimizer.tell(x, y)
            optimizer.pending = [optimizer.box.point(x) for x in pending]
            optimizer._num_asked = int(num_asked)
        except (TypeError, ValueError) as error:
            raise RunError(f"{path} is damaged ({error}); restore it from a copy") from None
        return optimizer

    def _succeeded(self) -> list[Evaluation]:
        return [evaluation for evaluation in self.evaluations if not math.isnan(evaluation.y)]

    def _known(self) -> Float[np.ndarray, "point input"]:
        """Points of the unit box that are not to be asked for again."""
        points = [evaluation.x for evaluation in self.evaluations] + self.pending
        return self.box.to_unit(np.reshape(points, (-1, self.box.num_inputs)))

    def _next_sobol(self, known: Float[np.ndarray, "point input"]) -> Point:
        """The next point of the sequence, which has one for each question."""
        points = sobol_points(self.box.num_inputs, self._num_asked + len(known) + 1, [self.seed, INITIAL])
        return next(point for point in points[self._num_asked :] if not same_point(known, point).any())

    def _acquire(self, best: Evaluation, known: Float[np.ndarray, "point input"]) -> Point:
        seed = question_seed(self.seed, self._num_asked)
        candidates = candidate_points(self.box.num_inputs, self.box.to_unit(best.x), [seed])
        is_known = among(candidates, known)
        if is_known.all():  # of one input, after a thousand questions
            return np.random.default_rng([seed, ELSEWHERE]).random(self.box.num_inputs)
        succeeded = self._succeeded()
        y = np.asarray([[evaluation.y for evaluation in succeeded]])
        x = self.box.to_unit(np.stack([*(evaluation.x for evaluation in succeeded), *self.pending]))
        z = np.pad(OutputScale.of(y).apply(y), ((0, 0), (0, len(self.pending))))  # zero is the mean of the outputs so far
        chosen = choose(self.strategy, x[None], z, candidates, is_known[None], np.asarray([seed], np.uint32))
        return candidates[chosen[0]]


def _read_output(y: Any) -> float:
    """A finite number, or NaN for whatever else an evaluation may end in."""
    try:
        array = np.asarray(np.nan if y is None else y)
        if array.dtype.kind not in "iufb" or array.size != 1:
            raise TypeError
    except (TypeError, ValueError):
        raise InputError(f"an output must be one number, or None for an evaluation that failed; got {y!r}") from None
    value = float(array.reshape(()))
    return value if math.isfinite(value) else math.nan
