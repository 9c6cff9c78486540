"""The leaderboard of a fit: the network, its rivals and their stack, scored on the same held-out curves."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from mpnp.errors import InputError, RunError, first_line, show, unknown_name
from mpnp.inference.card import ModelCard
from mpnp.options import require_count

__all__ = ["NETWORK", "STACK", "Leaderboard", "Rows", "Standing", "learn_weights", "rank", "read_leaderboard"]

NETWORK, STACK = "network", "stack"

ITERATIONS = 200
"""Iterations of the EM algorithm for the weights of a stack, which converges in far fewer."""

PRIOR_TASKS = 0.5
"""Equal weights count as much as so many held-out tasks, so that few tasks cannot rule a member out."""

Scores = Mapping[str, Float[np.ndarray, "row output"]]
"""Scores of every held-out output by metric, NaN where it was not observed."""


@dataclasses.dataclass(frozen=True)
class Standing:
    """One row: means over all held-out outputs.

    With several outputs, CRPS and RMSE are in standard deviations of each held-out output. `behind` is how much lower the
    log-likelihood is than that of the first, with the standard error of this difference over tasks.
    """

    name: str
    log_likelihood: float
    crps: float
    rmse: float
    coverage_90: float
    behind: float
    behind_error: float

    def __post_init__(self) -> None:
        """Check types: it may come from a damaged card."""
        scores = [getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "name"]
        if not isinstance(self.name, str) or not all(map(_is_finite, scores)):
            raise ValueError(f"the scores of {show(self.name)} are not all finite numbers")

    @property
    def may_be_first(self) -> bool:
        """Whether it is within one standard error of the first."""
        return self.behind <= self.behind_error


@dataclasses.dataclass(frozen=True)
class Leaderboard:
    """Who forecasts best, by the log-likelihood of held-out targets.

    `best` is chosen on validation tasks: of those that may be first, the stack, or else the first that has functions. `test`
    has the scores on test tasks, if there are any, on which nothing was chosen.
    """

    validation: tuple[Standing, ...]
    test: tuple[Standing, ...]
    best: str
    weights: dict[str, float]
    """Of the members of the stack."""
    skipped: dict[str, str]
    """Rivals that do not suit the curves, and why."""
    num_contexts: int
    spread: float = 1.0
    """Factor on the scales of the stack's members."""

    def __post_init__(self) -> None:
        """Check consistency: it may come from a damaged card."""
        names = [standing.name for standing in self.validation]
        if NETWORK not in names or self.best not in names:
            raise ValueError(f"it ranks {names}, which lack the network or the best, {show(self.best)}")
        shares = self.weights.values()
        if not self.weights.keys() <= {*names} - {STACK} or not all(_is_finite(share) and share > 0 for share in shares):
            raise ValueError("the weights of its stack are not shares of its forecasters")
        if (self.weights or STACK in names) and not math.isclose(sum(shares), 1):
            raise ValueError("the weights of its stack do not sum to one")
        if not (_is_finite(self.spread) and self.spread > 0):
            raise ValueError("the spread of its stack is no positive number")
        if not all(isinstance(text, str) for text in (*self.skipped, *self.skipped.values())):
            raise ValueError("its reasons to skip rivals are not texts")
        require_count("num_contexts", self.num_contexts)

    def resolve(self, name: str) -> str:
        """The name of a forecaster, where 'best' may stand for the first."""
        if name == "best":
            return self.best
        names = [standing.name for standing in self.validation]
        if name not in names:
            reason = f" It was left out: {self.skipped[name]}." if str(name) in self.skipped else ""
            raise unknown_name("forecaster", str(name), names, f"Choose best or one of: {', '.join(names)}.{reason}")
        return name

    def verdict(self) -> str:
        """Who won, in a sentence, and what it means for the user."""
        network, best = (next(row for row in self.validation if row.name == name) for name in (NETWORK, self.best))
        if (first := self.validation[0]).name == NETWORK == self.best:
            return f"The network forecasts best, of {len(self.validation)} forecasters."
        parts = ", ".join(f"{weight:.0%} {name}" for name, weight in self.weights.items())
        narrowed = "" if self.spread == 1 else f"; spread × {self.spread:g}"
        titles = {NETWORK: "the network", STACK: f"a stack ({parts}{narrowed})"}
        title = titles.get(self.best, f"the rival '{self.best}'")
        default = f"Predictions use {'the ' + self.best if self.best in titles else repr(self.best)} by default."
        if best.behind >= network.behind and self.best != first.name:
            reason = "is the safer choice" if self.best == STACK else "has functions"
            leader = "The network" if first.name == NETWORK else repr(first.name)
            gap = f"{best.behind:.3f} ± {best.behind_error:.3f} in log-likelihood"
            return f"{leader} is first, but {title}, only {gap} behind, which may be chance, {reason}. {default}"
        gap = f"by {network.behind - best.behind:.3f} ± {network.behind_error:.3f} in log-likelihood"
        chance = ", which may be chance" if network.may_be_first else ""
        alone = " alone" if self.best == STACK else ""
        return f"{title[0].upper()}{title[1:]} beats the network{alone} {gap}{chance}. {default}"

    def frame(self, split: str = "validation") -> Any:
        """The scores on validation or test tasks as a data frame."""
        import pandas as pd

        return pd.DataFrame([dataclasses.asdict(standing) for standing in getattr(self, split)]).set_index("name")

    def to_json(self) -> dict[str, Any]:
        """As nested dictionaries."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(content: Any) -> "Leaderboard":
        """From what `to_json` made."""
        parts = {name: tuple(Standing(**row) for row in content[name]) for name in ("validation", "test")}
        return Leaderboard(**{**content, **parts})


def read_leaderboard(card: ModelCard) -> Leaderboard | None:
    """The leaderboard in a card, if it has one."""
    content = card.about.get("leaderboard")
    try:
        return None if content is None else Leaderboard.from_json(content)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, InputError) as error:
        raise RunError(f"the leaderboard of the model is damaged ({first_line(error)}); restore its card from a copy") from None


def _is_finite(number: Any) -> bool:
    return isinstance(number, int | float) and math.isfinite(number)


class Rows(NamedTuple):
    """The held-out rows that scores belong to: the task of each, and how much it counts."""

    cluster: Int[np.ndarray, " row"]
    weights: Float[np.ndarray, " row"]


def rank(scores: Mapping[str, Scores], rows: Rows, scale: Float[np.ndarray, " output"]) -> tuple[Standing, ...]:
    """The standings, the first first. `scale` divides CRPS and errors."""
    means = {name: _mean(some["log_likelihood"], rows) for name, some in scores.items()}
    order = sorted(scores, key=lambda name: -means[name])
    first = scores[order[0]]["log_likelihood"]
    return tuple(_standing(name, scores[name], first - scores[name]["log_likelihood"], rows, scale) for name in order)


def _standing(
    name: str, scores: Scores, behind: Float[np.ndarray, "row output"], rows: Rows, scale: Float[np.ndarray, " output"]
) -> Standing:
    known = ~np.isnan(behind)
    of_task, weights = (np.repeat(part, behind.shape[1])[known.ravel()] for part in rows)
    totals, counts = np.bincount(of_task, weights * behind[known]), np.bincount(of_task, weights)
    mean, num_tasks = float(totals.sum() / counts.sum()), max(int((counts > 0).sum()), 2)
    error = np.sqrt(((totals - mean * counts) ** 2).sum() * num_tasks / (num_tasks - 1)) / counts.sum()
    return Standing(
        name,
        log_likelihood=_mean(scores["log_likelihood"], rows),
        crps=_mean(scores["crps"] / scale, rows),
        rmse=float(np.sqrt(_mean(scores["squared_error"] / scale**2, rows))),
        coverage_90=_mean(scores["coverage_90"], rows),
        behind=mean,
        behind_error=float(error),
    )


def _mean(values: Float[np.ndarray, "row output"], rows: Rows) -> float:
    known = ~np.isnan(values)
    return float(np.average(values[known], weights=np.broadcast_to(rows.weights[:, None], values.shape)[known]))


def learn_weights(
    log_densities: Mapping[str, Float[np.ndarray, " point"]],
    parts: int,
    num_tasks: int,
    counts: Float[np.ndarray, " point"] | None = None,
) -> dict[str, float]:
    """Weights of a stack that maximise the log density of the held-out values of some tasks (Yao et al., 2018), penalised
    towards equal ones. They are multiples of 1 / `parts`; members without weight are left out. `counts` say how much each
    value counts.
    """
    names, stacked = list(log_densities), np.stack(list(log_densities.values()))
    density = np.exp(stacked - stacked.max(axis=0))
    weights = np.full(len(names), 1 / len(names))
    for _ in range(ITERATIONS):
        share = weights[:, None] * density
        of_values = np.average(share / share.sum(axis=0), axis=1, weights=counts)
        weights = (num_tasks * of_values + PRIOR_TASKS / len(names)) / (num_tasks + PRIOR_TASKS)
    return {name: count / parts for name, count in zip(names, _round(weights * parts), strict=True) if count}


def _round(amounts: Float[np.ndarray, " member"]) -> list[int]:
    """Whole numbers of the same sum, by largest remainder."""
    whole = np.floor(amounts).astype(int)
    missing = round(amounts.sum()) - whole.sum()
    whole[np.argsort(whole - amounts, kind="stable")[:missing]] += 1
    return whole.tolist()
