"""Forecast the rest of a day's temperatures from its morning, compared with strong baselines, on held-out dates.

    python benchmarks/weather.py                    fit what is missing, score everything, write results/weather
    python benchmarks/weather.py --only fit         only these; all other rows stay as they are in the record

Every method gets the readings of a day before some hour and forecasts the rest. All learn from the same
training dates; nothing is chosen on test dates.
"""

import argparse
import functools
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from scipy.special import ndtr
from weather_rivals import Climatology, Covariance, LearntGaussianProcess, Normal, Persistence, fitted_gaussian_process

from mpnp.inference.draws import Draws
from mpnp.inference.fit import FitOptions, fit_curves, has_unfinished_fit, resume_fit
from mpnp.inference.leaderboard import NETWORK
from mpnp.inference.model import FittedModel, load
from mpnp.io.files import environment, read_json, write_atomically, write_json
from mpnp.plotting.style import BAND, STYLE, save_figure
from mpnp.reproduce.tables import markdown
from mpnp.tables.columns import Schema
from mpnp.tables.curves import Curves
from mpnp.tables.frames import curves_from_frame, read_table
from mpnp.tables.split import split_curves

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "weather"
DATA = ROOT / "examples" / "nyc-weather" / "weather.csv.gz"
COLUMNS = Schema.named(("hour",), ("temp",), "station_day", "date")
CUTS = (3, 6, 9, 12, 15, 18)
VALIDATION, TEST, SEED = 0.15, 0.25, 0
MODELS = {
    "mpanp": FitOptions("mpanp", "prefix", 8.0, validation=VALIDATION, test=TEST, rivals="none", seed=SEED),
    "canp": FitOptions("canp", "prefix", 8.0, validation=VALIDATION, test=TEST, rivals="none", seed=SEED),
    "fit": FitOptions(context="prefix", max_minutes=3.0, validation=VALIDATION, test=TEST, seed=SEED),
}
"""Networks alone, and what `mpnp fit` makes by default, with its rivals: the command of docs/own-data.md in three minutes."""

NORMAL = "normal with the training days' covariance"
TIMED = 200
"""Number of single predictions to time."""

NUM_DRAWS = 256
"""Draws of a day behind each posterior of its maximum."""

MORNING = 9
"""The hour at which the day's maximum is predicted."""

SampleDay = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""From the hours and temperatures of a morning, and the hours to forecast, to draws of the readings at these hours."""

Row = dict[str, Any]
"""What was measured of one method."""

Forecast = Callable[[np.ndarray, np.ndarray, np.ndarray], Normal]
"""From the hours and temperatures of a morning, and the hours to forecast."""


def main() -> None:
    """Fit, score, tabulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", nargs="+", choices=(*MODELS, "rivals"), default=(*MODELS, "rivals"), help="default: everything"
    )
    parser.add_argument("--models", type=Path, default=Path("runs/weather"), help="where fitted models live")
    options = parser.parse_args()
    curves = curves_from_frame(read_table(DATA), COLUMNS)
    parts = split_curves(curves, validation=VALIDATION, test=TEST, seed=SEED)
    questions = cut_days(parts["test"])
    rows, maxima = [], []
    for name in options.only:
        if name == "rivals":
            more, day = score_rivals(parts["train"], questions)
            rows, days = rows + more, {NORMAL: day}
        else:
            answers = forecasts_of(name, fit_or_load(MODELS[name], curves, options.models / name))
            rows += [score_ours(model, method, questions) for method, model in answers.items()]
            days = {method: functools.partial(continue_day, model) for method, model in answers.items()}
            if name == "mpanp":
                draw(answers["MPANP"], questions)
        maxima += [score_maxima(method, day, questions) for method, day in days.items()]
    write_results(parts, len(questions), rows, maxima)


def write_results(parts: Mapping[str, Curves], num_questions: int, rows: list[Row], maxima: list[Row]) -> None:
    """The record, in which rows measured now take the place of those before, and its tables."""
    counts = {name: len(part) for name, part in parts.items()}
    dates = {name: len(set(part.groups)) for name, part in parts.items()}
    protocol = {"cuts": CUTS, "days": counts, "dates": dates, "questions": num_questions}
    path = RESULTS / "scores.json"
    before = read_json(path) if path.exists() else {"rows": [], "maxima": []}
    rows, maxima = merge_rows(before["rows"], rows), merge_rows(before["maxima"], maxima)
    write_json(path, {"kind": "weather", "protocol": protocol, "rows": rows, "maxima": maxima, "environment": environment()})
    for name, table in (("table.md", tabulate(rows)), ("maxima.md", tabulate_maxima(maxima))):
        write_atomically(RESULTS / name, lambda file, table=table: file.write(table.encode()))
        print(table)


def merge_rows(before: Sequence[Row], now: Sequence[Row]) -> list[Row]:
    """All rows, new ones in the place of old ones with the same method. Each says what it was measured with."""
    dated = [row | {"environment": environment()} for row in now]
    return list(({row["method"]: row for row in before} | {row["method"]: row for row in dated}).values())


def forecasts_of(name: str, model: FittedModel) -> dict[str, FittedModel]:
    """What to score of a model: its network, and what answers by default if it has rivals."""
    if (board := model.leaderboard) is None:
        return {name.upper(): model}
    return {f"`fit`: its answer by default ({board.resolve('best')})": model, "`fit`: its network": model.use(NETWORK)}


def score_rivals(training: Curves, questions: Sequence["Question"]) -> tuple[list[Row], "SampleDay"]:
    """The rows of methods that learn a normal distribution, and draws from the one with the training days' covariance."""
    climate = Climatology(training)
    covariance = Covariance(climate, training)
    rivals: dict[str, Forecast] = {
        "GP fitted to each morning": fitted_gaussian_process,
        "GP learnt on training days": LearntGaussianProcess(climate, training),
        NORMAL: covariance,
        "damped-anomaly persistence": Persistence(climate, training),
        "hour-of-day climatology": climate,
    }
    rows = [score_rival(name, forecast, questions) for name, forecast in rivals.items()]
    return rows, functools.partial(covariance.sample, num_draws=NUM_DRAWS, seed=SEED)


Question = tuple[str, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Date, then hours and temperatures of the morning and of the rest."""


def cut_days(curves: Curves) -> list[Question]:
    """Every day, cut before each of the hours."""
    questions = []
    for number in range(len(curves)):
        hour, temp = (values[:, 0] for values in curves.pair(number))
        order = np.argsort(hour)
        hour, temp = hour[order], temp[order]
        questions += [
            (curves.groups[number], hour[hour < cut], temp[hour < cut], hour[hour >= cut], temp[hour >= cut])
            for cut in CUTS
            if (hour < cut).any() and (hour >= cut).any()
        ]
    return questions


def fit_or_load(options: FitOptions, curves: Curves, directory: Path) -> FittedModel:
    """The model of these options. An existing one must have been fitted to the same split."""
    if has_unfinished_fit(directory):
        return resume_fit(directory)
    if not (directory / "card.json").exists():
        return fit_curves(curves, options, out=directory)
    model = load(directory)
    parts = split_curves(curves, validation=VALIDATION, test=TEST, seed=SEED)
    wanted = ({part: len(some) for part, some in parts.items()}, options.seed, options.context)
    if tuple(model.card.about[key] for key in ("tasks", "seed", "context")) != wanted:
        raise SystemExit(f"{directory} was fitted to something else; remove it")
    return model


def score_ours(model: FittedModel, name: str, questions: Sequence[Question]) -> dict[str, Any]:
    """One row of the record."""
    started = time.process_time()
    predictions = model.predict_pairs(
        [(hour[:, None], temp[:, None]) for _, hour, temp, _, _ in questions], [at[:, None] for *_, at, _ in questions], 32
    )
    cpu_seconds = time.process_time() - started
    scores = []
    for prediction, (*_, truth) in zip(predictions, questions, strict=True):
        y = truth[:, None]
        rank = prediction.cdf(y)
        scores.append(
            [prediction.marginal_log_prob(y), prediction.crps(y), np.abs(rank - 0.5) <= 0.45, (prediction.mean - y) ** 2]
        )
    # Time of single predictions, from and to the user's units, after one to compile.
    for _ in range(2):
        started = time.process_time()
        for _, hour, temp, at, _ in questions[:TIMED]:
            model.predict_pairs([(hour[:, None], temp[:, None])], [at[:, None]], 32)
        seconds = (time.process_time() - started) / TIMED
    return summarise(name, scores, questions) | {
        "cpu_seconds_an_answer": seconds,
        "cpu_seconds_of_all_at_once": cpu_seconds,
        "about": model.card.about,
    }


def score_rival(name: str, forecast: Forecast, questions: Sequence[Question]) -> dict[str, Any]:
    """One row of the record, for a method that predicts normal distributions."""
    started = time.process_time()
    answers = [forecast(hour, temp, at) for _, hour, temp, at, _ in questions]
    seconds = (time.process_time() - started) / len(questions)
    scores = []
    for (mean, std), (*_, truth) in zip(answers, questions, strict=True):
        z = (truth - mean) / std
        density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
        crps = std * (z * (2 * ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi))
        log_density = -(z**2) / 2 - np.log(std) - np.log(2 * np.pi) / 2
        scores.append([log_density, crps, np.abs(ndtr(z) - 0.5) <= 0.45, (mean - truth) ** 2])
    return summarise(name, scores, questions) | {"cpu_seconds_an_answer": seconds}


def summarise(name: str, scores: Sequence[Sequence[np.ndarray]], questions: Sequence[Question]) -> dict[str, Any]:
    """Means over all targets, with intervals bootstrapped over dates."""
    dates = sorted({date for date, *_ in questions})
    position = {date: number for number, date in enumerate(dates)}
    sums, counts = np.zeros((4, len(dates))), np.zeros(len(dates))
    for values, (date, *_) in zip(scores, questions, strict=True):
        sums[:, position[date]] += [np.sum(value) for value in values]
        counts[position[date]] += len(np.ravel(values[0]))
    drawn = np.random.default_rng(0).integers(0, len(dates), (2_000, len(dates)))
    means = sums[:, drawn].sum(axis=-1) / counts[drawn].sum(axis=-1)
    row: dict[str, Any] = {"method": name}
    for metric, total, replicates in zip(("log_likelihood", "crps", "coverage_90", "squared_error"), sums, means, strict=True):
        low, high = np.quantile(replicates, [0.025, 0.975])
        row[metric] = {"mean": float(total.sum() / counts.sum()), "low": float(low), "high": float(high)}
    return row


def score_maxima(method: str, sample: SampleDay, questions: Sequence[Question]) -> dict[str, Any]:
    """At nine in the morning: how good is the posterior of the day's highest reading, and of its hour?"""
    rows = []
    for _, hour, temp, at, truth in (question for question in questions if question[3][0] == MORNING):
        warmest, when = day_maximum(sample, hour, temp, at)
        everything, hours = np.concatenate([temp, truth]), np.concatenate([hour, at])
        (low, high), (early, late) = warmest.interval(0.9), when.interval(0.9)
        highest = everything.max()
        in_time = early <= hours[np.argmax(everything)] <= late
        rows.append([low <= highest <= high, in_time, high - low, abs(warmest.mean - highest)])
    names = ("maximum_coverage_90", "hour_coverage_90", "width", "mean_absolute_error")
    means, errors = np.mean(rows, axis=0), np.std(rows, axis=0) / np.sqrt(len(rows))
    return {"method": method, "days": len(rows)} | {
        name: {"mean": float(mean), "standard_error": float(error)}
        for name, mean, error in zip(names, means, errors, strict=True)
    }


def tabulate_maxima(maxima: Sequence[dict[str, Any]]) -> str:
    """A Markdown table of the coverage of the maximum's posterior."""
    header = [
        "method",
        "90% interval holds the maximum",
        "its width, °F",
        "90% interval holds its hour",
        "error of the mean, °F",
    ]
    rows = []
    for row in maxima:
        shares = [
            f"{row[name]['mean']:.1%} ± {row[name]['standard_error']:.1%}"
            for name in ("maximum_coverage_90", "hour_coverage_90")
        ]
        rows.append(
            [row["method"], shares[0], f"{row['width']['mean']:.1f}", shares[1], f"{row['mean_absolute_error']['mean']:.2f}"]
        )
    return markdown(header, rows)


def continue_day(model: FittedModel, hour: np.ndarray, temp: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Possible readings of the rest of the day, by predictive resampling."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # unusual mornings count like any other here
        posterior = model.condition(hour[:, None], temp[:, None])
    return posterior.sample(at[:, None], NUM_DRAWS, noise=True)


def day_maximum(sample: SampleDay, hour: np.ndarray, temp: np.ndarray, at: np.ndarray) -> tuple[Draws, Draws]:
    """The posterior of the day's highest reading and of its hour, with what the morning already showed."""
    rest = sample(hour, temp, at)
    days = np.hstack([np.broadcast_to(temp, (len(rest), len(temp))), rest])
    return Draws(days.max(axis=1)), Draws(np.concatenate([hour, at])[np.argmax(days, axis=1)])


def draw(model: FittedModel, questions: Sequence[Question]) -> None:
    """Three test days: forecast at nine, actual temperatures, and posterior of the maximum."""
    mornings = [question for question in questions if question[3][0] == MORNING]
    chosen = [mornings[number] for number in np.linspace(0, len(mornings) - 1, 5).astype(int)[1:4]]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(11, 5.2), layout="constrained")
        axes = figure.subplots(2, 3, height_ratios=[2, 1])
        for (top, bottom), (date, hour, temp, at, truth) in zip(axes.T, chosen, strict=True):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.condition(hour[:, None], temp[:, None]).plot(np.arange(24.0)[:, None], ax=top)
            top.plot(at, truth, "o", mfc="white", mec="black", ms=4, label="what came")
            top.set_title(date)
            warmest, when = day_maximum(functools.partial(continue_day, model), hour, temp, at)
            bottom.hist(warmest.values, bins=24, color=BAND)
            bottom.axvline(max(temp.max(), truth.max()), color="black", label="what came")
            low, high = when.interval(0.9)
            bottom.set(xlabel=f"highest of the day; at {low:.0f} to {high:.0f} o'clock (90%)", yticks=[])
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    save_figure(figure, RESULTS / "forecasts.png")


def tabulate(rows: Sequence[dict[str, Any]]) -> str:
    """A Markdown table of the record."""
    lines = [
        "| method | log-likelihood | CRPS, °F | RMSE, °F | 90% band covers | CPU-ms per prediction |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        coverage = row["coverage_90"]
        lines.append(
            f"| {row['method']} | {row['log_likelihood']['mean']:.3f} | {row['crps']['mean']:.3f} | "
            f"{row['squared_error']['mean'] ** 0.5:.2f} | "
            f"{coverage['mean']:.1%} ({coverage['low']:.1%} to {coverage['high']:.1%}) | "
            f"{1e3 * row['cpu_seconds_an_answer']:.1f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
