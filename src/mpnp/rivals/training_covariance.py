"""A normal distribution with the training curves' mean and covariance, for curves observed at shared inputs."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int

from mpnp.rivals.base import AbstractGaussianRival, Arrays, Joint, Places, Points, Unsuitable

__all__ = ["TrainingCovariance"]

MOST_CELLS = 400
"""Largest grid: places times outputs."""

LEAST_FILLED = 0.3
"""On average a curve must have at least this share of the cells."""

FEWEST_CURVES = 5

NUGGET = 1e-4
"""Smallest eigenvalue of the correlation, which keeps a covariance of few curves invertible."""


@dataclasses.dataclass(frozen=True)
class TrainingCovariance(AbstractGaussianRival):
    """Curves as draws of one normal vector, with a cell for each pair of an input and an output. Lines between the cells."""

    inputs: Float[np.ndarray, " cell"]
    outputs: Int[np.ndarray, " cell"]
    mean: Float[np.ndarray, " cell"]
    covariance: Float[np.ndarray, "cell cell"]

    kind = "normal"
    title = "normal with the training covariance"

    @classmethod
    def learn(cls, curves: Sequence[Points], *, context: str, seed: int) -> "TrainingCovariance":
        inputs, outputs, values = _as_grid(curves)
        known = ~np.isnan(values)
        count = known.T.astype(float) @ known
        mean = np.nansum(values, axis=0) / np.diag(count)
        deviations = np.where(known, values - mean, 0)
        covariance = deviations.T @ deviations / np.maximum(count, 1)
        std = np.sqrt(np.maximum(np.diag(covariance), 1e-6))
        correlation = _shrink(covariance / std / std[:, None], count)
        return cls(inputs, outputs, mean, correlation * std * std[:, None])

    def joint(self, context: Points, places: Places) -> Joint:
        asked, given = self._weights(places), self._weights(context.places)
        mean, prior = asked @ self.mean, asked @ self.covariance @ asked.T
        if len(context.y):
            cross = given @ self.covariance
            inner = cross @ given.T
            inner += NUGGET * np.diag(np.diag(inner))  # points between cells may determine each other
            gain = np.linalg.solve(inner, cross @ asked.T).T
            mean = mean + gain @ (context.y - given @ self.mean)
            prior = prior - gain @ cross @ asked.T
        return Joint(mean, (prior + prior.T) / 2, np.full(len(mean), 1e-3))

    def to_arrays(self) -> Arrays:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "TrainingCovariance":
        return cls(*(arrays[field.name] for field in dataclasses.fields(cls)))

    def _weights(self, places: Places) -> Float[np.ndarray, "point cell"]:
        """Weights of the cells in the value at each place: linear interpolation within its output."""
        weights = np.zeros((len(places.x), len(self.inputs)))
        for number in np.unique(places.output):
            rows, cells = np.flatnonzero(places.output == number), np.flatnonzero(self.outputs == number)
            x = np.interp(places.x[rows, 0], self.inputs[cells], np.arange(len(cells)))
            left = np.minimum(x.astype(int), max(len(cells) - 2, 0))
            right = np.minimum(left + 1, len(cells) - 1)
            np.add.at(weights, (rows, cells[left]), 1 - (x - left))
            np.add.at(weights, (rows, cells[right]), x - left)
        return weights


def _as_grid(curves: Sequence[Points]) -> tuple[np.ndarray, np.ndarray, Float[np.ndarray, "curve cell"]]:
    """Input and output of each cell, and the curves' values there, NaN where not observed."""
    if curves[0].x.shape[1] != 1:
        raise Unsuitable("it needs curves of a single numeric input")
    if len(curves) < FEWEST_CURVES:
        raise Unsuitable(f"it needs at least {FEWEST_CURVES} training tasks, got {len(curves)}")
    cells = np.unique(np.concatenate([np.stack([c.output, np.round(c.x[:, 0], 9)], axis=1) for c in curves]), axis=0)
    if len(cells) > MOST_CELLS:
        raise Unsuitable(f"it needs tasks that share their inputs, but there are {len(cells):,} different ones")
    values = np.full((len(curves), len(cells)), np.nan)
    keys = {tuple(cell): number for number, cell in enumerate(cells)}
    for number, curve in enumerate(curves):
        for x, output, y in zip(np.round(curve.x[:, 0], 9), curve.output, curve.y, strict=True):
            values[number, keys[float(output), x]] = y
    if (filled := float(np.mean(~np.isnan(values)))) < LEAST_FILLED:
        raise Unsuitable(f"it needs tasks that share their inputs, but a task has only {filled:.0%} of them")
    return cells[:, 1], cells[:, 0].astype(int), values


def _shrink(correlation: Float[np.ndarray, "cell cell"], count: Float[np.ndarray, "cell cell"]) -> np.ndarray:
    """Shrink correlations towards zero by how uncertain they are (Schäfer and Strimmer, 2005), and make them valid."""
    others = ~np.eye(len(correlation), dtype=bool)
    correlation = np.where(others, np.clip(np.where(count > 1, correlation, 0), -1, 1), 1.0)
    if others.any():
        error = ((1 - correlation**2) ** 2 / np.maximum(count - 1, 1))[others].sum()
        share = min(1.0, float(error / max((correlation[others] ** 2).sum(), 1e-12)))
        correlation = np.where(others, (1 - share) * correlation, 1.0)
    weights, vectors = np.linalg.eigh(correlation)
    return vectors * np.maximum(weights, NUGGET) @ vectors.T
