"""Small runs on easy functions, and what can be read from them."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import safetensors.numpy

from helpers.models import SETTINGS
from mpnp.tasks.base import AbstractProcess, FunctionFamily
from mpnp.tasks.registry import import_family
from mpnp.training import checkpoint
from mpnp.training import loop as training
from mpnp.training.config import Recipe, RunConfig
from mpnp.training.loop import train
from mpnp.training.rundir import RunDirectory


class Constants(AbstractProcess):
    """Functions that have one value everywhere: one point of context tells all."""

    def __call__(self, x, key):
        return jnp.broadcast_to(jax.random.normal(key), (len(x), 1))


EASY = FunctionFamily(process=Constants(), max_points=8)

# Logs, validations and checkpoints fall on different steps, so that a stop meets every mixture of them. The model draws
# at random in training and in validation, so that a resume which lost count of its draws would show.
RECIPE = Recipe(
    steps=240, batch_size=4, num_samples=2, learning_rate=1e-2, validate_every=2, validation_tasks=8, checkpoint_every=7
)
import_family(f"{__name__}:EASY")
CONFIG = RunConfig("np", f"{__name__}:EASY", recipe=RECIPE, settings=SETTINGS)


def with_recipe(**changes):
    return dataclasses.replace(CONFIG, recipe=dataclasses.replace(RECIPE, **changes))


def trained(config, path):
    train(config, path, quiet=True)
    return RunDirectory(path)


def arrays(path):
    """The content of a checkpoint bit for bit."""
    return {name: (str(a.dtype), a.shape, a.tobytes()) for name, a in safetensors.numpy.load_file(path).items()}


def numbers(run):
    """All that a run's configuration decides."""
    timeless = ("step", "best_score", "best_step")
    progress = [checkpoint.read_card(path)["progress"] for path in (run.last, run.best)]
    return {
        "metrics": run.metrics.read_text().splitlines(),
        "progress": [{name: card[name] for name in timeless} for card in progress],
        "last": arrays(run.last),
        "best": arrays(run.best),
    }


def step_reached(run):
    return checkpoint.read_card(run.last)["progress"]["step"]


def rows(run, kind):
    """The rows of the log that hold losses, or those that hold validations."""
    parsed = map(json.loads, run.metrics.read_text().splitlines())
    return [row for row in parsed if kind in row]


def at_step(number, monkeypatch, action):
    """Make something happen when a run is about to take a step."""
    original = training.training_indices

    def indices(step, *arguments, **options):
        if step == number:
            action()
        return original(step, *arguments, **options)

    monkeypatch.setattr(training, "training_indices", indices)
