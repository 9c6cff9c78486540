"""Forecast the rest of a day's temperatures from its morning, against honest rivals, on dates never seen.

    python benchmarks/weather.py            fit what is missing, score everything, write results/weather

Every method is shown the readings of a day before some hour and forecasts the remaining ones. All learn from the same
training dates; nothing is chosen on test dates.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import minimize
from scipy.special import ndtr
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from mpnp.data.curves import Columns, Curves
from mpnp.data.frames import curves_from_frame, read_table
from mpnp.data.split import split_curves
from mpnp.fit_options import FitOptions
from mpnp.fitted import FittedModel, load
from mpnp.fitting import fit_curves, has_unfinished_fit, resume_fit
from mpnp.pictures import BAND, STYLE, save_figure
from mpnp.posterior import Draws
from mpnp.posterior_plot import draw_posterior
from mpnp.records import environment, write_atomically, write_json
from mpnp.reproduce.render import markdown

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "weather"
DATA = ROOT / "examples" / "nyc-weather" / "weather.csv.gz"
COLUMNS = Columns(("hour",), ("temp",), "station_day", "date")
CUTS = (3, 6, 9, 12, 15, 18)
VALIDATION, TEST, SEED = 0.15, 0.25, 0
MODELS = ("mpanp", "canp")
TIMED = 200
"""Questions that are asked one after the other, to time them."""

MORNING = 9
"""The hour at which the maximum of the day is asked for."""

Normal = tuple[np.ndarray, np.ndarray]
"""Mean and standard deviation at each target."""

Forecast = Callable[[np.ndarray, np.ndarray, np.ndarray], Normal]
"""From the hours and temperatures of a morning, and the hours to forecast."""


def main() -> None:
    """Fit, score, tabulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-minutes", type=float, default=8.0, help="training time of each of our models")
    parser.add_argument("--models", type=Path, default=Path("runs/weather"), help="where fitted models live")
    options = parser.parse_args()
    curves = curves_from_frame(read_table(DATA), COLUMNS)
    parts = split_curves(curves, validation=VALIDATION, test=TEST, seed=SEED)
    questions = cut_days(parts["test"])
    models = {name: fit_or_load(name, curves, options.models / name, options.max_minutes) for name in MODELS}
    rows = [score_ours(model, name, questions) for name, model in models.items()]
    climate = Climatology(parts["train"])
    rivals: dict[str, Forecast] = {
        "GP fitted to each morning": fitted_gaussian_process,
        "GP learnt on training days": LearntGaussianProcess(climate, parts["train"]),
        "normal with the training days' covariance": Covariance(climate, parts["train"]),
        "damped-anomaly persistence": Persistence(climate, parts["train"]),
        "hour-of-day climatology": climate,
    }
    rows += [score_rival(name, forecast, questions) for name, forecast in rivals.items()]
    counts = {name: len(part) for name, part in parts.items()}
    protocol = {
        "cuts": CUTS,
        "days": counts,
        "dates": {n: len(set(p.groups)) for n, p in parts.items()},
        "questions": len(questions),
    }
    maxima = score_maxima(models["mpanp"], questions)
    record = {"kind": "weather", "protocol": protocol, "rows": rows, "maxima": maxima, "environment": environment()}
    write_json(RESULTS / "scores.json", record)
    draw(models["mpanp"], questions)
    write_atomically(RESULTS / "table.md", lambda file: file.write(tabulate(rows).encode()))
    write_atomically(RESULTS / "maxima.md", lambda file: file.write(tabulate_maxima(maxima).encode()))
    print(tabulate(rows))


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


def fit_or_load(name: str, curves: Curves, directory: Path, max_minutes: float) -> FittedModel:
    """Our model, fitted within the time; one that is there already must have been fitted to the same split."""
    if has_unfinished_fit(directory):
        return resume_fit(directory)
    if not (directory / "card.json").exists():
        choices = FitOptions(name, "prefix", max_minutes, validation=VALIDATION, test=TEST, seed=SEED)
        return fit_curves(curves, choices, out=directory)
    model = load(directory)
    parts = split_curves(curves, validation=VALIDATION, test=TEST, seed=SEED)
    wanted = ({part: len(some) for part, some in parts.items()}, SEED, "prefix", name)
    if (*(model.card.about[key] for key in ("tasks", "seed", "context")), model.card.model) != wanted:
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
    # The time of one answer, one question after the other, from the user's units and back; once before, to compile.
    for _ in range(2):
        started = time.process_time()
        for _, hour, temp, at, _ in questions[:TIMED]:
            model.predict_pairs([(hour[:, None], temp[:, None])], [at[:, None]], 32)
        seconds = (time.process_time() - started) / TIMED
    return summarise(name.upper(), scores, questions) | {
        "cpu_seconds_an_answer": seconds,
        "cpu_seconds_of_all_at_once": cpu_seconds,
        "about": model.card.about,
    }


def score_rival(name: str, forecast: Forecast, questions: Sequence[Question]) -> dict[str, Any]:
    """One row of the record, of a method that answers with a normal distribution."""
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
    """Means over all targets, each with an interval from drawing dates anew."""
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


def score_maxima(model: FittedModel, questions: Sequence[Question]) -> dict[str, float]:
    """At nine in the morning: how good is the posterior of the day's highest reading, and of its hour?"""
    inside, inside_hour, error = [], [], []
    for _, hour, temp, at, truth in (question for question in questions if question[3][0] == MORNING):
        warmest, when = day_maximum(model, hour, temp, at)
        everything, hours = np.concatenate([temp, truth]), np.concatenate([hour, at])
        low, high = warmest.interval(0.9)
        inside.append(low <= everything.max() <= high)
        low, high = when.interval(0.9)
        inside_hour.append(low <= hours[np.argmax(everything)] <= high)
        error.append(abs(warmest.mean - everything.max()))
    return {
        "days": len(error),
        "maximum_inside_90": float(np.mean(inside)),
        "hour_inside_90": float(np.mean(inside_hour)),
        "mean_absolute_error": float(np.mean(error)),
    }


def tabulate_maxima(maxima: dict[str, float]) -> str:
    """How often the posterior of the maximum was right, as people read it."""
    header = ["days", "90% interval holds the maximum", "90% interval holds its hour", "error of the maximum, °F"]
    shares = [f"{maxima[name]:.1%}" for name in ("maximum_inside_90", "hour_inside_90")]
    return markdown(header, [[f"{maxima['days']}", *shares, f"{maxima['mean_absolute_error']:.2f}"]])


def day_maximum(model: FittedModel, hour: np.ndarray, temp: np.ndarray, at: np.ndarray) -> tuple[Draws, Draws]:
    """The posterior of the day's highest reading and of its hour, with what the morning already showed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an odd morning counts as much as any other here
        posterior = model.condition(hour[:, None], temp[:, None])

    def highest(rest: np.ndarray) -> list[float]:
        day = np.concatenate([temp, rest])
        return [day.max(), np.concatenate([hour, at])[np.argmax(day)]]

    draws = posterior.functional(highest, at[:, None], noise=True).values
    return Draws(draws[:, 0]), Draws(draws[:, 1])


def draw(model: FittedModel, questions: Sequence[Question]) -> None:
    """Three days of the test: forecast at nine, what came, and the posterior of the maximum."""
    mornings = [question for question in questions if question[3][0] == MORNING]
    chosen = [mornings[number] for number in np.linspace(0, len(mornings) - 1, 5).astype(int)[1:4]]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(11, 5.2), layout="constrained")
        axes = figure.subplots(2, 3, height_ratios=[2, 1])
        for (top, bottom), (date, hour, temp, at, truth) in zip(axes.T, chosen, strict=True):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                draw_posterior(model.condition(hour[:, None], temp[:, None]), np.arange(24.0)[:, None], ax=top)
            top.plot(at, truth, "o", mfc="white", mec="black", ms=4, label="what came")
            top.set_title(date)
            warmest, when = day_maximum(model, hour, temp, at)
            bottom.hist(warmest.values, bins=24, color=BAND)
            bottom.axvline(max(temp.max(), truth.max()), color="black", label="what came")
            low, high = when.interval(0.9)
            bottom.set(xlabel=f"highest of the day; at {low:.0f} to {high:.0f} o'clock (90%)", yticks=[])
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    save_figure(figure, RESULTS / "forecasts.png")


class Climatology:
    """Mean and standard deviation of each hour of the day over the training days."""

    def __init__(self, curves: Curves) -> None:
        hour, temp = curves.x[:, 0].astype(int), curves.y[:, 0]
        self.mean, self.std = (np.array([fn(temp[hour == h]) for h in range(24)]) for fn in (np.mean, np.std))

    def __call__(self, hour: np.ndarray, temp: np.ndarray, at: np.ndarray) -> Normal:
        return self.mean[at.astype(int)], self.std[at.astype(int)]


class Persistence:
    """The last anomaly, damped by lead time; damping and spread are learnt for each lead on the training days."""

    def __init__(self, climate: Climatology, curves: Curves) -> None:
        self.climate = climate
        pairs: dict[int, list[tuple[float, float]]] = {lead: [] for lead in range(1, 24)}
        for number in range(len(curves)):
            hour, temp = (values[:, 0] for values in curves.pair(number))
            anomaly = temp - climate.mean[hour.astype(int)]
            for h, a in zip(hour, anomaly, strict=True):
                for other, b in zip(hour, anomaly, strict=True):
                    if other > h:
                        pairs[int(other - h)].append((a, b))
        self.damping, self.spread = np.ones(24), np.ones(24)
        for lead, values in pairs.items():
            before, after = np.asarray(values).T
            self.damping[lead] = (before @ after) / (before @ before)
            self.spread[lead] = np.std(after - self.damping[lead] * before)

    def __call__(self, hour: np.ndarray, temp: np.ndarray, at: np.ndarray) -> Normal:
        lead = (at - hour[-1]).astype(int)
        anomaly = temp[-1] - self.climate.mean[int(hour[-1])]
        return self.climate.mean[at.astype(int)] + self.damping[lead] * anomaly, self.spread[lead]


class Covariance:
    """Mean and full covariance of the hours of a day over the training days, conditioned on the morning."""

    def __init__(self, climate: Climatology, curves: Curves) -> None:
        self.climate = climate
        days = np.full((len(curves), 24), np.nan)
        for number, day in enumerate(days):
            hour, temp = (values[:, 0] for values in curves.pair(number))
            day[hour.astype(int)] = temp - climate.mean[hour.astype(int)]
        known = ~np.isnan(days)
        filled = np.nan_to_num(days)
        covariance = filled.T @ filled / (known.T.astype(float) @ known)
        weights, vectors = np.linalg.eigh(covariance)
        self.matrix = vectors * np.maximum(weights, 1e-2) @ vectors.T

    def __call__(self, hour: np.ndarray, temp: np.ndarray, at: np.ndarray) -> Normal:
        hours, first = np.unique(hour.astype(int), return_index=True)
        asked = at.astype(int)
        gain = np.linalg.solve(self.matrix[np.ix_(hours, hours)], self.matrix[np.ix_(hours, asked)]).T
        variance = np.diag(self.matrix)[asked] - np.einsum("ij,ij->i", gain, self.matrix[np.ix_(asked, hours)])
        return self.climate.mean[asked] + gain @ (temp[first] - self.climate.mean[hours]), np.sqrt(variance)


class LearntGaussianProcess:
    """Hour-of-day mean plus a Gaussian process whose hyper-parameters maximise the likelihood of all training days."""

    def __init__(self, climate: Climatology, curves: Curves) -> None:
        self.climate = climate
        days = [(x[:, 0], y[:, 0] - climate.mean[x[:, 0].astype(int)]) for x, y in map(curves.pair, range(len(curves)))]

        def loss(log_parameters: np.ndarray) -> float:
            self.parameters = np.exp(log_parameters)
            total = 0.0
            for hour, anomaly in days:
                lower = np.linalg.cholesky(self.covariance(hour, hour) + self.parameters[3] ** 2 * np.eye(len(hour)))
                white = np.linalg.solve(lower, anomaly)
                total += white @ white / 2 + np.log(np.diag(lower)).sum()
            return total / len(days)

        best = minimize(loss, np.log([15.0, 5.0, 5.0, 0.5]), method="Nelder-Mead", options={"maxiter": 250, "xatol": 1e-2})
        self.parameters = np.exp(best.x)

    def covariance(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """A constant for the day, and a Matérn-3/2 process within it."""
        offset, amplitude, length, _ = self.parameters
        distance = np.sqrt(3) * np.abs(a[:, None] - b[None]) / length
        return offset**2 + amplitude**2 * (1 + distance) * np.exp(-distance)

    def __call__(self, hour: np.ndarray, temp: np.ndarray, at: np.ndarray) -> Normal:
        noise = self.parameters[3] ** 2
        anomaly = temp - self.climate.mean[hour.astype(int)]
        gain = np.linalg.solve(self.covariance(hour, hour) + noise * np.eye(len(hour)), self.covariance(hour, at)).T
        variance = np.diag(self.covariance(at, at)) - np.einsum("ij,ji->i", gain, self.covariance(hour, at)) + noise
        return self.climate.mean[at.astype(int)] + gain @ anomaly, np.sqrt(variance)


def fitted_gaussian_process(hour: np.ndarray, temp: np.ndarray, at: np.ndarray) -> Normal:
    """A Gaussian process fitted to this morning alone by maximum likelihood, as a user of scikit-learn would."""
    kernel = ConstantKernel(1.0) * Matern(length_scale=5.0, nu=1.5) + ConstantKernel(1.0) * RBF(10.0) + WhiteKernel(0.1)
    process = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        process.fit(hour[:, None], temp)
    mean, std = process.predict(at[:, None], return_std=True)
    return mean, np.maximum(std, 1e-3)


def tabulate(rows: Sequence[dict[str, Any]]) -> str:
    """The record as people read it."""
    lines = [
        "| method | log-likelihood | CRPS, °F | RMSE, °F | 90% band covers | CPU-ms an answer |",
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
