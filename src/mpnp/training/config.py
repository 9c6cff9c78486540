"""What determines a training run: recipes and run configurations. The preset recipes document the paper's settings."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpnp.errors import InputError, RunError, unknown_name
from mpnp.models.config import MOST_DIMS, ModelSettings
from mpnp.models.registry import find_model
from mpnp.options import option, require_count, require_fields, require_seed
from mpnp.tasks.protocol import FULL_SIZE
from mpnp.tasks.registry import TABLE, is_own_family, require_trainable, task_dims

if TYPE_CHECKING:
    import jax

    import mpnp.models.base

__all__ = ["LEARNING_RATE_GRID", "RECIPES", "TEST_TASKS", "Recipe", "RunConfig", "find_recipe", "read_own_dims"]

OPTIMIZERS = ("adam", "muon")
"""Names of the optimisers in `mpnp.training.optimizers`, which imports JAX; reading a recipe does not."""

INITIALISATIONS = ("authors", "spread")
"""Names of the initialisations in `mpnp.training.init`."""

SELECTIONS = ("task", "target", "context")
"""Validation scores: the log-likelihood of all points, of the target or of the context."""

TEST_TASKS = 2_560
"""Test tasks of an evaluation by default: a tenth of the paper's."""

MOST_PARAMETERS = 10**9
"""Largest model that is built, thousands of times as large as the paper's."""

LEARNING_RATE_GRID = tuple(5 * 10**exponent for exponent in (-4.5, -4.25, -4.0, -3.75, -3.5))
"""Base learning rates that the paper tries for each model, keeping the best on validation (appendix C)."""


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How a model is trained; the learning rate follows a cosine to zero. The defaults are the paper's."""

    steps: int = option(100_000, "training steps; the learning rate falls to zero over them")
    batch_size: int = option(256, "tasks per step", most=1_000_000)
    num_samples: int = option(10, "functions sampled per task, K, in training and validation", most=10_000)
    optimizer: str = option("adam", "adam or muon")
    learning_rate: float = option(5e-4, "base learning rate; the paper tries five from 1.6e-4 to 1.6e-3")
    initialisation: str = option(
        "authors", "initial weights: authors, or spread (units of first layers have their kinks at data points)"
    )
    core_share: float = option(0.0, "share of the steps, at the start, that train only the core of a martingale model")
    target_weight: float = option(1.0, "weight of a target point in the loss, relative to a context point")
    validate_every: int = option(1_000, "steps between validations")
    validation_tasks: int = option(FULL_SIZE, "tasks per validation")
    checkpoint_every: int = option(500, "steps between checkpoints")
    select_by: str = option("task", "validation log-likelihood that selects the best model: of the task, target or context")
    patience: int | None = option(None, "stop after this many validations without a better score")

    def __post_init__(self) -> None:
        require_fields(self)
        if self.optimizer not in OPTIMIZERS:
            raise unknown_name("optimizer", self.optimizer, OPTIMIZERS, f"Choose one of: {', '.join(OPTIMIZERS)}.")
        if self.select_by not in SELECTIONS:
            raise unknown_name("select_by", self.select_by, SELECTIONS, f"Choose one of: {', '.join(SELECTIONS)}.")
        if self.initialisation not in INITIALISATIONS:
            known = f"Choose one of: {', '.join(INITIALISATIONS)}."
            raise unknown_name("initialisation", self.initialisation, INITIALISATIONS, known)
        if not 0 <= self.core_share < 1:
            raise InputError(f"core_share must be at least 0 and below 1, got {self.core_share}")
        if not 0 < self.target_weight < float("inf"):
            raise InputError(f"target_weight must be positive and finite, got {self.target_weight}")
        if not 0 < self.learning_rate < float("inf"):
            raise InputError(f"learning_rate must be positive and finite, got {self.learning_rate}")


RECIPES: dict[str, Recipe] = {
    "paper": Recipe(),
    # Small batches: at equal cost, many small steps of Muon learnt more than few large ones, down to where Muon itself is a
    # third of a step. Twice the rate suits pooled models but not attentive ones.
    "fast": Recipe(
        steps=5_000,
        batch_size=64,
        num_samples=4,
        optimizer="muon",
        learning_rate=1e-2,
        initialisation="spread",
        core_share=0.6,
        validate_every=250,
        validation_tasks=1_024,
        checkpoint_every=250,
    ),
    # For hours: larger batches, because the noise of small ones holds long runs up, and targets that count three times as much
    # as context points, which attention learns to repeat long before it learns to interpolate.
    "long": Recipe(
        steps=7_500,
        num_samples=4,
        optimizer="muon",
        learning_rate=1e-2,
        initialisation="spread",
        core_share=0.6,
        target_weight=3.0,
        validate_every=500,
        validation_tasks=1_024,
        checkpoint_every=250,
    ),
    "short": Recipe(
        steps=5_000, batch_size=64, learning_rate=1e-3, validate_every=250, validation_tasks=1_024, checkpoint_every=250
    ),
    "quick": Recipe(
        steps=600,
        batch_size=16,
        num_samples=4,
        learning_rate=1e-3,
        validate_every=50,
        validation_tasks=256,
        checkpoint_every=50,
    ),
}


def find_recipe(name: str) -> Recipe:
    """The preset of that name."""
    if name not in RECIPES:
        raise unknown_name("recipe", name, RECIPES, f"Choose one of: {', '.join(RECIPES)}.")
    return RECIPES[name]


OLDER_NAME = "table_dims"
"""What `own_dims` was called in older files."""


def read_own_dims(content: Mapping[str, Any]) -> tuple[int, int] | None:
    """The dimensions of the user's own task in a stored configuration; None for registered tasks."""
    dims = content.get("own_dims", content.get(OLDER_NAME))
    if dims is None:
        return None
    if len(dims) != 2 or not all(isinstance(dim, int) and 1 <= dim <= MOST_DIMS for dim in dims):
        raise RunError(f"the configuration of this run is damaged: own_dims are {dims!r}, not two whole numbers")
    return dims[0], dims[1]


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """Everything that determines a run's numbers.

    `num_tasks` is the size of a finite training set; None means an endless stream of tasks.

    >>> RunConfig("cnp", "matern").dims
    (1, 1)
    """

    model: str
    task: str = "rbf"
    seed: int = 0
    num_tasks: int | None = None
    recipe: Recipe = dataclasses.field(default_factory=Recipe)
    settings: ModelSettings = dataclasses.field(default_factory=ModelSettings)
    start_from: str | None = None
    """Run whose trained weights this one starts from, such as a cnp for an mpnp; None for new weights."""
    own_dims: tuple[int, int] | None = None
    """Input and output dimensions of the user's own curves or family, so that a run can be read without importing its family;
    None for registered tasks."""

    def __post_init__(self) -> None:
        find_model(self.model)
        require_trainable(self.task)
        self._settle_own_dims()
        require_seed(self.seed)
        self._require_num_tasks()
        import jax

        from mpnp.models.build import num_parameters

        count = num_parameters(jax.eval_shape(self.build_model))  # rejects invalid settings before anything is written
        if count > MOST_PARAMETERS:
            raise InputError(f"the model would have {count:,} parameters, more than {MOST_PARAMETERS:,}; reduce its widths")

    def _require_num_tasks(self) -> None:
        if self.num_tasks is None:
            return
        require_count("num_tasks", self.num_tasks)
        if self.num_tasks < self.recipe.batch_size:
            raise InputError(
                f"num_tasks must be at least one batch of {self.recipe.batch_size}, got {self.num_tasks}; "
                "increase it, or reduce the batch size"
            )

    def _settle_own_dims(self) -> None:
        """Look up the dimensions of the user's own family if they are not given, and check those that are."""
        if self.own_dims is None and is_own_family(self.task):
            object.__setattr__(self, "own_dims", task_dims(self.task))
        if (self.task == TABLE or is_own_family(self.task)) != (self.own_dims is not None):
            raise InputError(
                f"own_dims must be given for the task '{TABLE}', and not for registered tasks; the task is '{self.task}'"
            )

    @property
    def dims(self) -> tuple[int, int]:
        """Input and output dimensions."""
        return task_dims(self.task) if self.own_dims is None else self.own_dims

    @property
    def core_steps(self) -> int:
        """Number of initial steps that train only the core; 0 for runs that start from another run."""
        return int(self.recipe.core_share * self.recipe.steps) if self.start_from is None else 0

    def keys(self) -> "jax.Array":
        """Random keys of the weights, of the tasks, and of the model's own noise."""
        import jax

        return jax.random.split(jax.random.key(self.seed), 3)

    def build_model(self) -> "mpnp.models.base.AbstractNeuralProcess":
        """The model with its initial weights."""
        from mpnp.models.build import build

        x_dim, y_dim = self.dims
        return build(self.model, key=self.keys()[0], x_dim=x_dim, y_dim=y_dim, settings=self.settings)

    def to_json(self) -> dict[str, Any]:
        """As nested dictionaries."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(content: Any) -> "RunConfig":
        """From what `to_json` made."""
        try:
            parts = {"recipe": Recipe(**content["recipe"]), "settings": ModelSettings(**content["settings"])}
            rest = {name: value for name, value in content.items() if name != OLDER_NAME}
            return RunConfig(**{**rest, **parts, "own_dims": read_own_dims(content)})
        except (AttributeError, KeyError, TypeError) as error:
            raise RunError(f"the configuration of this run was written by another version of mpnp ({error})") from None

    def require_own(self, path: Path, card: Mapping[str, Any]) -> None:
        """Raise an error if the checkpoint belongs to another run. Array names and shapes alone cannot tell."""
        other = RunConfig.from_json(card.get("config"))
        if other != self:
            raise RunError(f"{path} was saved by another run, of {other.model} on {other.task}; restore this run's own file")
