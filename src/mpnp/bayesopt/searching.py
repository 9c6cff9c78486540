"""Minimise or maximise a Python function."""

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any, SupportsIndex

import numpy as np
from jaxtyping import Float

from mpnp.bayesopt.acquisition import EXPECTED_IMPROVEMENT
from mpnp.bayesopt.optimizer import Optimizer
from mpnp.bayesopt.registry import AUTO
from mpnp.bayesopt.saved_state import read_output
from mpnp.errors import InputError, show
from mpnp.options import require_count

__all__ = ["FailedEvaluationWarning", "Result", "maximize", "minimize"]


class FailedEvaluationWarning(UserWarning):
    """The objective raised an error."""


@dataclasses.dataclass(frozen=True)
class Result:
    """The best point and its output, and all evaluations in order, with NaN for failed ones."""

    x: Float[np.ndarray, " input"]
    y: float
    inputs: Float[np.ndarray, "evaluation input"]
    outputs: Float[np.ndarray, " evaluation"]


Function = Callable[[Float[np.ndarray, " input"]], Any]
"""Takes an array with one number per input and returns a number."""


def minimize(
    f: Function,
    bounds: Any,
    *,
    model: Any = AUTO,
    num_iterations: SupportsIndex = 30,
    acquisition: str = EXPECTED_IMPROVEMENT,
    num_initial: SupportsIndex | None = None,
    seed: SupportsIndex = 0,
    callback: Callable[[Optimizer], object] | None = None,
) -> Result:
    """Minimise `f` within the bounds by `num_initial` + `num_iterations` evaluations.

    `f` takes an array with one number per input and returns a number. If it raises an error, the evaluation counts as failed,
    with a warning, and its neighbourhood is avoided. `callback` gets the optimiser after every evaluation, for
    example to save it. The other arguments are those of `Optimizer`.

    >>> minimize(lambda x: (x[0] - 3) ** 2, (0, 10), model="random", num_iterations=7).outputs.shape
    (10,)
    """
    require_count("num_iterations", num_iterations, least=0)
    for name, function in (("the objective", f), ("callback", callback or f)):
        if not callable(function):
            raise InputError(f"{name} must be a function, got {show(function)}")
    optimizer = Optimizer(model, bounds, acquisition=acquisition, num_initial=num_initial, seed=seed)
    for _ in range(optimizer.num_initial + int(num_iterations)):
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


def maximize(f: Function, bounds: Any, **options: Any) -> Result:
    """Maximise `f`; the arguments are those of `minimize`. The optimiser that `callback` gets minimises the negative.

    >>> maximize(lambda x: 5 - abs(x[0] - 3), (0, 10), model="random", num_iterations=7).y <= 5
    True
    """
    if not callable(f):
        raise InputError(f"the objective must be a function, got {show(f)}")
    result = minimize(lambda x: _negative(f(x)), bounds, **options)
    return dataclasses.replace(result, y=-result.y, outputs=-result.outputs)


def _negative(y: Any) -> float:
    return -read_output(y)


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
