"""Cases to check a model on: contexts with held-out targets, from the user's curves or from the task family of training."""

import dataclasses
from collections.abc import Iterator, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from mpnp.errors import InputError
from mpnp.inference.assess import Cut, cut_curves
from mpnp.inference.model import FittedModel
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.tables.curves import Curves
from mpnp.tasks.base import TaskSource

__all__ = ["Case", "Cases", "ExactAnswer", "cases_from_curves", "cases_from_source", "sort_rows"]

MOST_CUTS = 8
"""Contexts cut from one curve, at most."""


@dataclasses.dataclass(frozen=True)
class ExactAnswer:
    """What the exact Gaussian process, which knows the kernel, says about a case."""

    target: Predictive
    function_mean: Float[np.ndarray, " row"]
    function_covariance: Float[np.ndarray, "row row"]
    joint_log_prob: float

    def sample(self, num: int, rng: np.random.Generator) -> Float[np.ndarray, "draw row 1"]:
        """Draw functions from the exact posterior."""
        weights, vectors = np.linalg.eigh(self.function_covariance)
        root = vectors * np.sqrt(np.maximum(weights, 0))
        return (self.function_mean + rng.standard_normal((num, len(root))) @ root.T)[..., None]


@dataclasses.dataclass(frozen=True)
class Case:
    """A context, targets to predict, and rows of the true function to compare drawn functions with."""

    x_context: Float[np.ndarray, "context input"]
    y_context: Float[np.ndarray, "context output"]
    x_target: Float[np.ndarray, "target input"]
    y_target: Float[np.ndarray, "target output"]
    x_function: Float[np.ndarray, "row input"]
    y_function: Float[np.ndarray, "row output"]
    cluster: int
    """Cases of one cluster, such as cuts of one curve, depend on each other."""
    exact: ExactAnswer | None = None
    noise_target: Float[np.ndarray, "target output"] | None = None
    noise_function: Float[np.ndarray, "row output"] | None = None
    """The known noise of the measurements, if there is any."""


@dataclasses.dataclass(frozen=True)
class Cases:
    """Cases and where they come from. No two of the first `num_independent` share a cluster."""

    items: tuple[Case, ...]
    description: str
    num_independent: int
    noisy: bool
    """Whether `y_function` are observations, noise included, because the function itself is unknown."""

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Case]:
        return iter(self.items)

    def first(self, num: int) -> "Cases":
        """The first `num` cases, all from different clusters."""
        num = min(num, self.num_independent)
        return dataclasses.replace(self, items=self.items[:num], num_independent=num)

    @property
    def clusters(self) -> Int[np.ndarray, " case"]:
        """The cluster of each case."""
        return np.asarray([case.cluster for case in self.items])

    @property
    def has_exact(self) -> bool:
        """Whether the exact posterior is known."""
        return all(case.exact is not None for case in self.items)


def cases_from_curves(model: FittedModel, curves: Curves, num_cases: int, *, seed: int) -> Cases:
    """Cut held-out curves into contexts and targets, as in training. If there are many curves, a random selection of them."""
    usable = np.flatnonzero(curves.counts > 1)
    if len(usable) < 2:
        raise InputError(f"a check needs at least 2 curves of at least 2 rows, got {len(usable)}; pass more held-out curves")
    kept = curves.select(np.random.default_rng(seed).permutation(usable)[:num_cases].tolist())
    num_cuts = min(MOST_CUTS, -(-num_cases // len(kept)))
    cuts = cut_curves(kept, _context_of(model), max_rows=model.card.seen.largest_context + 1, num_cuts=num_cuts, seed=seed)
    groups = {group: number for number, group in enumerate(dict.fromkeys(kept.groups))}
    numbered = [(groups[kept.groups[place // num_cuts]], cut) for place, cut in enumerate(cuts)]
    description = f"{len(kept):,} of your curves with {len(kept.x):,} rows, {len(cuts):,} contexts"
    return _independent_first([_case(cut, cluster) for cluster, cut in numbered], description)


def cases_from_source(source: TaskSource, name: str, num_cases: int) -> Cases:
    """Draw tasks from a family whose functions are unknown."""
    tasks = jax.device_get(eqx.filter_jit(source.batch)(jnp.arange(num_cases, dtype=jnp.uint32)))
    items = []
    for number in range(num_cases):
        x, y = (np.asarray(part[number], np.float64) for part in (tasks.x, tasks.y))
        context, target = tasks.context_mask[number], tasks.target_mask[number]
        if context.any() and target.any():
            items.append(_case(Cut(x[context], y[context], x[target], y[target]), number))
    return Cases(tuple(items), f"{len(items):,} tasks drawn from '{name}'", len(items), noisy=True)


def sort_rows(x: Float[np.ndarray, "row input"]) -> Int[np.ndarray, " row"]:
    """The order of the rows by their inputs, the first input first."""
    return np.lexsort(x.T[::-1])


def _context_of(model: FittedModel) -> str:
    return model.card.about.get("context", "random")


def _case(cut: Cut, cluster: int) -> Case:
    """A case whose function is known by its held-out observations only."""
    order = sort_rows(cut.x_target)
    noise = None if cut.noise is None else cut.noise[order]
    return Case(*cut[:4], cut.x_target[order], cut.y_target[order], cluster, None, cut.noise, noise)


def _independent_first(cases: Sequence[Case], description: str) -> Cases:
    """Cases in an order that starts with one of each cluster."""
    first: dict[int, int] = {}
    for number, case in enumerate(cases):
        first.setdefault(case.cluster, number)
    leading = set(first.values())
    others = [number for number in range(len(cases)) if number not in leading]
    return Cases(tuple(cases[number] for number in (*first.values(), *others)), description, len(first), noisy=True)
