"""Registry of task families. Listing it does not import JAX: a family is built on first use.

Names that are looked up may come from files of strangers, so looking up a name never imports a module of the user's.
Only `import_family` does, and it is called only with names that the user gave.
"""

import dataclasses
import functools
import importlib
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from mpnp.datasets.prepared import OWN, SHAPES, image_shape
from mpnp.errors import InputError, unknown_name
from mpnp.tasks.protocol import (
    CURVE_POINTS,
    FUNCTION_POINTS,
    FUNCTION_RANGE,
    IMAGE_POINTS,
    IMAGE_RANGE,
    MOST_SURFACE_INPUTS,
)

if TYPE_CHECKING:
    import mpnp.tasks.base

__all__ = [
    "STORED_TASKS",
    "TABLE",
    "TASKS",
    "StoredEntry",
    "TaskEntry",
    "find_family",
    "find_problem",
    "import_family",
    "is_scaled_by_context",
    "is_own_family",
    "reads_fewer_inputs",
    "require_trainable",
    "task_dims",
    "task_reach",
]

TABLE = "table"
"""Task name of runs that learn from observed curves."""


UNKNOWN_REACH = (-math.inf, math.inf, 100)
FUNCTION_REACH = (*FUNCTION_RANGE, FUNCTION_POINTS)


@dataclasses.dataclass(frozen=True)
class TaskEntry:
    """Registry row of a family whose tasks are simulated from random numbers alone."""

    make: Callable[[], "mpnp.tasks.base.AbstractTaskFamily"]
    dims: tuple[int, int]
    """Input and output dimensions."""
    description: str
    reach: tuple[float, float, int] = UNKNOWN_REACH
    """Lowest and highest input, and the points of the largest task."""
    scaled_by_context: bool = False
    """Whether outputs are standardised by the context, so that a model can read curves in any units."""
    fewer_inputs: bool = False
    """Whether functions of fewer inputs are among the tasks, with the others at 0."""

    @functools.cached_property
    def family(self) -> "mpnp.tasks.base.AbstractTaskFamily":
        """The family, built once."""
        return self.make()


@dataclasses.dataclass(frozen=True)
class StoredEntry:
    """Registry row of a problem based on stored data, which are loaded on demand."""

    problem: Callable[[], "mpnp.tasks.base.Problem"]
    dims: tuple[int, int]
    description: str
    train_on: str | None = None
    """The task to train on instead, if these data are for testing only."""


def _gaussian_process(
    kernel: str, *, student_t: bool = False, x_dim: int = 1, **ranges: tuple[float, float]
) -> "mpnp.tasks.base.AbstractTaskFamily":
    """Functions of a Gaussian process whose kernel prior is the class named `kernel`."""
    from mpnp.tasks import gaussian_process
    from mpnp.tasks.base import FunctionFamily

    process = gaussian_process.GaussianProcessPrior(getattr(gaussian_process, kernel)(**ranges))
    return FunctionFamily(process=gaussian_process.StudentTNoise(process) if student_t else process, x_dim=x_dim)


def _predation(*, targets_only: bool = False) -> "mpnp.tasks.base.AbstractTaskFamily":
    from mpnp.tasks.base import TargetsOnly
    from mpnp.tasks.predator_prey.ode import VariedPredation

    return TargetsOnly(VariedPredation()) if targets_only else VariedPredation()


def _made_by(path: str) -> "mpnp.tasks.base.AbstractTaskFamily":
    """The family that the class or function at `module:name` makes."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)()


def _predator_prey(name: str) -> "mpnp.tasks.base.Problem":
    from mpnp.tasks.predator_prey import problems

    return getattr(problems, name)()


def _images(name: str) -> "mpnp.tasks.base.Problem":
    from mpnp.tasks.images import image_problem

    return image_problem(name)


_make = functools.partial

TASKS: dict[str, TaskEntry] = {
    "rbf": TaskEntry(_make(_gaussian_process, "RBFPrior"), (1, 1), "GP with an RBF kernel", FUNCTION_REACH),
    "matern": TaskEntry(_make(_gaussian_process, "Matern52Prior"), (1, 1), "GP with a Matérn-5/2 kernel", FUNCTION_REACH),
    "periodic": TaskEntry(_make(_gaussian_process, "PeriodicPrior"), (1, 1), "GP with a periodic kernel", FUNCTION_REACH),
    "t-noise": TaskEntry(
        _make(_gaussian_process, "RBFPrior", student_t=True),
        (1, 1),
        "GP with an RBF kernel, plus Student-t noise",
        FUNCTION_REACH,
    ),
    "rbf-4d": TaskEntry(
        _make(_gaussian_process, "RBFPrior", length=(0.5, 3.0), x_dim=4),
        (4, 1),
        "GP with an RBF kernel on 4-D inputs",
        FUNCTION_REACH,
    ),
    "curves": TaskEntry(
        _make(_made_by, "mpnp.tasks.curves:CurvePrior"),
        (1, 1),
        "curves of all kinds and noises, scaled by their context",
        (*FUNCTION_RANGE, CURVE_POINTS),
        scaled_by_context=True,
    ),
    "surfaces": TaskEntry(
        _make(_made_by, "mpnp.tasks.surfaces:SurfacePrior"),
        (MOST_SURFACE_INPUTS, 1),
        "functions of one to six inputs, of all kinds and noises",
        FUNCTION_REACH,
        fewer_inputs=True,
    ),
    "predation": TaskEntry(_predation, (1, 2), "predators and prey with random rates, shocks and errors"),
    "predation-targets": TaskEntry(
        _make(_predation, targets_only=True), (1, 2), "the same, but only points to be predicted count in training"
    ),
}

STORED_TASKS: dict[str, StoredEntry] = {
    "lotka-volterra": StoredEntry(
        _make(_predator_prey, "lotka_volterra"), (1, 2), "simulated predators and prey; simulated once, then kept"
    ),
    "hare-lynx": StoredEntry(
        _make(_predator_prey, "hare_lynx"),
        (1, 2),
        "pelts of the Hudson's Bay Company, 1845-1935; to test on",
        train_on="lotka-volterra",
    ),
} | {
    name: StoredEntry(_make(_images, name), (2, SHAPES[name][2]), f"{what}; prepare them with 'mpnp data'")
    for name, what in {
        "mnist": "handwritten digits",
        "fashion-mnist": "clothes",
        "svhn": "house numbers",
        "celeba": "faces",
    }.items()
}

_IMPORTED: dict[str, "mpnp.tasks.base.AbstractTaskFamily"] = {}
"""The user's own families, as `import_family` found them in this process."""


def find_problem(name: str) -> "mpnp.tasks.base.Problem":
    """The training, validation and test families of a task, looked up by name."""
    if name in STORED_TASKS:
        return STORED_TASKS[name].problem()
    if name.startswith(OWN):
        return _images(name)
    from mpnp.tasks.base import Problem

    family = find_family(name)
    return Problem(family, family, family)


def task_dims(name: str) -> tuple[int, int]:
    """Input and output dimensions of a task. Reads no data."""
    if name in STORED_TASKS:
        return STORED_TASKS[name].dims
    if name.startswith(OWN):
        return 2, image_shape(name)[2]
    if name in TASKS:
        return TASKS[name].dims
    family = find_family(name)
    return family.x_dim, family.y_dim


def task_reach(name: str) -> tuple[float, float, int]:
    """Lowest and highest training input and the largest task size, as far as they are known without reading data."""
    if name in SHAPES or name.startswith(OWN):
        return *IMAGE_RANGE, IMAGE_POINTS
    return TASKS[name].reach if name in TASKS else UNKNOWN_REACH


def is_scaled_by_context(name: str) -> bool:
    """Whether the tasks of that name have outputs standardised by their context."""
    return name in TASKS and TASKS[name].scaled_by_context


def reads_fewer_inputs(name: str) -> bool:
    """Whether a model of the tasks of that name also reads functions of fewer inputs, with the others at 0."""
    return name in TASKS and TASKS[name].fewer_inputs


def require_trainable(name: str) -> None:
    """Raise an error if the task is for testing only."""
    if name in STORED_TASKS and (other := STORED_TASKS[name].train_on) is not None:
        raise InputError(f"'{name}' is for testing only: train on '{other}', then run 'mpnp evaluate RUN --task {name}'")


def is_own_family(name: str) -> bool:
    """Whether the name is that of a user's own family, `package.module:attribute`. Such a name is never a path."""
    return re.fullmatch(r"[\w.]+:\w+", name) is not None


def find_family(name: str) -> "mpnp.tasks.base.AbstractTaskFamily":
    """The family of that name, registered or imported before. Never imports a module of the user's."""
    if name in TASKS:
        return TASKS[name].family
    if name in _IMPORTED:
        return _IMPORTED[name]
    if is_own_family(name):
        raise InputError(
            f"the task family '{name}' is not imported, because reading a run never runs code; if you trust it, name it on the "
            f"command line with --task {name}, or call mpnp.import_family('{name}') in Python"
        )
    listing = "Run 'mpnp tasks' to see them all, or name your own family as package.module:attribute."
    raise unknown_name("task", name, TASKS | STORED_TASKS, listing)


def import_family(path: str) -> "mpnp.tasks.base.AbstractTaskFamily":
    """Import the user's own family at `package.module:attribute`, so that it can be used by that name in this process.

    This runs the code of the module: pass only names that the user gave, never names from files.
    """
    from mpnp.tasks.base import AbstractTaskFamily

    module, _, attribute = path.partition(":")
    if not is_own_family(path) or not module or module.startswith("."):
        raise InputError(f"cannot import the task family '{path}': write it as package.module:attribute")
    try:
        family = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(f"cannot import the task family '{path}': {error}") from None
    if not isinstance(family, AbstractTaskFamily):
        raise InputError(f"'{path}' must be a task family (see mpnp.tasks), but it is of type {type(family).__name__}")
    _IMPORTED[path] = family
    return family
