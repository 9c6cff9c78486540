"""Every task family by name."""

import dataclasses
import importlib

from mpnp.errors import InputError, unknown_name
from mpnp.tasks.families import AbstractTaskFamily, FunctionFamily
from mpnp.tasks.gaussian_process import GaussianProcessPrior, Matern52Prior, PeriodicPrior, RBFPrior, StudentTNoise

__all__ = ["TASKS", "TaskEntry", "find_family"]


@dataclasses.dataclass(frozen=True)
class TaskEntry:
    """A row of the catalogue."""

    family: AbstractTaskFamily
    description: str


TASKS: dict[str, TaskEntry] = {
    "rbf": TaskEntry(FunctionFamily(process=GaussianProcessPrior(RBFPrior())), "GP with an RBF kernel"),
    "matern": TaskEntry(FunctionFamily(process=GaussianProcessPrior(Matern52Prior())), "GP with a Matérn-5/2 kernel"),
    "periodic": TaskEntry(FunctionFamily(process=GaussianProcessPrior(PeriodicPrior())), "GP with a periodic kernel"),
    "t-noise": TaskEntry(
        FunctionFamily(process=StudentTNoise(GaussianProcessPrior(RBFPrior()))), "GP with an RBF kernel, plus Student-t noise"
    ),
    "rbf-4d": TaskEntry(
        FunctionFamily(process=GaussianProcessPrior(RBFPrior(length=(0.5, 3.0))), x_dim=4),
        "GP with an RBF kernel on 4-D inputs",
    ),
}


def find_family(name: str) -> AbstractTaskFamily:
    """The family of that name in the catalogue, or of the user's own at `package.module:attribute`."""
    if name in TASKS:
        return TASKS[name].family
    module, colon, attribute = name.partition(":")
    if not colon:
        raise unknown_name("task", name, TASKS, "Run 'mpnp tasks' to see them all.")
    if not module or module.startswith("."):
        raise InputError(f"cannot import the task family '{name}': write it as package.module:attribute")
    try:
        family = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(f"cannot import the task family '{name}': {error}") from None
    if not isinstance(family, AbstractTaskFamily):
        raise InputError(f"'{name}' must be a task family (see mpnp.tasks), but it is a {type(family).__name__}")
    return family
