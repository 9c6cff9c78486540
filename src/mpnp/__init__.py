"""Neural processes with martingale posteriors."""

from mpnp.compile_cache import keep_compiled_programs
from mpnp.errors import DivergedError, InputError, MpnpError, RunError
from mpnp.models.catalogue import MODELS, build, num_parameters
from mpnp.models.settings import ModelSettings
from mpnp.networks.predictive import Predictive
from mpnp.predictor import Predictor
from mpnp.recipes import LEARNING_RATE_GRID, RECIPES, Recipe
from mpnp.runs import RunConfig, load_model
from mpnp.tasks.catalogue import TASKS, find_family
from mpnp.tasks.task import PointSet, Task
from mpnp.train import resume, train

__all__ = [
    "LEARNING_RATE_GRID",
    "MODELS",
    "RECIPES",
    "TASKS",
    "DivergedError",
    "InputError",
    "ModelSettings",
    "MpnpError",
    "Predictive",
    "Predictor",
    "PointSet",
    "Recipe",
    "RunConfig",
    "RunError",
    "Task",
    "build",
    "find_family",
    "keep_compiled_programs",
    "load_model",
    "num_parameters",
    "resume",
    "train",
]
