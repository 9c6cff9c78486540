"""How soon the page answers a click, and how large, quick to start and quick to answer exported models are.

    python benchmarks/explore_latency.py

Writes `results/explore`. Times are CPU milliseconds of one request after another, once programs are compiled,
with the same number of points each time, so that other work on the machine matters little. The record has wall times of the
server, too. A click asks for a band, then for functions. NumPy runs with one thread: its matrices are too small for several.
The page of exported models runs in Node.js, which has the engine of Chromium.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mpnp.explore.answers import Answers
from mpnp.explore.document import INTERPRETER, PARTS
from mpnp.explore.gallery import Gallery
from mpnp.explore.html import pack, write_html
from mpnp.explore.pictures import Pictures
from mpnp.export.folders import write_numpy
from mpnp.export.onnx_graphs import write_onnx
from mpnp.export.programs import export_model
from mpnp.inference.model import FittedModel, load
from mpnp.io.compile_cache import keep_compiled_programs
from mpnp.io.files import environment, write_atomically, write_json
from mpnp.reproduce.tables import markdown

OUT = Path(__file__).parents[1] / "results" / "explore"
MODELS = ("cnp-rbf", "mpnp-rbf", "canp-rbf-low", "mpanp-rbf-low", "tnp-rbf-low")
NUM_POINTS, NUM_DRAWS, NUM_TARGETS, CLICKS, SEED = 7, 8, 128, 9, 0

IN_NUMPY = """
import json, statistics, sys, time
import numpy as np
from predictor import Predictor

num_points, num_targets, num_draws, repeats = map(int, sys.argv[1:])
predictor = Predictor(".")
times = {"start": 1000 * time.process_time()}
x, targets = np.linspace(-1.8, 1.7, num_points), np.linspace(-2, 2, num_targets)

def median(ask):
    times = []
    for _ in range(repeats + 1):
        started = time.process_time()
        ask()
        times.append(1000 * (time.process_time() - started))
    return statistics.median(times[1:])

times["numpy_band"] = median(lambda: predictor.predict(x, np.sin(3 * x), targets))
times["numpy_draws"] = median(lambda: predictor.sample(x, np.sin(3 * x), targets, num_draws))
print(json.dumps(times))
"""

IN_PAGE = """
const { content, numPoints, numTargets, numDraws, repeats } = JSON.parse(require("fs").readFileSync(0));
const predictor = new Predictor(content.model, decodeWeights(content.index, content.weights));
const along = (low, high, count) => Array.from({ length: count }, (_, i) => low + ((high - low) * i) / (count - 1));
const points = along(-1.8, 1.7, numPoints).map((x) => ({ x, y: [Math.sin(3 * x)] })), targets = along(-2, 2, numTargets);
function median(ask) {
  const times = [];
  for (let i = 0; i <= repeats; i++) {
    const before = process.cpuUsage();
    ask();
    const { user, system } = process.cpuUsage(before);
    times.push((user + system) / 1000);
  }
  return times.slice(1).sort((a, b) => a - b)[Math.floor(repeats / 2)];
}
console.log(JSON.stringify({
  page_band: median(() => predictor.summary(predictor.functions(points, targets, 10, 0, 0), [0.05, 0.95])),
  page_draws: median(() => {
    for (let i = 0; i * DRAWS_AT_ONCE < numDraws; i++) predictor.resample(points, targets, null, 0, i, 0);
  }),
}));
"""

REPEATS = 5
PAGE_TARGETS = 96
"""Inputs at which the page of exported models draws."""


def main() -> None:
    """Measure every model, and write the record and its table."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    keep_compiled_programs()
    record = {"kind": "explore", "clicks": CLICKS, "points": NUM_POINTS, "draws": NUM_DRAWS, "seed": SEED}
    record |= {"rows": [measure(name) for name in MODELS], "image": measure_image(), "environment": environment()}
    write_json(OUT / "latency.json", record)
    titles = {
        "server: band, CPU-ms": "band", "functions, ms": "draws", "exact process, ms": "exact",
        "NumPy: start of Python and model, ms": "start", "band, ms": "numpy_band", "functions, ms ": "numpy_draws",
        "HTML: band, ms": "page_band", "functions, ms  ": "page_draws",
        "NumPy, MB": "numpy_mb", "ONNX, MB": "onnx_mb", "HTML, MB": "html_mb",
    }  # fmt: skip
    digits = {name: 2 if name.endswith("mb") else 0 for name in titles.values()}
    rows = [[f"`{row['model']}`", *(f"{in_table(row[name]):.{digits[name]}f}" for name in digits)] for row in record["rows"]]
    note = (
        f"Medians of {CLICKS} clicks with {NUM_POINTS} points, {NUM_TARGETS} inputs and {NUM_DRAWS} resampled functions. The "
        f"page of images (`mpanp-mnist`, 80 pixels, 4 draws) takes {record['image']['cpu']:.0f} CPU-ms."
    )
    text = f"{markdown(['model', *titles], rows)}\n{note}\n"
    write_atomically(OUT / "table.md", lambda file: file.write(text.encode()))
    print(text)


def in_table(value: float | dict[str, float]) -> float:
    """Of a time, the CPU time."""
    return value["cpu"] if isinstance(value, dict) else value


def measure(name: str) -> dict[str, Any]:
    """Times in milliseconds and sizes in megabytes of one model."""
    model = load(name)
    answers, rng = Answers(Gallery({name: model})), np.random.default_rng(SEED)

    def click(part: str) -> None:
        x = rng.uniform(-2, 2, NUM_POINTS)
        content = {"model": name, "part": part, "x": x.tolist(), "y": np.sin(3 * x)[:, None].tolist(), "output": 0, "seed": 0}
        answers(content | {"grid": [-2, 2, NUM_TARGETS], "band": 0.9, "draws": NUM_DRAWS, "method": "resample"})

    row = {"model": name} | {part: median(lambda part=part: click(part)) for part in ("band", "draws", "exact")}
    with tempfile.TemporaryDirectory() as folder:
        return row | measure_exports(model, Path(folder))


def measure_exports(model: FittedModel, folder: Path) -> dict[str, Any]:
    """Sizes of all formats, and times of those that this package runs."""
    writers = {"numpy": write_numpy, "onnx": write_onnx, "html": write_html}
    files = {name: write({"model": model}, folder / name) for name, write in writers.items()}
    sizes = {f"{name}_mb": sum(path.stat().st_size for path in paths) / 1e6 for name, paths in files.items()}
    return sizes | measure_numpy(folder / "numpy") | measure_page(model)


def measure_numpy(folder: Path) -> dict[str, float]:
    """CPU milliseconds of the predictor in NumPy, by itself."""
    command = [sys.executable, "-c", IN_NUMPY, *map(str, (NUM_POINTS, NUM_TARGETS, NUM_DRAWS, REPEATS))]
    alone = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    return json.loads(subprocess.run(command, cwd=folder, env=alone, capture_output=True, check=True).stdout)


def measure_page(model: FittedModel) -> dict[str, float]:
    """CPU milliseconds of the interpreter of the page."""
    scripts = "\n".join((PARTS / name).read_text() for name in INTERPRETER)
    asked = {"numPoints": NUM_POINTS, "numTargets": PAGE_TARGETS, "numDraws": NUM_DRAWS, "repeats": REPEATS}
    content = json.dumps({"content": pack(export_model(model))} | asked)
    run = subprocess.run(["node", "-e", scripts + IN_PAGE], input=content, capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def measure_image() -> dict[str, float]:
    """Cost of an answer about an image."""
    pictures = Pictures.of({"digits": load("mpanp-mnist")})
    pixels = [[int(place), 0] for place in np.random.default_rng(SEED).permutation(784)[:80]]
    return median(lambda: pictures(json.loads(json.dumps({"model": "digits", "draws": 4, "pixels": pixels}))))


def median(ask: Callable[[], Any], repeats: int = CLICKS) -> dict[str, float]:
    """Median CPU and wall milliseconds of a call, after a first one that compiles."""
    ask()
    cpu, wall = [], []
    for _ in range(repeats):
        started = time.process_time(), time.perf_counter()
        ask()
        cpu.append(1000 * (time.process_time() - started[0]))
        wall.append(1000 * (time.perf_counter() - started[1]))
    return {"cpu": statistics.median(cpu), "wall": statistics.median(wall)}


if __name__ == "__main__":
    main()
