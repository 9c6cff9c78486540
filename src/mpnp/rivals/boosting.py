"""Quantile gradient boosting: trees that read a summary of the context at each place."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int

from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.rivals.base import AbstractRival, Arrays, Places, Points
from mpnp.rivals.mean_curve import LEAST_STD, MeanCurve
from mpnp.rivals.persistence import Persistence, nearest_points

__all__ = ["QuantileBoosting"]

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Quantiles that are learnt, each by its own trees."""

NUM_COMPONENTS = 16
"""Normal distributions of equal weight that represent the quantiles of a place."""

WIDTH = 0.35
"""Width of a component relative to the standard deviation, so that the mixture of a normal's quantiles looks normal."""

MOST_ROWS, ROWS_PER_TREE = 8_000, 2_500
"""Targets to learn from, and those that each tree sees."""

NUM_TREES, DEPTH, RATE = 80, 3, 0.05

HELD_OUT = 5
"""One curve in so many teaches how far the quantiles of the others are off."""

WIDENINGS = np.geomspace(0.8, 4.0, 25)

NUM_NEIGHBOURS = 3

FAR = 10.0
"""The distance of an observation that is missing; inputs range from -2 to 2."""


@dataclasses.dataclass(frozen=True)
class QuantileBoosting(AbstractRival):
    """Gradient-boosted trees for several quantiles of what persistence leaves unexplained, relative to its spread."""

    simple: Persistence
    num_outputs: int
    widening: float
    """Factor on distances from the median, because trees are too sure of what they learnt from."""
    base: Float[np.ndarray, " level"]
    feature: Int[np.ndarray, "level tree node"]
    threshold: Float[np.ndarray, "level tree node"]
    children: Int[np.ndarray, "level tree node 2"]
    value: Float[np.ndarray, "level tree node"]

    kind = "boosting"
    title = "quantile gradient boosting"

    @classmethod
    def learn(cls, curves: Sequence[Points], *, context: str, seed: int) -> "QuantileBoosting":
        num_outputs = 1 + max(int(curve.output.max()) for curve in curves)
        simple = Persistence.learn(curves, context=context, seed=seed)
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(curves))
        num_kept = len(curves) // HELD_OUT
        kept, others = ([curves[n] for n in part] for part in (order[:num_kept], order[num_kept:]))
        features, z = _episodes(others, simple, num_outputs, context, MOST_ROWS, rng)
        trees = [_learn_quantile(features, z, level, seed) for level in LEVELS]
        model = cls(simple, num_outputs, 1.0, *(np.stack(parts) for parts in zip(*trees, strict=True)))
        if not kept:
            return model
        held_out, truth = _episodes(kept, simple, num_outputs, context, MOST_ROWS // HELD_OUT, rng)
        return dataclasses.replace(model, widening=_learn_widening(model._quantiles(held_out), truth))

    def predict(self, context: Points, places: Places) -> Predictive:
        start = self.simple.predict(context, places)
        loc, scale = _as_mixture(self._quantiles(_summarise(context, places, self.simple.climate, self.num_outputs)))
        return Predictive(start.loc + start.scale * loc[..., None], start.scale * scale[..., None])

    def to_arrays(self) -> Arrays:
        own = {name: getattr(self, name) for name in ("base", "feature", "threshold", "children", "value")}
        simple = {f"simple_{name}": values for name, values in self.simple.to_arrays().items()}
        return {**own, **simple, "num_outputs": np.asarray(self.num_outputs), "widening": np.asarray(self.widening)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "QuantileBoosting":
        simple = {name.removeprefix("simple_"): part for name, part in arrays.items() if name.startswith("simple_")}
        own = (arrays[name] for name in ("base", "feature", "threshold", "children", "value"))
        model = cls(Persistence.from_arrays(simple), int(arrays["num_outputs"]), float(arrays["widening"]), *own)
        if not ((model.children >= -1) & (model.children < model.feature.shape[-1])).all():  # -1: a leaf has none
            raise ValueError("a node of a tree has children outside the tree")
        if model.num_outputs != len(model.simple.climate.knots):
            raise ValueError("its parts have different numbers of outputs")
        return model

    def _quantiles(self, features: Float[np.ndarray, "point feature"]) -> Float[np.ndarray, "level point"]:
        """Quantiles in increasing order. All trees are read at once, one layer after another."""
        num_levels, num_trees, num_nodes = self.feature.shape
        features = features.astype(np.float32)  # as the trees were learnt
        tree = np.arange(num_levels * num_trees)[:, None]
        feature, threshold, value = (part.reshape(-1, num_nodes) for part in (self.feature, self.threshold, self.value))
        children = self.children.reshape(-1, num_nodes, 2)
        node, rows = np.zeros((len(tree), len(features)), int), np.arange(len(features))
        for _ in range(DEPTH):
            asked = feature[tree, node]
            side = (features[rows, np.maximum(asked, 0)] > threshold[tree, node]).astype(int)
            node = np.where(asked < 0, node, children[tree, node, side])
        sums = value[tree, node].reshape(num_levels, num_trees, -1).sum(axis=1)
        quantiles = np.sort(self.base[:, None] + sums, axis=0)
        median = quantiles[len(LEVELS) // 2]
        return median + self.widening * (quantiles - median)


def _episodes(
    curves: Sequence[Points], simple: Persistence, num_outputs: int, context: str, most: int, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "row feature"], Float[np.ndarray, " row"]]:
    """Summaries and standardised values at targets of contexts of random size, as in training."""
    features, values, num_rows = [], [], 0
    most_asked = max(1, most // 40)
    usable = [curve for curve in curves if len(curve.y) > 1] or list(curves)
    while num_rows < most:
        curve = usable[rng.integers(len(usable))]
        order = rng.permutation(len(curve.y))
        if context == "prefix":
            order = order[np.lexsort(curve.x[order].T[::-1])]
        size = rng.integers(0, len(order))
        given, asked = curve.select(order[:size]), curve.select(order[size:][:most_asked])
        start = simple.predict(given, asked.places)
        features.append(_summarise(given, asked.places, simple.climate, num_outputs))
        values.append((asked.y - start.loc[0, :, 0]) / start.scale[0, :, 0])
        num_rows += len(asked.y)
    return np.concatenate(features), np.concatenate(values)


def _summarise(context: Points, places: Places, climate: MeanCurve, num_outputs: int) -> Float[np.ndarray, "place feature"]:
    """Features of the trees: the place, the number of points, and how nearby points deviate from the mean curve."""
    mean, std = climate.moments(context.places)
    z = (context.y - mean) / std
    parts = [
        places.x,
        places.output[:, None],
        np.full((len(places.x), 1), len(z)),
        *_of_outputs(context, places, z, num_outputs),
    ]
    left, shift = np.ones(len(z), bool), np.arange(len(places.x))
    own = np.where(places.output[:, None] == context.output[None], _distances(context, places), np.inf)
    for _ in range(NUM_NEIGHBOURS):
        if not left.any() or not np.isfinite(own).any():
            parts.append(np.tile([0.0, FAR], (len(places.x), 1)))
            continue
        nearest = np.argmin(own, axis=1)
        distance = own[shift, nearest]
        known = np.isfinite(distance)
        parts.append(np.stack([np.where(known, z[nearest], 0.0), np.where(known, distance, FAR)], axis=1))
        own[shift, nearest] = np.inf
    return np.hstack(parts)


def _of_outputs(
    context: Points, places: Places, z: Float[np.ndarray, " context"], num_outputs: int
) -> list[Float[np.ndarray, "place 3"]]:
    """For each output: the mean deviation, and the deviation and distance of the nearest point."""
    parts = []
    for number in range(num_outputs):
        nearest, distance = nearest_points(context, places._replace(output=np.full(len(places.x), number)))
        found = nearest >= 0
        values = z[context.output == number]
        parts.append(
            np.stack(
                [
                    np.full(len(nearest), values.mean() if len(values) else 0.0),
                    np.where(found, z[nearest], 0.0) if len(z) else np.zeros(len(nearest)),
                    np.where(found, distance, FAR),
                ],
                axis=1,
            )
        )
    return parts


def _distances(context: Points, places: Places) -> Float[np.ndarray, "place context"]:
    return np.sqrt(((places.x[:, None] - context.x[None]) ** 2).sum(axis=-1))


def _learn_quantile(
    features: Float[np.ndarray, "row feature"], z: Float[np.ndarray, " row"], level: float, seed: int
) -> tuple[np.ndarray, ...]:
    """The trees of one quantile, as arrays: base value, feature, threshold, children and value of each node."""
    from sklearn.ensemble import GradientBoostingRegressor  # here, because it takes a second to import

    model = GradientBoostingRegressor(
        loss="quantile", alpha=level, n_estimators=NUM_TREES, learning_rate=RATE, max_depth=DEPTH, random_state=seed,
        subsample=min(1.0, ROWS_PER_TREE / len(z)), min_samples_leaf=max(1, min(50, len(z) // 40)), init="zero",
    )  # fmt: skip
    base = float(np.quantile(z, level))
    model.fit(features.astype(np.float32), z - base)
    trees = [tree.tree_ for tree in model.estimators_[:, 0]]
    num_nodes = 2 ** (DEPTH + 1) - 1

    def stack(parts: list[np.ndarray]) -> np.ndarray:
        return np.stack(
            [np.concatenate([part, np.zeros((num_nodes - len(part), *part.shape[1:]), part.dtype)]) for part in parts]
        )

    children = stack([np.stack([tree.children_left, tree.children_right], axis=1) for tree in trees])
    feature, threshold = stack([tree.feature for tree in trees]), stack([tree.threshold for tree in trees])
    value = stack([RATE * tree.value[:, 0, 0] for tree in trees])
    return np.asarray(base), feature.astype(np.int64), threshold, children.astype(np.int64), value


def _learn_widening(quantiles: Float[np.ndarray, "level point"], z: Float[np.ndarray, " point"]) -> float:
    """The factor under which the mixture gives held-out values the highest density."""
    median = quantiles[len(LEVELS) // 2]

    def score(factor: float) -> float:
        loc, scale = _as_mixture(median + factor * (quantiles - median))
        return float(Predictive(loc[..., None], scale[..., None]).log_prob(z[:, None]).mean())

    return float(max(WIDENINGS, key=score))


def _as_mixture(
    quantiles: Float[np.ndarray, "level point"],
) -> tuple[Float[np.ndarray, "component point"], Float[np.ndarray, "component point"]]:
    """Normal distributions of equal weight whose mixture has about these quantiles."""
    from scipy.special import ndtri

    # In the scale of normal quantiles the quantile function is nearly a line, which continues beyond the outer levels.
    levels, centres = ndtri(LEVELS), ndtri((np.arange(NUM_COMPONENTS) + 0.5) / NUM_COMPONENTS)
    inside = np.clip(np.searchsorted(levels, centres) - 1, 0, len(levels) - 2)
    share = ((centres - levels[inside]) / (levels[inside + 1] - levels[inside]))[:, None]
    loc = (1 - share) * quantiles[inside] + share * quantiles[inside + 1]
    slope = (quantiles[inside + 1] - quantiles[inside]) / (levels[inside + 1] - levels[inside])[:, None]
    overall = (quantiles[-1] - quantiles[0]) / (levels[-1] - levels[0])
    return loc, np.maximum(WIDTH * (slope + overall) / 2, LEAST_STD)
