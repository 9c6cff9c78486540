"""A trained neural process in NumPy alone.

>>> model = Predictor(folder)                                    # doctest: +SKIP
>>> model.predict([0.1, 0.9], [1.2, 3.4], x_target)["mean"]      # doctest: +SKIP
>>> model.sample([0.1, 0.9], [1.2, 3.4], x_target, n=5, seed=1)  # doctest: +SKIP

The folder holds this file, `interpreter.py`, `model.json` (the programs that make up the model, its units and what it was
trained on) and `weights.npz`. If the network is an ONNX graph instead, onnxruntime runs it.
"""

import copy
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mpnp.export.numpy_interpreter import Graph, Program

__all__ = ["Predictor"]

Array = np.ndarray

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
HALVINGS = 40
"""Steps of the bisection that finds a quantile."""

FEWEST, MOST = 10, 30
"""Bounds on the default number of future observations of a drawn function."""


class Predictor:
    """Predicts and draws functions, in the units of the training data. All randomness follows from `seed`."""

    def __init__(self, folder: str | Path) -> None:
        content = json.loads((Path(folder) / "model.json").read_text())
        if content.get("format") != "mpnp-export" or content.get("version") != 1:
            raise ValueError(f"{folder} holds no model that this predictor can read")
        with np.load(Path(folder) / "weights.npz", allow_pickle=False) as weights:
            if any(
                member.compress_type for member in weights.zip.infolist()
            ):  # compressed, a small file may unpack to any size
                raise ValueError(f"{folder}/weights.npz is compressed, unlike those of mpnp export")
            arrays = {name: weights[name] for name in weights}
        self.description = {name: value for name, value in content.items() if name != "programs"}
        self.inputs, self.outputs = (content["columns"][role] for role in ("inputs", "outputs"))
        self._units = {axis: {name: np.array(value) for name, value in unit.items()} for axis, unit in content["units"].items()}
        self._run: dict[str, Program | Graph] = {
            name: Graph(Path(folder) / Path(program["graph"]).name) if "graph" in program else Program(program, arrays)
            for name, program in content["programs"].items()
        }
        self._y_dim = 1 if content["separates_outputs"] else len(self.outputs)

    def predict(
        self, x: Any, y: Any, x_target: Any, *, quantiles: Sequence[float] = QUANTILES, num_samples: int = 32, seed: int = 0
    ) -> dict[str, Array]:
        """Mean, standard deviation, its two parts, and quantiles of an observation at each target, given the observed points.

        Arrays have one row per target and one column per output; quantiles have a last axis of levels.
        """
        loc, scale = self._scaled_to(x, y)._functions(x, y, x_target, num_samples, np.random.default_rng(seed))
        deviation = self.description["likelihood_std"] * scale
        levels = np.asarray(quantiles, float)
        if not ((levels > 0) & (levels < 1)).all():
            raise ValueError(f"quantiles must lie above 0 and below 1, got {quantiles}")
        return {
            "mean": loc.mean(axis=0),
            "std": np.sqrt(loc.var(axis=0) + (deviation**2).mean(axis=0)),
            "between_std": loc.std(axis=0),
            "within_std": np.sqrt((deviation**2).mean(axis=0)),
            "quantiles": np.stack([self._quantile(level, loc, scale) for level in levels], axis=-1),
        }

    def sample(
        self,
        x: Any,
        y: Any,
        x_target: Any,
        n: int = 10,
        *,
        seed: int = 0,
        method: str = "resample",
        num_future: int | None = None,
        noise: bool = False,
    ) -> Array:
        """Draw functions at the targets: an array of draws, targets and outputs. `noise` adds that of observations.

        `method="resample"` draws `num_future` observations one after another, each from the model's own prediction, and reads
        the function from the completed context. `method="generate"` is the model's own mechanism.
        """
        if method not in ("resample", "generate"):
            raise ValueError(f'method must be "resample" or "generate", got {method!r}')
        rng, reader = np.random.default_rng(seed), self._scaled_to(x, y)
        if method == "resample":
            loc, scale = reader._resample(x, y, x_target, n, num_future, rng)
        else:
            loc, scale = (np.resize(part, (n, *part.shape[1:])) for part in reader._functions(x, y, x_target, n, rng))
        return loc + scale * self._observe(loc.shape, rng) if noise else loc

    def _scaled_to(self, x: Any, y: Any) -> "Predictor":
        """Itself, or, of a model that reads each curve in units of its own context, the predictor with those units."""
        if (share := self.description["context_share"]) is None:
            return self
        inputs, outputs = self._rows(x, self.inputs), self._rows(y, self.outputs, missing=True)
        if len(inputs) != len(outputs) or np.isnan(outputs).all():
            return self
        inputs, outputs = (rows[~np.isnan(outputs[:, 0])] for rows in (inputs, outputs))
        low, high = inputs.min(axis=0), inputs.max(axis=0)
        middle, unit = low / 2 + high / 2, _positive((high - low) / 4, low) / share
        before, bounds = self._units["x"], {name: np.array(self.description["seen"][name], float) for name in ("low", "high")}
        seen = {name: (middle + unit * (bound - before["shift"]) / before["scale"]).tolist() for name, bound in bounds.items()}
        mean = outputs.mean(axis=0)
        scaled = copy.copy(self)
        scaled.description = self.description | {"seen": self.description["seen"] | seen}
        scaled._units = {
            "x": {"shift": middle, "scale": unit},
            "y": {"shift": mean, "scale": _positive(outputs.std(axis=0), mean)},
        }
        return scaled

    def _functions(self, x: Any, y: Any, x_target: Any, num: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Location and scale of functions of the model's own mechanism: draws, targets, outputs."""
        points, targets = self._context(x, y), self._encode_inputs(self._rows(x_target, self.inputs))
        rows = [row[None] for row in self._run["prepare"](points)]
        query = [part[None] for part in self._run["query"]([targets])]
        loc, scale = self._predict(rows, targets[None], query, [part[None] for part in self._noise(num, len(points[0]), rng)])
        return self._decode(loc[0], scale[0])

    def _resample(
        self, x: Any, y: Any, x_target: Any, num: int, num_future: int | None, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Functions by predictive resampling."""
        points, target_rows = self._context(x, y), self._rows(x_target, self.inputs)
        if num_future is None:
            num_future = min(MOST, max(FEWEST, self.description["seen"]["largest_context"]))
        future = self._future_inputs(self._rows(x, self.inputs), target_rows, num, num_future, rng)
        rows = [np.broadcast_to(row, (num, *row.shape)) for row in self._run["prepare"](points)]
        for step in range(future.shape[1]):
            at = future[:, step]
            query = [part[:, None] for part in self._run["query"]([at])]
            noise = [part[:, None] for part in self._noise(num, rows[0].shape[1], rng)]
            loc, scale = (part[:, 0] for part in self._predict(rows, at[:, None], query, noise))
            observed = loc + scale * self._observe(loc.shape, rng)
            new = self._run["prepare"]([at, observed[:, 0].astype(np.float32)])
            rows = [np.concatenate([row, part[:, None]], axis=1) for row, part in zip(rows, new, strict=True)]
        targets = self._encode_inputs(target_rows)
        everywhere = [np.broadcast_to(part, (num, *part.shape)) for part in (targets, *self._run["query"]([targets]))]
        noise = [part[:, None] for part in self._noise(num, rows[0].shape[1], rng)]
        loc, scale = self._predict(rows, everywhere[0], everywhere[1:], noise)
        return self._decode(loc[:, 0], scale[:, 0])

    def _predict(self, rows: list[Array], x: Array, query: list[Array], noise: list[Array]) -> tuple[Array, Array]:
        loc, scale = self._run["predict"]([*rows, x, *query, *noise])
        if not (np.isfinite(loc).all() and np.isfinite(scale).all()):
            raise ValueError("the prediction is not finite: a number is too far from the training data; check units")
        return loc, scale

    def _noise(self, samples: int, points: int, rng: np.random.Generator) -> list[Array]:
        """What the mechanism draws at random, for each sample."""
        return self._run["noise"]([], rng, samples=samples, points=points)

    def _observe(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Standard noise of observations."""
        sizes = dict(zip(("samples", "targets", "outputs"), shape, strict=True))
        return self._run["observe"]([], rng, **sizes)[0]

    def _quantile(self, level: float, loc: Array, scale: Array) -> Array:
        """The quantile of the mixture over draws, by bisection between those of its components."""
        component = loc + scale * self._run["quantile"]([np.array([level])])[0]
        low, high = component.min(axis=0), component.max(axis=0)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            below = self._run["cdf"]([middle, loc, scale])[0] < level
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return (low + high) / 2

    def _context(self, x: Any, y: Any) -> list[Array]:
        """Observed points as the network reads them; NaN marks outputs that were not observed."""
        inputs, outputs = self._rows(x, self.inputs), self._rows(y, self.outputs, missing=True)
        if len(inputs) != len(outputs):
            raise ValueError(f"x has {len(inputs)} rows and y has {len(outputs)}; every point needs both")
        unit = self._units["y"]
        values = ((outputs - unit["shift"]) / unit["scale"]).reshape(-1, self._y_dim)
        observed = ~np.isnan(values).any(axis=1)
        if not self.description["separates_outputs"] and not observed.all():
            raise ValueError("this model needs all outputs of a row; drop rows that lack one")
        return [self._encode_inputs(inputs)[observed], _single(values[observed])]

    def _encode_inputs(self, x: Array) -> Array:
        """Inputs as the network reads them. Several outputs of a row may be points of their own, marked in the input."""
        encoded = (x - self._units["x"]["shift"]) / self._units["x"]["scale"]
        if self.description["separates_outputs"]:
            marks = np.eye(len(self.outputs))
            encoded = np.hstack([np.repeat(encoded, len(marks), axis=0), np.tile(marks, (len(encoded), 1))])
        return _single(encoded)

    def _decode(self, loc: Array, scale: Array) -> tuple[Array, Array]:
        """Locations and scales in the user's units: draws, targets, outputs."""
        shape, unit = (len(loc), loc.shape[1] * loc.shape[2] // len(self.outputs), len(self.outputs)), self._units["y"]
        return loc.reshape(shape) * unit["scale"] + unit["shift"], scale.reshape(shape) * unit["scale"]

    def _future_inputs(self, x: Array, x_target: Array, num: int, num_future: int, rng: np.random.Generator) -> Array:
        """Where each draw is observed next: spread over the ranges of training and targets, each with its own shift and order.

        A model trained to continue the beginning of a curve observes what comes after the context, in ascending order.
        """
        seen = self.description["seen"]
        low, high = (np.array([np.nan if value is None else value for value in seen[side]]) for side in ("low", "high"))
        low, high = np.fmin(low, x_target.min(axis=0)), np.fmax(high, x_target.max(axis=0))
        forecast = self.description["context"] == "prefix"
        if forecast and len(x) and x[:, 0].max() < high[0]:
            low[0] = x[:, 0].max()
        lattice = np.column_stack([np.arange(num_future) / num_future, *_halton(num_future, len(low) - 1)])
        rows = low + (high - low) * ((lattice + rng.random((num, 1, len(low)))) % 1)
        points = np.stack([self._encode_inputs(part) for part in rows])
        order = [np.argsort(part[:, 0], kind="stable") if forecast else rng.permutation(len(part)) for part in points]
        return np.take_along_axis(points, np.stack(order)[..., None], axis=1)

    @staticmethod
    def _rows(values: Any, names: Sequence[str], *, missing: bool = False) -> Array:
        """A matrix with one row per point; a flat list is one column."""
        rows = np.asarray(values, np.float64)
        rows = rows.reshape(-1, len(names)) if rows.ndim < 2 and (len(names) == 1 or not rows.size) else rows
        if rows.ndim != 2 or rows.shape[1] != len(names):
            raise ValueError(f"expected rows of {len(names)} numbers ({', '.join(names)}), got shape {np.shape(values)}")
        if not (np.isfinite(rows) | (missing & np.isnan(rows))).all():
            raise ValueError(f"the columns {', '.join(names)} must hold finite numbers")
        return rows


def _positive(scale: Array, size: Array) -> Array:
    """Scales; one where values are constant, apart from rounding."""
    return np.where(scale > 1e-12 * np.abs(size), scale, 1.0)


def _single(values: Array) -> Array:
    """In single precision. What overflows becomes infinite, which makes the prediction an error later."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def _halton(num: int, dims: int) -> Iterator[Array]:
    """Columns of a Halton sequence: evenly spread points in any number of dimensions."""
    primes = [p for p in range(2, 1000) if all(p % q for q in range(2, math.isqrt(p) + 1))]
    for base in primes[:dims]:
        index, value, unit = np.arange(num), np.zeros(num), 1.0
        while index.any():
            unit /= base
            value, index = value + unit * (index % base), index // base
        yield value
