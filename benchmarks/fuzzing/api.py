"""The Python interface: strange arguments are refused with our own error, and answers have the right shape and are finite."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from fuzzing.junk import junk, replace_anywhere, require
from fuzzing.place import small_model
from mpnp.bayesopt.optimizer import Optimizer
from mpnp.inference.fit import FitOptions
from mpnp.inference.model import load
from mpnp.models.config import ModelSettings
from mpnp.tables.curves import Curves
from mpnp.tables.frames import read_table
from mpnp.training.config import Recipe

__all__ = ["CASES"]


def _rows(rng: np.random.Generator, odd: float = 0.3) -> Any:
    """Numbers for rows of a column, or something odd."""
    if rng.random() < odd:
        return junk(rng)
    values = rng.uniform(0, 24, rng.integers(1, 6))
    return [values, values.tolist(), values[:, None], values.astype(np.float16), values.astype(object)][rng.integers(5)]


def posterior(rng: np.random.Generator, folder: Path) -> None:
    """Condition on anything and ask for anything."""
    model = small_model()
    x = _rows(rng)
    y = np.full(len(x), 12.0) if isinstance(x, np.ndarray) and rng.random() < 0.7 else _rows(rng)
    given = model.condition(x, y)
    at = _rows(rng)
    mean, std = given.predict(at), given.predict(at, "std")
    require(np.shape(mean) == np.shape(std) and np.isfinite(mean).all() and (std > 0).all(), "a prediction is no prediction")
    density = given.log_prob(at, mean)
    require(np.isfinite(density).all(), "the density of the mean is not finite")


def draws(rng: np.random.Generator, folder: Path) -> None:
    """Ask for functions with strange numbers, seeds and methods."""
    given = small_model().condition([1.0], [12.0])
    options = {"n": 2, "seed": 1, "num_future": 10, "method": "generate", "noise": False}
    name = list(options)[rng.integers(len(options))]
    value = junk(rng)
    functions = given.sample([2.0, 3.0], **{**options, name: value})
    require(functions.shape[1:] == (2,) and np.isfinite(functions).all(), "functions have the wrong shape")
    require(name in ("n", "noise") or len(functions) == 2, "there are more functions than were asked for")


def questions(rng: np.random.Generator, folder: Path) -> None:
    """Ask every other question with strange arguments."""
    model, x, y, odd = small_model(), [2.0, 3.0], [12.0, 14.0], junk(rng)
    given = model.condition([1.0], [12.0])
    asks = [
        lambda: given.cdf(x, odd),
        lambda: given.log_prob(odd, y),
        lambda: given.predict(x, odd),
        lambda: given.predict(x, "quantiles", quantiles=odd),
        lambda: given.add(odd, odd),
        lambda: given.functional(lambda _: odd, x, n=2, method="generate"),
        lambda: given.joint_log_prob(x, y, method=odd),
        lambda: given.joint_log_prob(x, odd, method="mixture"),
        lambda: model.condition(odd),
        lambda: model.condition(x, y, num_samples=odd),
        lambda: model.plausibility(odd, odd),
        lambda: model.predict_tasks(odd, odd),
        lambda: model.predict_tasks([(x, y)], [odd]),
        lambda: model.predict_tasks([(odd, y)], [x]),
        lambda: load(odd),
        lambda: read_table(odd),
    ]
    asks[rng.integers(len(asks))]()


def curves(rng: np.random.Generator, folder: Path) -> None:
    """Curves from pairs of anything."""
    pairs = [(x := _rows(rng, 0.1), x if rng.random() < 0.8 else _rows(rng)) for _ in range(rng.integers(1, 4))]
    made = Curves.from_pairs(pairs if rng.random() < 0.8 else junk(rng))
    require(made.counts.sum() == len(made.x) == len(made.y) and np.isfinite(made.x).all(), "curves are inconsistent")


def settings(rng: np.random.Generator, folder: Path) -> None:
    """Settings, recipes and options with strange values."""
    kind = (ModelSettings, Recipe, FitOptions)[rng.integers(3)]
    names = list(vars(kind()))
    kind(**{names[rng.integers(len(names))]: junk(rng)})


def optimizer(rng: np.random.Generator, folder: Path) -> None:
    """Tell anything; what is suggested lies within the bounds and is new."""
    search = Optimizer("random", junk(rng) if rng.random() < 0.2 else (0, 10), seed=int(rng.integers(9)))
    for _ in range(3):
        x = search.ask()
        require(((search.box.low <= x) & (x <= search.box.high)).all(), "a suggestion lies outside its bounds")
        search.tell(x, rng.normal())
    search.save(folder / "search.json")
    search.tell(junk(rng), junk(rng))
    require(len(search.evaluations) == 4, "an evaluation is missing")


def restored(rng: np.random.Generator, folder: Path) -> None:
    """A saved optimisation with anything at any place is refused, or goes on."""
    path = folder / "search.json"
    search = Optimizer("random", [(0, 10), (-1, 1)], seed=3)
    for _ in range(4):
        search.tell(search.ask(), rng.normal())
    search.ask()
    search.save(path)
    path.write_text(json.dumps(replace_anywhere(rng, json.loads(path.read_text()), junk(rng))), errors="surrogatepass")
    again = Optimizer.restore(path, "random")
    x = again.ask()
    require(((again.box.low <= x) & (x <= again.box.high)).all(), "a suggestion lies outside its bounds")


CASES = (posterior, draws, questions, questions, curves, settings, optimizer, restored)
