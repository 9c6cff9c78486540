"""Every task family by name."""

import dataclasses
import functools
import importlib
import math
from collections.abc import Callable

from mpnp.errors import InputError, unknown_name
from mpnp.tasks.families import AbstractTaskFamily, FunctionFamily, TargetsOnly
from mpnp.tasks.gaussian_process import GaussianProcessPrior, Matern52Prior, PeriodicPrior, RBFPrior, StudentTNoise
from mpnp.tasks.image_sets import OWN, SHAPES, image_problem, image_shape
from mpnp.tasks.images import MAX_POINTS
from mpnp.tasks.predation import VariedPredation
from mpnp.tasks.predator_prey import hare_lynx, lotka_volterra
from mpnp.tasks.sources import Problem

__all__ = [
    "STORED_TASKS",
    "TASKS",
    "StoredEntry",
    "TaskEntry",
    "find_family",
    "find_problem",
    "require_learnable",
    "task_dims",
    "task_reach",
]


@dataclasses.dataclass(frozen=True)
class TaskEntry:
    """A family whose tasks are drawn from nothing but random numbers."""

    family: AbstractTaskFamily
    description: str

    @property
    def dims(self) -> tuple[int, int]:
        """Input and output dimensions."""
        return self.family.x_dim, self.family.y_dim


@dataclasses.dataclass(frozen=True)
class StoredEntry:
    """Tasks cut from stored data, which are read when they are needed."""

    problem: Callable[[], Problem]
    dims: tuple[int, int]
    description: str
    learn_from: str | None = None
    """The task that models learn from, if these data are only to be tested on."""


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
    "predation": TaskEntry(VariedPredation(), "predators and prey with random rates, shocks and errors"),
    "predation-targets": TaskEntry(
        TargetsOnly(VariedPredation()), "the same, but only points to be predicted count in training"
    ),
}

STORED_TASKS: dict[str, StoredEntry] = {
    "lotka-volterra": StoredEntry(lotka_volterra, (1, 2), "simulated predators and prey; simulated once, then kept"),
    "hare-lynx": StoredEntry(
        hare_lynx, (1, 2), "pelts of the Hudson's Bay Company, 1845-1935; to test on", learn_from="lotka-volterra"
    ),
} | {
    name: StoredEntry(functools.partial(image_problem, name), (2, SHAPES[name][2]), f"{what}; prepare them with 'mpnp data'")
    for name, what in {
        "mnist": "handwritten digits",
        "fashion-mnist": "clothes",
        "svhn": "house numbers",
        "celeba": "faces",
    }.items()
}


def find_problem(name: str) -> Problem:
    """Where the tasks of that name come from, in training, validation and test."""
    if name in STORED_TASKS:
        return STORED_TASKS[name].problem()
    if name.startswith(OWN):
        return image_problem(name)
    family = find_family(name)
    return Problem(family, family, family)


def task_dims(name: str) -> tuple[int, int]:
    """Input and output dimensions, without reading any data."""
    if name in STORED_TASKS:
        return STORED_TASKS[name].dims
    if name.startswith(OWN):
        return 2, image_shape(name)[2]
    family = find_family(name)
    return family.x_dim, family.y_dim


def task_reach(name: str) -> tuple[float, float, int]:
    """The lowest and highest input of training, and the most points of a task, as far as they are known without any data."""
    if name in SHAPES or name.startswith(OWN):
        return -0.5, 0.5, MAX_POINTS
    family = TASKS[name].family if name in TASKS else None
    if isinstance(family, FunctionFamily):
        return family.low, family.high, family.max_points
    return -math.inf, math.inf, 100


def require_learnable(name: str) -> None:
    """Refuse to train on data that are only to be tested on."""
    if name in STORED_TASKS and (other := STORED_TASKS[name].learn_from) is not None:
        raise InputError(f"'{name}' is only to be tested on: train on '{other}', then 'mpnp evaluate RUN --task {name}'")


def find_family(name: str) -> AbstractTaskFamily:
    """The family of that name in the catalogue, or of the user's own at `package.module:attribute`."""
    if name in TASKS:
        return TASKS[name].family
    module, colon, attribute = name.partition(":")
    if not colon:
        raise unknown_name("task", name, TASKS | STORED_TASKS, "Run 'mpnp tasks' to see them all.")
    if not module or module.startswith("."):
        raise InputError(f"cannot import the task family '{name}': write it as package.module:attribute")
    try:
        family = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(f"cannot import the task family '{name}': {error}") from None
    if not isinstance(family, AbstractTaskFamily):
        raise InputError(f"'{name}' must be a task family (see mpnp.tasks), but it is a {type(family).__name__}")
    return family
