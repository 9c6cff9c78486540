"""Strategies by name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mpnp.bayesopt.acquisition import find_acquisition
from mpnp.bayesopt.auto import AutoSearch
from mpnp.bayesopt.gaussian_process import pretrained_process
from mpnp.bayesopt.process_search import ProcessSearch
from mpnp.bayesopt.resampling_surrogate import ResamplingSurrogate
from mpnp.bayesopt.strategies import RANDOM, AbstractStrategy, ModelBased, RandomSearch
from mpnp.bayesopt.surrogates import AbstractSurrogate
from mpnp.errors import InputError, show
from mpnp.inference.model import FittedModel, load

__all__ = ["AUTO", "FITTED_PROCESS", "PRETRAINED_PROCESS", "STRATEGIES", "find_strategy"]

AUTO, FITTED_PROCESS, PRETRAINED_PROCESS = "auto", "gp", "gp-rbf"

STRATEGIES: dict[str, Callable[[str], AbstractStrategy]] = {
    AUTO: AutoSearch,
    FITTED_PROCESS: ProcessSearch,
    PRETRAINED_PROCESS: lambda acquisition: ModelBased(pretrained_process(), acquisition),
    RANDOM: lambda acquisition: RandomSearch(),
}
"""Strategies for an acquisition, by name. Any other name is that of a model."""


def find_strategy(
    model: Any, acquisition: str, *, read: Callable[[FittedModel], AbstractSurrogate] = ResamplingSurrogate
) -> AbstractStrategy:
    """Make a strategy from a name of `STRATEGIES`, a model, its directory or name, or a surrogate; leave a strategy as it is.

    `read` makes the surrogate of a model.
    """
    find_acquisition(acquisition)
    if isinstance(model, AbstractStrategy):
        return model
    if isinstance(model, str) and model in STRATEGIES:
        return STRATEGIES[model](acquisition)
    if isinstance(model, AbstractSurrogate):
        return ModelBased(model, acquisition)
    if isinstance(model, str | Path):
        model = load(model)
    if not isinstance(model, FittedModel):
        raise InputError(
            f"model must be a loaded model, the directory or name of one, or one of {', '.join(map(repr, STRATEGIES))}; "
            f"got {show(model)}"
        )
    return ModelBased(read(model), acquisition)
