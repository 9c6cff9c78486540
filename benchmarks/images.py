"""Image completion: the paper's second table and its figures, at a budget for two cores.

    python benchmarks/images.py --sets mnist              train what is missing, score, write results/images
    python benchmarks/images.py --sets svhn celeba        short runs of two models, to prove the path
    python benchmarks/images.py --draw-only               table and figures from what exists

Prepare the sets first: mpnp data mnist --from FOLDER. All models of a set see the same steps and tasks.
"""

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
from curves import finish
from measure import in_fresh_process, markdown, peak_gigabytes, seconds_each
from training_speed import training_step

from mpnp.completion import choose_pixels, complete, completion_figure
from mpnp.evaluate import evaluate_run
from mpnp.pictures import save_figure
from mpnp.recipes import RECIPES, Recipe
from mpnp.records import read_json, write_atomically, write_json
from mpnp.runs import RunConfig, RunDirectory, load_model
from mpnp.tasks.catalogue import find_problem
from mpnp.tasks.image_sets import image_shape

RESULTS = Path(__file__).parents[1] / "results" / "images"
ALL = ("cnp", "np", "bnp", "mpnp", "canp", "anp", "banp", "mpanp")
STEPS = {"mnist": 1_000, "svhn": 100, "celeba": 100}
BATCH_SIZE = 16
"""Small: at equal cost, many small steps of Muon learnt more than few large ones (CANP on validation digits)."""

MODELS = {"mnist": ALL, "svhn": ("canp", "mpanp"), "celeba": ("canp", "mpanp")}
NUM_TEST, NUM_SAMPLES = 1_000, 5
SHOWN = (78, 196)
"""Pixels of a digit shown in the figures: a tenth, and a quarter."""

PAPER = {
    "mnist": {
        "cnp": (0.878, 0.690, 0.706), "np": (0.797, 0.707, 0.714), "bnp": (0.859, 0.742, 0.752), "mpnp": (0.861, 0.747, 0.757),
        "canp": (0.871, 0.688, 0.685), "anp": (1.186, 0.744, 0.793), "banp": (1.329, 0.752, 0.819),
        "mpanp": (1.361, 0.798, 0.862),
    },
    "svhn": {"canp": (3.079, 3.386, 3.335), "mpanp": (4.117, 3.502, 3.544)},
    "celeba": {"canp": (2.695, 2.674, 2.642), "mpanp": (4.136, 2.833, 2.934)},
}  # fmt: skip
"""Context, target and task log-likelihood from the paper's table."""


def main() -> None:
    """Make the records that are missing, then the table and the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", default=list(STEPS), choices=list(STEPS), help="only these")
    parser.add_argument("--models", nargs="*", default=list(ALL), choices=ALL, help="only these")
    parser.add_argument("--runs", type=Path, default=Path("runs/images"), help="where the runs live")
    parser.add_argument("--draw-only", action="store_true", help="train and score nothing")
    parser.add_argument("--one", nargs=2, metavar=("SET", "MODEL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        name, model = options.one
        print(json.dumps(make_record(name, model, options.runs / name / model)))
        return
    for name in [] if options.draw_only else options.sets:
        for model in MODELS[name]:
            if model in options.models and not (RESULTS / f"{name}-{model}.json").exists():
                record = in_fresh_process(__file__, "--runs", str(options.runs), "--one", name, model)
                write_json(RESULTS / f"{name}-{model}.json", record)
    draw(options.runs)
    write_table()


def recipe_for(name: str) -> Recipe:
    """The fast recipe with the paper's K for images, and as many steps as two cores allow."""
    return dataclasses.replace(
        RECIPES["fast"],
        steps=STEPS[name],
        batch_size=BATCH_SIZE,
        num_samples=NUM_SAMPLES,
        validate_every=100,
        validation_tasks=256,
    )


def make_record(name: str, model: str, directory: Path) -> dict[str, Any]:
    """Train and score one model; the rates are those of compiled programs, without validation."""
    config = RunConfig(model, name, recipe=recipe_for(name))
    finish(config, directory)
    step = training_step(config)
    step()
    seconds = seconds_each(step)[0]
    return {
        "kind": "images",
        "score": evaluate_run(directory, num_tasks=NUM_TEST, num_samples=NUM_SAMPLES),
        "training_images_a_cpu_second": BATCH_SIZE / seconds,
        "peak_gigabytes": peak_gigabytes(),
    }


def draw(runs: Path) -> None:
    """Digits completed by the two martingale models, and by all models; only digits are shown, no faces."""
    models = {name: load_model(runs / "mnist" / name)[0] for name in ALL if RunDirectory(runs / "mnist" / name).best.exists()}
    if not models:
        return
    height, width, _ = shape = image_shape("mnist")
    digits = np.asarray(find_problem("mnist").test.pixels[:8]).reshape(8, *shape)
    for count in SHOWN:
        shown = choose_pixels(height, width, count, seed=0)
        rows = {name.upper(): complete(model, digits[0], shown, num_samples=NUM_SAMPLES) for name, model in models.items()}
        save_figure(completion_figure(rows), RESULTS / f"models-{count}.png")
    if "mpanp" in models:
        rows = {
            f"{(count := SHOWN[number % 2])} pixels": complete(
                models["mpanp"], digit, choose_pixels(height, width, count, seed=number), num_samples=NUM_SAMPLES
            )
            for number, digit in enumerate(digits[:2])
        }
        save_figure(completion_figure(rows), RESULTS / "mpanp.png")


def write_table() -> None:
    """Ours, the paper's in brackets, and the budget."""
    header = [
        "set",
        "model",
        "context",
        "target",
        "± s.e.",
        "task",
        f"steps of {BATCH_SIZE}",
        "CPU-s",
        "images a CPU-s",
        "peak GB",
    ]
    rows = []
    for name, models in MODELS.items():
        for model in models:
            if not (RESULTS / f"{name}-{model}.json").exists():
                continue
            record = read_json(RESULTS / f"{name}-{model}.json")
            score, training = record["score"]["scores"], record["score"]["training"]
            cells = [
                f"{score[metric]['mean']:.3f} ({paper:.3f})"
                for metric, paper in zip(("context", "target", "task"), PAPER[name][model], strict=True)
            ]
            cells.insert(2, f"{score['target']['standard_error']:.3f}")
            subset = ", subset" if record["score"]["data"].startswith("subset") else ""
            cost = [f"{training['recipe']['steps']:,}", f"{training['cpu_seconds']:,.0f}"]
            cost += [f"{record['training_images_a_cpu_second']:.1f}", f"{record['peak_gigabytes']:.2f}"]
            rows.append([name + subset, model, *cells, *cost])
    text = markdown(header, rows) + "\nIn brackets: the paper, which does not say how many steps of 128 images it took.\n"
    write_atomically(RESULTS / "table.md", lambda file: file.write(text.encode()))
    print(text)


if __name__ == "__main__":
    main()
