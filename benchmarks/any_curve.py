"""How well does the pretrained model `curves` read real curves, next to a Gaussian process fitted to each of them?

    python benchmarks/any_curve.py [--curves 60] [--model curves]

None of these curves was seen in training, which used the synthetic prior `curves` only. From each curve, half of the points
(at most 40) are the context: random ones, or the first ones. The rivals are scikit-learn's process with a learnt mean, scale,
length and noise, for three kernels of which the one with the highest marginal likelihood is taken. Written to
`results/any-curve`.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from own_data_sets import SETS
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared, Matern, WhiteKernel

from mpnp.inference.model import FittedModel, load
from mpnp.io.files import environment, write_atomically, write_json
from mpnp.reproduce.tables import markdown

RESULTS = Path(__file__).parents[1] / "results" / "any-curve"
NAMES = ("weather", "power", "spectra", "pigs", "sea")
"""Sets whose curves have enough points for half of them to be a context."""
SPLITS, MOST_CONTEXT, SEED, RESTARTS = ("random", "first"), 40, 0, 3


class Split(NamedTuple):
    """Context and targets of one curve."""

    x: np.ndarray
    y: np.ndarray
    x_target: np.ndarray
    y_target: np.ndarray


class Score(NamedTuple):
    """Means over the targets of one curve, and the time that the answer took."""

    log_prob: float
    crps: float
    coverage: float
    cpu_seconds: float


def main() -> None:
    """Score, record, tabulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--curves", type=int, default=60, help="curves of each set (default 60)")
    parser.add_argument("--model", default="curves")
    options = parser.parse_args()
    model, rows = load(options.model), []
    for name in NAMES:
        for split in SPLITS:
            splits = list(draw_splits(name, split, options.curves))
            answer(model, splits[0])  # compiles
            ours, theirs = (
                [scored(method, part) for part in splits] for method in (lambda part: answer(model, part), fit_process)
            )
            rows.append({"set": name, "split": split, "curves": len(splits)} | compare(ours, theirs))
            print(tabulate(rows[-1:]), flush=True)
    protocol = {"curves": options.curves, "most_context": MOST_CONTEXT, "seed": SEED, "restarts": RESTARTS}
    about = {"kind": "any-curve", "model": options.model, "protocol": protocol, "environment": environment()}
    write_json(RESULTS / "scores.json", {**about, "rows": rows})
    write_atomically(RESULTS / "table.md", lambda file: file.write(tabulate(rows).encode()))


def draw_splits(name: str, split: str, most: int) -> Iterator[Split]:
    """Some curves of a set, drawn and cut with a fixed seed."""
    curves, rng = SETS[name].curves(), np.random.default_rng(SEED)
    for number in rng.permutation(len(curves))[:most]:
        x, y = curves.pair(int(number))
        x, y = x[:, 0], y[:, 0]
        rows = rng.permutation(len(x)) if split == "random" else np.argsort(x)
        count = min(len(x) // 2, MOST_CONTEXT)
        yield Split(x[rows[:count]], y[rows[:count]], x[rows[count:]], y[rows[count:]])


Normal = tuple[np.ndarray, np.ndarray]
"""Mean and standard deviation at each target."""


def answer(model: FittedModel, part: Split) -> Normal:
    """The pretrained model, which is not fitted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # forecasts may lie outside the training range
        return model.condition(part.x, part.y).predict(part.x_target, return_std=True)


def fit_process(part: Split) -> Normal:
    """The process with the highest marginal likelihood of three kernels."""
    shift, scale = part.x.mean(), part.x.std() or 1.0
    x, x_target = ((values[:, None] - shift) / scale for values in (part.x, part.x_target))
    kernels = (RBF(), Matern(nu=1.5), RBF() + ConstantKernel() * ExpSineSquared())
    fits = []
    for kernel in kernels:
        process = GaussianProcessRegressor(
            ConstantKernel() * kernel + WhiteKernel(0.1), normalize_y=True, n_restarts_optimizer=RESTARTS, random_state=SEED
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fits.append(process.fit(x, part.y))
    best = max(fits, key=lambda fit: fit.log_marginal_likelihood_value_)
    return best.predict(x_target, return_std=True)


def scored(method: Callable[[Split], Normal], part: Split) -> Score:
    """The scores of a method on one curve."""
    start = time.process_time()
    mean, std = method(part)
    seconds = time.process_time() - start
    std = np.maximum(std, 1e-6 * (part.y.std() or 1.0))
    z = (part.y_target - mean) / std
    crps = std * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    return Score(norm.logpdf(part.y_target, mean, std).mean(), crps.mean(), np.mean(np.abs(z) < norm.ppf(0.95)), seconds)


def compare(ours: list[Score], theirs: list[Score]) -> dict[str, Any]:
    """Averages of both, and the share of curves on which the pretrained model is ahead."""
    here, there = np.array(ours), np.array(theirs)
    gains = here[:, 0] - there[:, 0]
    return {
        "log_prob_gain": gains.mean(),
        "log_prob_gain_median": float(np.median(gains)),
        "log_prob_gain_error": gains.std(ddof=1) / np.sqrt(len(gains)),
        "log_prob_wins": float(np.mean(gains > 0)),
        "crps_ratio": here[:, 1].mean() / there[:, 1].mean(),
        "crps_wins": float(np.mean(here[:, 1] < there[:, 1])),
        "coverage": here[:, 2].mean(),
        "coverage_process": there[:, 2].mean(),
        "milliseconds": 1e3 * float(np.median(here[:, 3])),
        "milliseconds_process": 1e3 * float(np.median(there[:, 3])),
    }


def tabulate(rows: list[dict[str, Any]]) -> str:
    """One row per set and split; gains and ratios are of `curves` over the process.

    The mean gain is left to the record: processes that fit noise-free curves are off by thousands of nats.
    """
    header = ["data", "context", "curves", "log-likelihood gained, median", "curves won", "CRPS, ratio", "curves won"]
    header += ["90% band covers", "the process's", "CPU-ms", "the process's"]
    return markdown(
        header,
        [
            [
                row["set"],
                row["split"],
                str(row["curves"]),
                f"{row['log_prob_gain_median']:+.2f}",
                f"{row['log_prob_wins']:.0%}",
                f"{row['crps_ratio']:.2f}",
                f"{row['crps_wins']:.0%}",
                f"{row['coverage']:.0%}",
                f"{row['coverage_process']:.0%}",
                f"{row['milliseconds']:.0f}",
                f"{row['milliseconds_process']:.0f}",
            ]
            for row in rows
        ],
    )


if __name__ == "__main__":
    main()
