"""Honesty of drawn functions: ranks of true functionals among drawn ones, and coverage of their intervals."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.diagnostics.calibration import EXACT, LEVELS
from mpnp.diagnostics.cases import Case, Cases
from mpnp.diagnostics.estimate import Estimate, cluster_mean, coverage
from mpnp.diagnostics.figures import ecdf_figure
from mpnp.diagnostics.sections import Section, Table, Verdict, describe_coverage, join_names
from mpnp.diagnostics.uniformity import Uniformity
from mpnp.errors import InputError

__all__ = ["Functional", "default_functionals", "functionals_section", "random_rank"]

Functional = Callable[[np.ndarray, np.ndarray], Any]
"""Maps inputs of shape (rows, inputs) and the values of one output there to a number; NaN if the function lacks it."""


def default_functionals(num_inputs: int) -> dict[str, Functional]:
    """Maximum and mean; for one input also a difference and the argmax. Rows are sorted by the first input."""
    anywhere: dict[str, Functional] = {"maximum": lambda x, y: np.max(y), "mean": lambda x, y: np.mean(y)}
    if num_inputs > 1:
        return anywhere
    return anywhere | {"difference": _difference, "argmax": lambda x, y: x[np.argmax(y), 0]}


def _difference(x: np.ndarray, y: np.ndarray) -> float:
    """The value three quarters along the rows minus that at one quarter."""
    return y[3 * (len(y) - 1) // 4] - y[(len(y) - 1) // 4]


def random_rank(truth: float, draws: Float[np.ndarray, " draw"], rng: np.random.Generator) -> float:
    """The rank of the truth among draws, on [0, 1]: uniform if they come from one distribution, ties included.

    NaN if the truth is NaN. Draws that lack the quantity (NaN) do not count.
    """
    draws = draws[~np.isnan(draws)]
    if np.isnan(truth):
        return np.nan
    below, equal = np.sum(draws < truth), np.sum(draws == truth)
    return float((below + rng.random() * (equal + 1)) / (len(draws) + 1))


@dataclasses.dataclass(frozen=True)
class _Measured:
    """Ranks of the truth and widths of 90% intervals, one per case."""

    ranks: Float[np.ndarray, " case"]
    widths: Float[np.ndarray, " case"]
    clusters: np.ndarray

    def coverage(self, level: int) -> Estimate:
        return coverage(self.ranks, level / 100, self.clusters)

    @property
    def width(self) -> Estimate:
        return cluster_mean(self.widths, self.clusters)


def functionals_section(
    cases: Cases,
    draws: Mapping[str, Sequence[Float[np.ndarray, "draw _ output"]]],
    functionals: Mapping[str, Functional],
    outputs: Sequence[str],
    *,
    seed: int,
) -> Section:
    """Compare true functionals with those of drawn functions. `draws` has one array per case, by the way they were drawn."""
    measured = {
        (f"{name} of {output}" if len(outputs) > 1 else name, way): _measure(cases, of_cases, fn, name, place, seed)
        for place, output in enumerate(outputs)
        for name, fn in functionals.items()
        for way, of_cases in draws.items()
    }
    names = list(dict.fromkeys(name for name, _ in measured))
    panels = {name: {way: Uniformity(_known(measured[name, way].ranks)) for way in draws} for name in names}
    compared = "observations at held-out rows" if cases.noisy else "the true function, without noise, on a grid"
    return Section(
        "functionals",
        "Functionals of drawn functions",
        f"Each functional, such as the maximum, is computed for {compared} and for drawn functions. If draws are honest, "
        "the rank of the truth among them is uniform, its line stays inside the band, and 90% intervals contain 90% of the "
        "truths.",
        [_judge(way, {name: measured[name, way].coverage(90) for name in names}) for way in draws if way != EXACT],
        [_table(name, {way: measured[name, way] for way in draws}) for name in names],
        {name: {way: _to_json(measured[name, way]) for way in draws} for name in names},
        [ecdf_figure({name: lines for name, lines in panels.items() if _drawable(lines)}, xlabel="rank of the truth")],
    )


def _measure(cases: Cases, of_cases: Sequence[np.ndarray], fn: Functional, name: str, output: int, seed: int) -> _Measured:
    rng = np.random.default_rng(seed)
    pairs = [_apply(case, draws, fn, name, output) for case, draws in zip(cases, of_cases, strict=True)]
    widths = [np.nan if np.isnan(draws).all() else np.subtract(*np.nanquantile(draws, [0.95, 0.05])) for _, draws in pairs]
    return _Measured(np.asarray([random_rank(truth, draws, rng) for truth, draws in pairs]), np.asarray(widths), cases.clusters)


def _apply(
    case: Case, draws: Float[np.ndarray, "draw row output"], fn: Functional, name: str, output: int
) -> tuple[float, np.ndarray]:
    """The functional of the true function and of each drawn one, at rows where the truth is known."""
    known = ~np.isnan(case.y_function[:, output])
    if not known.any():
        return np.nan, np.full(len(draws), np.nan)
    x, values = case.x_function[known], [case.y_function[known, output], *draws[:, known, output]]
    try:
        truth, *found = (float(fn(x, y)) for y in values)
    except (TypeError, ValueError, IndexError) as error:
        raise InputError(f"the functional '{name}' must map (x, y), of {len(x)} rows here, to a number: {error}") from None
    return truth, np.asarray(found)


def _judge(way: str, found: Mapping[str, Estimate]) -> Verdict:
    """One sentence on all functionals of one way to draw."""
    groups: dict[str, list[str]] = {}
    for name, estimate in found.items():
        groups.setdefault(describe_coverage(90, estimate)[0], []).append(f"{name} {estimate.percent()}")
    parts = "; ".join(f"{join_names(names)} ({words})" for words, names in groups.items())
    good = all(describe_coverage(90, estimate)[1] for estimate in found.values())
    return Verdict(f"90% intervals of {way} functions cover: {parts}.", good)


def _table(name: str, ways: Mapping[str, _Measured]) -> Table:
    rows = [[way, *(part.coverage(level).percent() for level in LEVELS), part.width.number()] for way, part in ways.items()]
    return Table([name, *(f"{level}%" for level in LEVELS), "width of the 90% interval"], rows)


def _to_json(measured: _Measured) -> dict[str, Any]:
    return {
        "coverage": {str(level): measured.coverage(level).to_json() for level in LEVELS},
        "width": measured.width.to_json(),
        "ranks": np.round(_known(measured.ranks), 4).tolist(),
    }


def _known(ranks: Float[np.ndarray, " case"]) -> np.ndarray:
    return ranks[~np.isnan(ranks)]


def _drawable(lines: Mapping[str, Uniformity]) -> bool:
    return all(len(values.values) for values in lines.values())
