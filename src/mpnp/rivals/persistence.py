"""Persistence: the deviation observed nearest by persists, and fades with distance."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int

from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.rivals.base import AbstractRival, Arrays, Places, Points, as_row
from mpnp.rivals.mean_curve import LEAST_STD, MeanCurve

__all__ = ["Persistence", "nearest_points"]

MOST_DISTANCES = 24
"""Maximum number of distances at which damping and spread are learnt."""

PAIRS_PER_DISTANCE = 30

MOST_PAIRS = 200_000
"""Pairs of points to learn from, which bounds time and memory."""


@dataclasses.dataclass(frozen=True)
class Persistence(AbstractRival):
    """The mean curve plus the deviation of the nearest observation of the same output, damped with the distance.

    For contexts that are the beginning of a curve, the nearest observation is the last.
    """

    climate: MeanCurve
    distances: Float[np.ndarray, " knot"]
    damping: Float[np.ndarray, " knot"]
    spread: Float[np.ndarray, " knot"]
    """Standard deviation of the rest, relative to that of the mean curve."""

    kind = "persistence"
    title = "nearest observation, damped with distance"

    @classmethod
    def learn(cls, curves: Sequence[Points], *, context: str, seed: int) -> "Persistence":
        climate = MeanCurve.learn(curves, context=context, seed=seed)
        share = min(1.0, MOST_PAIRS / sum(len(curve.y) ** 2 for curve in curves))
        rng = np.random.default_rng(seed)
        pairs = [_pairs(curve, climate, share, rng) for curve in curves]
        distance, before, after = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
        order = np.argsort(distance, kind="stable")
        num = min(MOST_DISTANCES, len(order) // PAIRS_PER_DISTANCE)
        if num == 0:  # hardly any curve has two points: nothing persists
            return cls(climate, np.zeros(1), np.zeros(1), np.ones(1))
        damping, spread, knots = [], [], []
        for group in np.array_split(order, num):
            knots.append(distance[group].mean())
            damping.append(before[group] @ after[group] / max(before[group] @ before[group], LEAST_STD**2))
            spread.append(max(np.std(after[group] - damping[-1] * before[group]), LEAST_STD))
        return cls(climate, np.asarray(knots), np.asarray(damping), np.asarray(spread))

    def predict(self, context: Points, places: Places) -> Predictive:
        mean, std = self.climate.moments(places)
        nearest, distance = nearest_points(context, places)
        known = nearest >= 0
        if known.any():
            usual, scale = self.climate.moments(context.places)
            deviation = ((context.y - usual) / scale)[nearest[known]]
            damping, spread = (np.interp(distance[known], self.distances, part) for part in (self.damping, self.spread))
            mean[known] += std[known] * damping * deviation
            std[known] *= spread
        return as_row(mean, np.maximum(std, LEAST_STD))

    def to_arrays(self) -> Arrays:
        own = {"distances": self.distances, "damping": self.damping, "spread": self.spread}
        return {**own, **{f"climate_{name}": values for name, values in self.climate.to_arrays().items()}}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "Persistence":
        climate = MeanCurve.from_arrays({name: arrays[f"climate_{name}"] for name in ("knots", "means", "stds")})
        return cls(climate, arrays["distances"], arrays["damping"], arrays["spread"])


def nearest_points(context: Points, places: Places) -> tuple[Int[np.ndarray, " point"], Float[np.ndarray, " point"]]:
    """The nearest context point of the same output and its distance; -1 and infinity if there is none."""
    if not len(context.y):
        return np.full(len(places.x), -1), np.full(len(places.x), np.inf)
    distance = np.sqrt(((places.x[:, None] - context.x[None]) ** 2).sum(axis=-1))
    distance[places.output[:, None] != context.output[None]] = np.inf
    nearest = np.argmin(distance, axis=1)
    least = distance[np.arange(len(nearest)), nearest]
    return np.where(np.isfinite(least), nearest, -1), least


def _pairs(
    curve: Points, climate: MeanCurve, share: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distances of pairs of points of one output, and the standardised deviations of both."""
    mean, std = climate.moments(curve.places)
    deviation = (curve.y - mean) / std
    first, second = np.nonzero(curve.output[:, None] == curve.output[None])
    kept = (first != second) & (rng.random(len(first)) < share)
    first, second = first[kept], second[kept]
    return np.sqrt(((curve.x[first] - curve.x[second]) ** 2).sum(axis=-1)), deviation[first], deviation[second]
