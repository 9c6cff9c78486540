"""Which lines each table and figure of the paper needs."""

import dataclasses
import functools
from collections.abc import Callable, Iterable

import jax

from mpnp.models.catalogue import MODELS, build, num_parameters
from mpnp.models.parts import POOLED
from mpnp.models.settings import ModelSettings
from mpnp.reproduce.budgets import Budget
from mpnp.reproduce.lines import Line

__all__ = [
    "ATTENTIVE_MODELS",
    "NUM_PSEUDO",
    "PAPER_MODELS",
    "PLANS",
    "POOLED_MODELS",
    "REGRESSION_TASKS",
    "base_of",
    "martingale_of",
    "matched_width",
]

POOLED_MODELS = ("cnp", "np", "bnp", "mpnp")
ATTENTIVE_MODELS = ("canp", "anp", "banp", "mpanp")
PAPER_MODELS = (*POOLED_MODELS, *ATTENTIVE_MODELS)
TWELVE = (*POOLED_MODELS, "mpnp-dsi", "mpnp-dse", *ATTENTIVE_MODELS, "mpanp-dsi", "mpanp-dse")
REGRESSION_TASKS = ("rbf", "matern", "periodic", "t-noise")
NUM_PSEUDO = (1, 10, 50)

Plan = Callable[[Budget], list[Line]]


def martingale_of(model: str) -> str:
    """The paper's model with the same backbone."""
    return "mpnp" if MODELS[model].architecture is POOLED else "mpanp"


def base_of(model: str) -> str:
    """The conditional model with the same backbone: no functional uncertainty."""
    return "cnp" if MODELS[model].architecture is POOLED else "canp"


def _lines(
    budget: Budget, models: Iterable[str], tasks: Iterable[str], group: str, *, num_tasks: int | None = None
) -> list[Line]:
    return [Line(model, task, group, task, budget.settings, num_tasks) for task in tasks for model in models]


def _learnt(budget: Budget, models: Iterable[str], tasks: Iterable[str]) -> list[Line]:
    """Lines of one-dimensional regression, where models with the same backbone are a group."""
    return [
        dataclasses.replace(line, group="pooled" if MODELS[line.model].architecture is POOLED else "attentive")
        for line in _lines(budget, models, tasks, "")
    ]


def _regression(budget: Budget) -> list[Line]:
    return _learnt(budget, PAPER_MODELS, REGRESSION_TASKS)


def _finite_data(budget: Budget) -> list[Line]:
    return [
        line
        for size in budget.finite_sizes
        for line in _lines(budget, PAPER_MODELS, REGRESSION_TASKS, "finite-data", num_tasks=size)
    ]


def _size_matched(budget: Budget) -> list[Line]:
    lines = _learnt(budget, PAPER_MODELS, ("rbf", "matern"))
    return [dataclasses.replace(line, settings=_matched(line)) for line in lines]


def _matched(line: Line) -> ModelSettings:
    if line.model == martingale_of(line.model):
        return line.settings
    return dataclasses.replace(line.settings, encoder_width=matched_width(line.model, line.settings))


@functools.cache
def matched_width(model: str, settings: ModelSettings) -> int:
    """The smallest width of the encoder with which a baseline has as many parameters as its martingale model."""
    wanted, low, high = _count(martingale_of(model), settings), settings.width, 2 * settings.width
    enlarged = functools.partial(dataclasses.replace, settings)
    while _count(model, enlarged(encoder_width=high)) < wanted:
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        if _count(model, enlarged(encoder_width=middle)) < wanted:
            low = middle + 1
        else:
            high = middle
    return low


def _count(model: str, settings: ModelSettings) -> int:
    return num_parameters(jax.eval_shape(functools.partial(build, model, settings=settings), key=jax.random.key(0)))


def _four_dimensional(budget: Budget) -> list[Line]:
    return _lines(budget, PAPER_MODELS, ("rbf-4d",), "4d")


def _images(budget: Budget) -> list[Line]:
    return [line for name in ("mnist", "svhn", "celeba") for line in _lines(budget, PAPER_MODELS, (name,), name)]


def _predator_prey(budget: Budget) -> list[Line]:
    simulated = _lines(budget, PAPER_MODELS, ("lotka-volterra",), "predator-prey")
    return simulated + [dataclasses.replace(line, tested_on="hare-lynx") for line in simulated]


def _direct(budget: Budget) -> list[Line]:
    return _learnt(budget, TWELVE, ("rbf",))


def _on_rbf(*models: str) -> Plan:
    return lambda budget: _learnt(budget, models, ("rbf",))


def _num_pseudo(budget: Budget) -> list[Line]:
    (line,) = _lines(budget, ("mpnp",), ("rbf",), "num-pseudo")
    return [
        dataclasses.replace(line, settings=dataclasses.replace(budget.settings, num_pseudo=number)) for number in NUM_PSEUDO
    ]


PLANS: dict[str, Plan] = {
    "regression": _regression,
    "regression-full": _regression,
    "finite-data": _finite_data,
    "size-matched": _size_matched,
    "4d": _four_dimensional,
    "images": _images,
    "predator-prey": _predator_prey,
    "bayesopt": _on_rbf(*PAPER_MODELS),
    "direct": _direct,
    "posterior-samples": _on_rbf("mpanp"),
    "num-pseudo": _num_pseudo,
    "pseudo-use": _on_rbf("mpnp", "mpanp"),
    "learning-curves": _regression,
}
"""By the name of the table or figure."""
