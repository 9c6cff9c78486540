"""Several surrogates of one search, weighted by how well each has predicted its evaluations."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.bayesopt.surrogates import AbstractSurrogate, Candidates, Inputs, Outputs, Point, Points, Scores, Seeds, Values

__all__ = ["Blend"]

FORGETTING = 0.8
"""Weight of an evaluation relative to the next one: who predicts the latest ones well is to be believed."""

NEGLIGIBLE = 1e-2
"""Surrogates of smaller weight are not asked."""


class Blend(AbstractSurrogate):
    """A mixture of surrogates that has been conditioned on one search already: it ignores the points that its methods get.

    The weight of a surrogate is proportional to $\\exp \\sum_i \\gamma^{n-i} \\log p(y_i \\mid y_{<i})$, what it gave to
    each of the n evaluations from those before, where old ones are gradually forgotten.
    """

    def __init__(
        self, members: Sequence[AbstractSurrogate], weights: Float[np.ndarray, " member"], x: Points, z: Values
    ) -> None:
        self.members, self.weights, self.x, self.z = members, weights, x, z

    @staticmethod
    def of(members: Sequence[AbstractSurrogate], x: Points, z: Values) -> "Blend":
        """Weigh the surrogates by the evaluations of a search. All must be in the same units, whatever the evaluations are."""
        scores = np.zeros(len(members))
        for count in range(1, len(x) + 1 if len(members) > 1 else 0):
            scores = FORGETTING * scores + [_log_density_of_last(member, x[:count], z[:count]) for member in members]
        weights = np.exp(scores - scores.max())
        weights = np.where(weights < NEGLIGIBLE * weights.sum(), 0, weights)
        return Blend(members, weights / weights.sum(), x, z)

    def believing(self, pending: Points) -> "Blend":
        """The blend that has observed its own mean at the pending points."""
        if not len(pending):
            return self
        x, z = np.concatenate([self.x, pending]), np.concatenate([self.z, self.at(pending)[0]])
        return Blend(self.members, self.weights, x, z)

    def at(self, points: Points, seed: int = 0) -> tuple[Values, Values]:
        """Mean and standard deviation of the mixture."""
        mean, std = self.moments(self.x[None], self.z[None], points, np.asarray([seed], np.uint32))
        return mean[0], std[0]

    def moments(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> tuple[Scores, Scores]:
        asked = [(member, weight) for member, weight in zip(self.members, self.weights, strict=True) if weight]
        x, z = np.tile(self.x, (len(seeds), 1, 1)), np.tile(self.z, (len(seeds), 1))
        means, stds = zip(*(member.moments(x, z, candidates, seeds) for member, _ in asked), strict=True)
        shares = np.array([weight for _, weight in asked])[:, None, None]
        mean = (shares * means).sum(axis=0)
        return mean, np.sqrt((shares * (np.square(stds) + np.square(means - mean))).sum(axis=0))

    def draw(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> Scores:
        rows = []
        for seed in seeds:
            member = self.members[int(np.random.default_rng(seed).choice(len(self.members), p=self.weights))]
            rows.append(member.draw(self.x[None], self.z[None], candidates, np.asarray([seed]))[0])
        return np.stack(rows)

    def log_density(self, x: Points, z: Values, point: Point, output: float) -> float:
        parts = [member.log_density(self.x, self.z, point, output) for member in self.members]
        with np.errstate(divide="ignore"):
            return float(np.logaddexp.reduce(np.log(self.weights) + parts))

    def require_inputs(self, num_inputs: int) -> None:
        for member in self.members:
            member.require_inputs(num_inputs)

    def describe(self) -> dict[str, Any]:
        return {"model": "blend", "members": [member.describe() for member in self.members]}


def _log_density_of_last(member: AbstractSurrogate, x: Points, z: Values) -> float:
    return _cached_log_density(member, x.shape[1], np.ascontiguousarray(x).tobytes(), np.ascontiguousarray(z).tobytes())


@functools.lru_cache(maxsize=2_048)
def _cached_log_density(member: AbstractSurrogate, num_inputs: int, x_bytes: bytes, z_bytes: bytes) -> float:
    x, z = np.frombuffer(x_bytes).reshape(-1, num_inputs), np.frombuffer(z_bytes)
    return member.log_density(x[:-1], z[:-1], x[-1], float(z[-1]))
