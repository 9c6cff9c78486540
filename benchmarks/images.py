"""Image completion: the paper's second table and its figures, at a budget for two cores.

    python benchmarks/images.py --sets mnist              train what is missing, score, write results/images
    python benchmarks/images.py --sets svhn celeba        short runs of two models, to show that they work
    python benchmarks/images.py --draw-only               table and figures from what exists

Prepare the sets first: mpnp data mnist --from FOLDER. All models of a set are trained on the same tasks for the same steps.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from measure import in_fresh_process, peak_gigabytes, seconds_each
from training_speed import training_step

from mpnp.io.files import read_json, write_atomically, write_json
from mpnp.plotting.style import save_figure
from mpnp.reproduce.budgets import HOURS
from mpnp.reproduce.completions import completion_figures
from mpnp.reproduce.model_groups import PAPER_MODELS
from mpnp.reproduce.paper import METRICS, paper_rows
from mpnp.reproduce.tables import markdown
from mpnp.training.config import RunConfig
from mpnp.training.evaluate import evaluate_run
from mpnp.training.loop import finish
from mpnp.training.rundir import RunDirectory, load_model

RESULTS = Path(__file__).parents[1] / "results" / "images"
EFFORTS = {name: HOURS.efforts[name] for name in ("mnist", "svhn", "celeba")}
MODELS = {"mnist": PAPER_MODELS, "svhn": ("canp", "mpanp"), "celeba": ("canp", "mpanp")}


def main() -> None:
    """Make the records that are missing, then the table and the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", default=list(EFFORTS), choices=list(EFFORTS), help="only these")
    parser.add_argument("--models", nargs="*", default=list(PAPER_MODELS), choices=PAPER_MODELS, help="only these")
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


def make_record(name: str, model: str, directory: Path) -> dict[str, Any]:
    """Train and score one model. Speeds exclude compilation and validation."""
    effort = EFFORTS[name]
    config = RunConfig(model, name, recipe=effort.recipe)
    finish(config, directory)
    step = training_step(config)
    step()
    seconds = seconds_each(step)[0]
    return {
        "kind": "images",
        "score": evaluate_run(directory, num_tasks=effort.num_test, num_samples=effort.num_samples),
        "training_images_a_cpu_second": effort.recipe.batch_size / seconds,
        "peak_gigabytes": peak_gigabytes(),
    }


def draw(runs: Path) -> None:
    """Digits completed by all models, and by the pretrained MPANP. Licences allow showing digits, but not faces."""
    models = {
        name: load_model(runs / "mnist" / name)[0] for name in PAPER_MODELS if RunDirectory(runs / "mnist" / name).best.exists()
    }
    num_samples = EFFORTS["mnist"].num_samples
    packaged = completion_figures("mnist", {"mpanp": load_model("mpanp-mnist")[0]}, num_samples)
    for name, figure in (completion_figures("mnist", models, num_samples) | {"mpanp": packaged["mpanp"]}).items():
        save_figure(figure, RESULTS / f"{name}.png")


def write_table() -> None:
    """Our scores, the paper's in brackets, and the budget."""
    header = [
        "set",
        "model",
        "context",
        "target",
        "± s.e.",
        "task",
        f"steps of {EFFORTS['mnist'].recipe.batch_size}",
        "CPU-s",
        "images per CPU-s",
        "peak GB",
    ]
    rows = []
    for name, models in MODELS.items():
        for model in models:
            if not (RESULTS / f"{name}-{model}.json").exists():
                continue
            record = read_json(RESULTS / f"{name}-{model}.json")
            score, training = record["score"]["scores"], record["score"]["training"]
            paper = paper_rows()["images", name, model].scores
            cells = [f"{score[metric]['mean']:.3f} ({paper[metric].mean:.3f})" for metric in METRICS]
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
