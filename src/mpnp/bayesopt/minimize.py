"""Minimise a function that is costly to evaluate."""

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.bayesopt.optimizer import Optimizer
from mpnp.bayesopt.strategies import EXPECTED_IMPROVEMENT
from mpnp.errors import InputError

__all__ = ["FailedEvaluationWarning", "Result", "minimize"]


class FailedEvaluationWarning(UserWarning):
    """The objective raised an error, or gave no finite number."""


@dataclasses.dataclass(frozen=True)
class Result:
    """The best point and its output; then every point in the order of evaluation, with NaN for an output that failed."""

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
    """The smallest value of `f` within the bounds that `num_initial` + `num_iterations` evaluations find.

    `f` gets an array of one number an input and returns a number. An evaluation that raises an error is warned about, counts
    as failed, and is not repeated. `callback` gets the optimiser after every evaluation, and may save it.

    >>> minimize(lambda x: (x[0] - 3) ** 2, (0, 10), model="random", num_iterations=7).outputs.shape
    (10,)
    """
    if not isinstance(num_iterations, int) or num_iterations < 0:
        raise InputError(f"num_iterations must be a whole number of at least 0, got {num_iterations!r}")
    optimizer = Optimizer(model, bounds, acquisition=acquisition, num_initial=num_initial, seed=seed)
    for _ in range(num_initial + num_iterations):
        x = optimizer.ask()
        optimizer.tell(x, _evaluate(f, x))
        if callback is not None:
            callback(optimizer)
    best, evaluations = optimizer.best, optimizer.evaluations
    if best is None:
        raise InputError(
            f"all {len(evaluations)} evaluations failed, so there is no minimum; call the objective by itself at "
            f"{evaluations[0].x.tolist()} to see why"
        )
    return Result(best.x, best.y, np.stack([e.x for e in evaluations]), np.asarray([e.y for e in evaluations]))


def _evaluate(f: Callable[[Float[np.ndarray, " input"]], Any], x: Float[np.ndarray, " input"]) -> Any:
    try:
        return f(x.copy())
    except Exception as error:
        warnings.warn(
            f"the objective failed at {x.tolist()} ({type(error).__name__}: {error}); this evaluation is left out",
            FailedEvaluationWarning,
            stacklevel=3,
        )
        return None
