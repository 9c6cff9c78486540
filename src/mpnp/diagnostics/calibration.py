"""Calibration of predictions at single targets: PIT values, coverage, CRPS and sharpness."""

import dataclasses
import math
from collections.abc import Sequence

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from mpnp.diagnostics.cases import Case, Cases
from mpnp.diagnostics.estimate import Estimate, cluster_mean, coverage
from mpnp.diagnostics.figures import coverage_figure, ecdf_figure
from mpnp.diagnostics.sections import Section, Table, Verdict, judge_coverage
from mpnp.diagnostics.uniformity import Uniformity
from mpnp.inference.model import NUM_SAMPLES, FittedModel
from mpnp.inference.prediction import Prediction
from mpnp.tables.columns import Schema

__all__ = ["LEVELS", "Targets", "calibration_sections", "predict_targets", "score_targets"]

LEVELS = (50, 80, 90, 95)
"""Central intervals whose coverage is measured, in percent."""

NUM_BINS = 4

EXACT = "exact GP"


@dataclasses.dataclass(frozen=True)
class Targets:
    """Predictions of one output at the targets of all cases: one entry per target."""

    name: str
    pit: Float[np.ndarray, " target"]
    crps: Float[np.ndarray, " target"]
    std: Float[np.ndarray, " target"]
    y: Float[np.ndarray, " target"]
    clusters: Int[np.ndarray, " target"]
    context_size: Int[np.ndarray, " target"]
    distance: Float[np.ndarray, " target"]

    def independent_pit(self, rng: np.random.Generator) -> Uniformity:
        """The PIT value of one random target per cluster: these are independent, as the band assumes."""
        shuffled = rng.permutation(np.flatnonzero(~np.isnan(self.pit)))
        _, first = np.unique(self.clusters[shuffled], return_index=True)
        return Uniformity(self.pit[shuffled[first]])

    def coverage(self, level: int, chosen: Bool[np.ndarray, " target"] | None = None) -> Estimate:
        """How often the central interval of this level, in percent, contains the target."""
        rows = slice(None) if chosen is None else chosen
        return coverage(self.pit[rows], level / 100, self.clusters[rows])

    def mean(self, values: Float[np.ndarray, " target"]) -> Estimate:
        """Mean of a quantity over all targets."""
        return cluster_mean(values, self.clusters)


def predict_targets(model: FittedModel, cases: Cases) -> list[Prediction]:
    """The model's prediction at the targets of each case."""
    contexts = [(case.x_context, case.y_context) for case in cases]
    noise = [case.noise_target for case in cases]
    return model.predict_pairs(contexts, [case.x_target for case in cases], NUM_SAMPLES, noise)


def score_targets(columns: Schema, cases: Cases, predictions: Sequence[Prediction]) -> list[Targets]:
    """Scores of every target, one set per output."""
    counts = [len(case.x_target) for case in cases]
    observed = np.concatenate([case.y_target for case in cases])
    pit, crps, std = (
        np.concatenate([np.asarray(part) for part in parts])
        for parts in zip(
            *(
                (prediction.cdf(case.y_target), prediction.crps(case.y_target), prediction.std)
                for case, prediction in zip(cases, predictions, strict=True)
            ),
            strict=True,
        )
    )
    clusters = np.repeat(cases.clusters, counts)
    sizes = np.repeat([len(case.x_context) for case in cases], counts)
    distance = np.concatenate([_distance(columns, case) for case in cases])
    std = np.where(np.isnan(observed), np.nan, std)
    return [
        Targets(name, pit[:, place], crps[:, place], std[:, place], observed[:, place], clusters, sizes, distance)
        for place, name in enumerate(columns.outputs)
    ]


def calibration_sections(
    model: FittedModel, cases: Cases, predictions: Sequence[Prediction], *, seed: int
) -> tuple[Section, Section, Section]:
    """The sections on PIT values, on coverage, and on CRPS and sharpness."""
    columns = model.card.columns
    of_model = score_targets(columns, cases, predictions)
    of_exact = None
    if cases.has_exact:
        answers = [Prediction(jax.device_get(case.exact.target), columns) for case in cases if case.exact is not None]
        of_exact = score_targets(columns, cases, answers)
    return (
        _pit_section(of_model, of_exact, seed),
        _coverage_section(of_model, of_exact),
        _sharpness_section(of_model, of_exact),
    )


def _pit_section(of_model: list[Targets], of_exact: list[Targets] | None, seed: int) -> Section:
    pits = {targets.name: targets.independent_pit(np.random.default_rng(seed)) for targets in of_model}
    shown = {name: {"model": pit} for name, pit in pits.items()}
    for targets in of_exact or ():
        shown[targets.name][EXACT] = targets.independent_pit(np.random.default_rng(seed))
    return Section(
        "pit",
        "Calibration of predictions",
        "A PIT value is the predicted probability of an observation below the one that came. If predictions are calibrated, "
        "PIT values are uniform and the line stays inside the band in 95 of 100 checks. An S-shape means bands that are too "
        "narrow or too wide, an arch means bias.",
        [_judge_pit(name, pit, len(pits) > 1) for name, pit in pits.items()],
        [],
        {"outputs": {name: {who: pit.to_json() for who, pit in lines.items()} for name, lines in shown.items()}},
        [ecdf_figure(shown, xlabel="PIT value")],
    )


def _judge_pit(name: str, pit: Uniformity, several: bool) -> Verdict:
    where = f" of {name}" if several else ""
    fault = pit.fault()
    if fault is None:
        return Verdict(f"The PIT values{where} of {len(pit.values):,} tasks are uniform within the band: calibrated.", True)
    return Verdict(f"The PIT values{where} of {len(pit.values):,} tasks leave the band: predictions are {fault}.", False)


def _coverage_section(of_model: list[Targets], of_exact: list[Targets] | None) -> Section:
    tables, numbers, verdicts, panels = [], {}, [], {}
    for place, targets in enumerate(of_model):
        several = f" of {targets.name}" if len(of_model) > 1 else ""
        exact = None if of_exact is None else of_exact[place]
        verdicts += _judge_levels(targets, several)
        groups = {
            "": {"all targets": np.ones(len(targets.pit), bool)},
            f"context size{several}": _bins(targets.context_size),
            f"distance to the nearest observation{several}": _bins(targets.distance),
        }
        tables += [_coverage_table(title or f"targets{several}", bins, targets, exact) for title, bins in groups.items()]
        found = {
            title or "all": {name: _levels(targets, chosen) for name, chosen in bins.items()} for title, bins in groups.items()
        }
        numbers[targets.name] = {
            title: {name: {str(level): part.to_json() for level, part in row.items()} for name, row in rows.items()}
            for title, rows in found.items()
        }
        panels |= {title: rows for title, rows in found.items() if title != "all"}
    return Section(
        "coverage",
        "Coverage of bands",
        "A band is right if it contains the share of observations that its name promises. Standard errors count tasks, not "
        "points, because points of one task depend on each other.",
        verdicts,
        tables,
        {"outputs": numbers},
        [coverage_figure(panels)],
    )


def _judge_levels(targets: Targets, several: str) -> list[Verdict]:
    """A verdict on the 90% band, and on the worst of its bins if that is much worse."""
    whole = targets.coverage(90)
    verdicts = [judge_coverage(f"The 90% band{several}", 90, whole)]
    bins = {
        f"{what} {name}": targets.coverage(90, chosen)
        for what, values in (("context size", targets.context_size), ("distance", targets.distance))
        for name, chosen in _bins(values).items()
    }
    name, worst = max(bins.items(), key=lambda item: abs(item[1].mean - 0.9))
    if abs(worst.mean - 0.9) > abs(whole.mean - 0.9) + 3 * worst.standard_error:
        verdicts.append(judge_coverage(f"At {name} it", 90, worst))
    return verdicts


def _coverage_table(title: str, bins: dict[str, Bool[np.ndarray, " target"]], targets: Targets, exact: Targets | None) -> Table:
    header = [title, *(f"{level}%" for level in LEVELS), *([] if exact is None else [f"{EXACT}, 90%"])]
    rows = []
    for name, chosen in bins.items():
        cells = [targets.coverage(level, chosen).percent() for level in LEVELS]
        rows.append([name, *cells, *([] if exact is None else [exact.coverage(90, chosen).percent()])])
    return Table(header, rows)


def _levels(targets: Targets, chosen: Bool[np.ndarray, " target"]) -> dict[int, Estimate]:
    return {level: targets.coverage(level, chosen) for level in LEVELS}


def _sharpness_section(of_model: list[Targets], of_exact: list[Targets] | None) -> Section:
    rows, numbers, verdicts = [], {}, []
    for place, targets in enumerate(of_model):
        everyone = {"model": targets} | ({} if of_exact is None else {EXACT: of_exact[place]})
        scores = {who: {"crps": part.mean(part.crps), "std": part.mean(part.std)} for who, part in everyone.items()}
        baseline = _marginal_crps(targets.y)
        rows += [[f"{targets.name}, {who}", part["crps"].number(4), part["std"].number(4)] for who, part in scores.items()]
        rows.append([f"{targets.name}, ignoring input and context", f"{baseline:.4f}", f"{np.nanstd(targets.y):.4f}"])
        numbers[targets.name] = {
            **{who: {name: value.to_json() for name, value in part.items()} for who, part in scores.items()},
            "baseline_crps": baseline,
        }
        verdicts.append(_judge_crps(targets.name, {who: part["crps"] for who, part in scores.items()}, baseline))
    return Section(
        "sharpness",
        "Accuracy and sharpness",
        "The CRPS is a distance between predictions and observations, in units of the output: smaller is better. Sharpness is "
        "the mean predicted standard deviation: among calibrated predictions, sharper ones are more useful.",
        verdicts,
        [Table(["", "CRPS", "standard deviation"], rows)],
        {"outputs": numbers},
    )


def _judge_crps(name: str, crps: dict[str, Estimate], baseline: float) -> Verdict:
    own = crps["model"].mean
    gain = 1 - own / baseline
    text = f"The CRPS of {name} is {own:.3g}, {abs(gain):.0%} {'below' if gain > 0 else 'above'} that of ignoring the context"
    if EXACT in crps:
        text += f"; the exact Gaussian process, which knows the kernel, has {crps[EXACT].mean:.3g}"
    return Verdict(f"{text}.", None if gain > 0 else False)


def _marginal_crps(y: Float[np.ndarray, " target"]) -> float:
    """CRPS of predicting the distribution of all targets everywhere: half the mean distance between two of them."""
    ordered = np.sort(y[~np.isnan(y)])
    count = len(ordered)
    return float(np.sum((2 * np.arange(1, count + 1) - count - 1) * ordered) / max(count, 1) ** 2)


def _bins(values: Float[np.ndarray, " target"] | Int[np.ndarray, " target"]) -> dict[str, Bool[np.ndarray, " target"]]:
    """Groups of about equal size, in ascending order, by the range of their values."""
    whole = np.issubdtype(values.dtype, np.integer)
    edges = np.unique(np.quantile(values, np.linspace(0, 1, NUM_BINS + 1), method="nearest" if whole else "linear"))
    places = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, max(len(edges) - 2, 0))
    digits = 0 if whole else max(0, 2 - math.floor(math.log10(max(float(edges[-1]), 1e-12))))
    groups = [places == place for place in np.unique(places)]
    return {f"{values[chosen].min():.{digits}f} to {values[chosen].max():.{digits}f}": chosen for chosen in groups}


def _distance(columns: Schema, case: Case) -> Float[np.ndarray, " target"]:
    """Distance of each target to the nearest row of the context, in the input's units; the network's if there are several."""
    alone = len(columns.inputs) == 1
    target, context = (x if alone else columns.encode_inputs(x) for x in (case.x_target, case.x_context))
    return np.sqrt(np.sum((target[:, None] - context[None]) ** 2, axis=-1)).min(axis=1)
