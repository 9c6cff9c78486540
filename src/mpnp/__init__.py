"""Neural processes with martingale posteriors."""

import importlib
from typing import TYPE_CHECKING, Any

from mpnp.compile_cache import keep_compiled_programs
from mpnp.errors import DivergedError, InputError, MpnpError, RunError
from mpnp.fit_options import FitOptions
from mpnp.fitted import (
    FittedModel,
    ImplausibleContextWarning,
    LargeContextWarning,
    MissingContextWarning,
    OutsideRangeWarning,
    load,
)
from mpnp.models.catalogue import MODELS, build, num_parameters
from mpnp.models.settings import ModelSettings
from mpnp.networks.predictive import Predictive
from mpnp.posterior import Draws, Posterior
from mpnp.predictor import Predictor
from mpnp.recipes import LEARNING_RATE_GRID, RECIPES, Recipe
from mpnp.runs import RunConfig, load_model
from mpnp.tasks.catalogue import TASKS, find_family
from mpnp.tasks.task import PointSet, Task
from mpnp.train import resume, train

if TYPE_CHECKING:
    from mpnp.estimator import NeuralProcessRegressor

__all__ = [
    "LEARNING_RATE_GRID",
    "MODELS",
    "RECIPES",
    "TASKS",
    "DivergedError",
    "Draws",
    "FitOptions",
    "FittedModel",
    "ImplausibleContextWarning",
    "InputError",
    "LargeContextWarning",
    "MissingContextWarning",
    "ModelSettings",
    "MpnpError",
    "NeuralProcessRegressor",
    "OutsideRangeWarning",
    "PointSet",
    "Posterior",
    "Predictive",
    "Predictor",
    "Recipe",
    "RunConfig",
    "RunError",
    "Task",
    "build",
    "find_family",
    "keep_compiled_programs",
    "load",
    "load_model",
    "num_parameters",
    "resume",
    "train",
]


def __getattr__(name: str) -> Any:
    """The regressor is imported when it is first asked for: scikit-learn takes a second."""
    if name == "NeuralProcessRegressor":
        return importlib.import_module("mpnp.estimator").NeuralProcessRegressor
    raise AttributeError(f"module 'mpnp' has no attribute '{name}'")
