"""Neural processes with martingale posteriors.

Public names are imported when they are first used: JAX takes half a second, and many commands do without it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mpnp.errors import DivergedError, InputError, MpnpError, RunError
    from mpnp.inference.budget import FewStepsWarning
    from mpnp.inference.draws import Draws
    from mpnp.inference.estimator import NeuralProcessRegressor
    from mpnp.inference.fit import FewTasksWarning
    from mpnp.inference.fit_options import FitOptions
    from mpnp.inference.model import FittedModel, load
    from mpnp.inference.ood import (
        ImplausibleContextWarning,
        LargeContextWarning,
        MissingContextWarning,
        OutsideRangeWarning,
    )
    from mpnp.inference.posterior import Posterior
    from mpnp.inference.predictor import Predictor
    from mpnp.io.compile_cache import keep_compiled_programs
    from mpnp.models.build import build, num_parameters
    from mpnp.models.config import ModelSettings
    from mpnp.models.registry import MODELS
    from mpnp.nn.likelihoods.predictive import Predictive
    from mpnp.tasks.registry import TASKS, find_family, import_family
    from mpnp.tasks.task import PointSet, Task
    from mpnp.training.config import LEARNING_RATE_GRID, RECIPES, Recipe, RunConfig
    from mpnp.training.loop import resume, train
    from mpnp.training.rundir import load_model

__all__ = [
    "LEARNING_RATE_GRID",
    "MODELS",
    "RECIPES",
    "TASKS",
    "DivergedError",
    "Draws",
    "FewStepsWarning",
    "FewTasksWarning",
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
    "import_family",
    "keep_compiled_programs",
    "load",
    "load_model",
    "num_parameters",
    "resume",
    "train",
]

_MODULES = {
    "mpnp.errors": ("DivergedError", "InputError", "MpnpError", "RunError"),
    "mpnp.inference.estimator": ("NeuralProcessRegressor",),
    "mpnp.inference.budget": ("FewStepsWarning",),
    "mpnp.inference.fit": ("FewTasksWarning",),
    "mpnp.inference.fit_options": ("FitOptions",),
    "mpnp.inference.model": ("FittedModel", "load"),
    "mpnp.inference.ood": ("ImplausibleContextWarning", "LargeContextWarning", "MissingContextWarning", "OutsideRangeWarning"),
    "mpnp.inference.draws": ("Draws",),
    "mpnp.inference.posterior": ("Posterior",),
    "mpnp.inference.predictor": ("Predictor",),
    "mpnp.io.compile_cache": ("keep_compiled_programs",),
    "mpnp.models.build": ("build", "num_parameters"),
    "mpnp.models.config": ("ModelSettings",),
    "mpnp.models.registry": ("MODELS",),
    "mpnp.nn.likelihoods.predictive": ("Predictive",),
    "mpnp.tasks.registry": ("TASKS", "find_family", "import_family"),
    "mpnp.tasks.task": ("PointSet", "Task"),
    "mpnp.training.config": ("LEARNING_RATE_GRID", "RECIPES", "Recipe", "RunConfig"),
    "mpnp.training.loop": ("resume", "train"),
    "mpnp.training.rundir": ("load_model",),
}
"""Where the public names live."""

_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
