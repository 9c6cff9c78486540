"""Study of how trained models use their pseudo contexts: records, tables and a figure."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from jaxtyping import Array, Float, Integer, PRNGKeyArray
from matplotlib.figure import Figure

from mpnp.errors import InputError, RunError
from mpnp.evaluation.metrics import summarise
from mpnp.io.files import environment, read_json, write_json
from mpnp.models.base import AbstractNeuralProcess
from mpnp.models.martingale import MartingaleNP
from mpnp.models.microbatch import microbatch_size
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.plotting.style import LOG_STYLE
from mpnp.reproduce.campaign import Campaign
from mpnp.reproduce.figures import save_figures
from mpnp.reproduce.rows import ExperimentRow
from mpnp.reproduce.statistics import paired_bootstrap
from mpnp.reproduce.tables import NOT_RUN, Table, save_tables
from mpnp.tasks.base import TEST_SEED, TaskSource, fixed_tasks
from mpnp.tasks.registry import find_problem
from mpnp.tasks.task import PointSet, Task, masked_mean
from mpnp.training.rundir import load_model

__all__ = [
    "TREATMENTS",
    "measure_pseudo_use",
    "num_pseudo_table",
    "pseudo_figure",
    "pseudo_table",
    "score_treatments",
    "spread_of_draws",
    "unmeasured",
]


def measure_pseudo_use(campaign: Campaign, rows: Sequence[ExperimentRow]) -> None:
    """Measure each trained model and write its record. Models with a record are skipped."""
    for row in unmeasured(campaign, rows):
        for directory in campaign.trained([row]).values():
            write_json(_path(campaign, row), _record(campaign, row, directory))


def unmeasured(campaign: Campaign, rows: Sequence[ExperimentRow]) -> list[ExperimentRow]:
    """Rows without a record."""
    return [row for row in rows if not _path(campaign, row).exists()]


def pseudo_table(campaign: Campaign, rows: Sequence[ExperimentRow]) -> list[Path]:
    """Target scores under each treatment, and their difference to the scores with own pseudo contexts."""
    own = next(iter(TREATMENTS))
    cells = []
    for row, record in _records(campaign, rows).items():
        for name, treatment in record["treatments"].items():
            score, lost = treatment["target"], treatment["minus_own"]
            interval = "" if name == own else f"{lost['low']:+.4f} to {lost['high']:+.4f}"
            difference = "" if name == own else f"{lost['mean']:+.4f}"
            cells.append([row.model, name, f"{score['mean']:.3f} ± {score['standard_error']:.3f}", difference, interval])
    caption = (
        f"What pseudo contexts do, budget '{campaign.budget.name}': target log-likelihood on {campaign.budget.num_studied:,} "
        "test tasks, ± standard error over tasks; differences to a task's own pseudo contexts with 95% paired bootstrap "
        "intervals."
    )
    header = ["model", "read beside the context", "target", "minus own", "95% interval"]
    return save_tables(campaign, "pseudo-use", [Table("pseudo-use", caption, header, cells)]) if cells else []


def num_pseudo_table(campaign: Campaign, rows: Sequence[ExperimentRow]) -> list[Path]:
    """Validation and test scores of models trained with different numbers of pseudo points."""
    table = []
    for row in rows:
        cells = [str(row.settings.num_pseudo)]
        if records := campaign.records(row):
            best = [max((entry for entry in record.curve if entry["task"] is not None), key=_task_score) for record in records]
            cells += [f"{np.mean([entry[name] for entry in best]):.3f}" for name in ("target", "task")]
            cells += [f"{np.mean([record.mean(name) for record in records]):.3f}" for name in ("target", "task")]
            cells.append(f"{np.mean([record.score['training']['cpu_seconds'] for record in records]):,.0f}")
        else:
            cells += [NOT_RUN, *[""] * 4]
        table.append(cells)
    recipe = campaign.effort(rows[0]).recipe
    caption = (
        f"MPNP trained on RBF with different numbers of pseudo points, budget '{campaign.budget.name}', {recipe.steps:,} "
        f"steps of {recipe.batch_size} tasks: log-likelihoods per point at the best validation, and in the test."
    )
    header = ["pseudo points", "validation target", "validation task", "test target", "test task", "CPU-s"]
    return save_tables(campaign, "num-pseudo", [Table("num-pseudo", caption, header, table)])


def _task_score(entry: dict[str, Any]) -> float:
    return entry["task"]


def pseudo_figure(campaign: Campaign, rows: Sequence[ExperimentRow]) -> list[Path]:
    """Spread of the function samples, and score, against the number of pseudo points."""
    records = _records(campaign, rows)
    if not records:
        return []
    with matplotlib.rc_context(LOG_STYLE):
        figure = Figure(figsize=(8.5, 3.2), layout="constrained")
        spread_axes, score_axes = figure.subplots(1, 2)
        for row, record in records.items():
            counts, between, target = (
                [entry[name] for entry in record["spread"]] for name in ("num_pseudo", "between_std", "target")
            )
            spread_axes.plot(counts, between, marker="o", ms=4, label=row.model)
            score_axes.plot(counts, target, marker="o", ms=4, label=row.model)
        for ax, title in ((spread_axes, "spread of the draws at targets"), (score_axes, "target log-likelihood")):
            ax.set(title=title, xlabel="pseudo points at test time", xscale="log")
            ax.axvline(campaign.budget.settings.num_pseudo, color="k", lw=0.8, ls=":", label="in training")
        spread_axes.set(yscale="log")
        spread_axes.legend()
    return save_figures(campaign, {"pseudo-use": figure})


def _record(campaign: Campaign, row: ExperimentRow, directory: Path) -> dict[str, Any]:
    model, config, _ = load_model(directory)
    budget, source = campaign.budget, fixed_tasks(find_problem(row.tested_on).test, TEST_SEED)
    num_tasks = budget.num_studied
    num_samples = campaign.effort(row).num_samples
    scores = score_treatments(model, source, num_tasks, num_samples)
    own = scores[next(iter(TREATMENTS))]
    lost = np.stack([(values - own).astype(np.float64) for values in scores.values()], axis=1)
    summary = summarise(scores)
    treatments = {
        name: {"target": summary[name], "minus_own": {"mean": float(column.mean()), "low": low, "high": high}}
        for name, column, (low, high) in zip(scores, lost.T, paired_bootstrap(lost, budget.num_resamples), strict=True)
    }
    return {
        "kind": "pseudo-use",
        "budget": budget.name,
        "config": config.to_json(),
        "num_tasks": num_tasks,
        "num_samples": num_samples,
        "treatments": treatments,
        "spread": spread_of_draws(model, source, num_tasks, num_samples, counts=budget.spread_counts),
        "environment": environment(),
    }


def _records(campaign: Campaign, rows: Sequence[ExperimentRow]) -> dict[ExperimentRow, dict[str, Any]]:
    records = {row: read_json(path) for row in rows if (path := _path(campaign, row)).exists()}
    for row, record in records.items():
        run = campaign.run(row, 0)
        if run is None or not run.agrees_with(record["config"]) or record["num_tasks"] != campaign.budget.num_studied:
            raise RunError(
                f"{_path(campaign, row)} was made with another recipe than the budget '{campaign.budget.name}' now has; "
                "delete it, or choose another --out"
            )
    return records


def _path(campaign: Campaign, row: ExperimentRow) -> Path:
    return campaign.folder / "pseudo-use" / f"{row.model}-{row.tested_on}.json"


CHUNK = 64
"""Tasks per call. With the borrowed treatment, a task uses its neighbour's context."""

Treat = Callable[[MartingaleNP, Task, PointSet, Float[Array, "sample pseudo token_dim"]], Predictive]


def _own(model: MartingaleNP, task: Task, other: PointSet, noise: Float[Array, "sample pseudo token_dim"]) -> Predictive:
    return model.predict_given(task.context, task.x, noise)


def _borrowed(model: MartingaleNP, task: Task, other: PointSet, noise: Float[Array, "sample pseudo token_dim"]) -> Predictive:
    pseudo = model.generate(model.backbone.embed(other), noise)
    return model.decode(task.x, model.backbone.embed(task.context), pseudo)


def _none(model: MartingaleNP, task: Task, other: PointSet, noise: Float[Array, "sample pseudo token_dim"]) -> Predictive:
    return model.decode(task.x, model.backbone.embed(task.context))


def _alone(model: MartingaleNP, task: Task, other: PointSet, noise: Float[Array, "sample pseudo token_dim"]) -> Predictive:
    return model.predict_pseudo_only_given(task.context, task.x, noise)


TREATMENTS: dict[str, Treat] = {
    "own pseudo contexts": _own,
    "those of another task": _borrowed,
    "no pseudo context": _none,
    "pseudo contexts alone": _alone,
}


def score_treatments(
    model: AbstractNeuralProcess, source: TaskSource, num_tasks: int, num_samples: int
) -> dict[str, Float[np.ndarray, " task"]]:
    """Target log-likelihood of each task under each treatment, with the same noise."""
    martingale = _require_martingale(model)

    def score(model: MartingaleNP, task: Task, other: PointSet, key: PRNGKeyArray) -> dict[str, Float[Array, ""]]:
        noise = model.draw_noise(task.context, num_samples, key=key)
        return {
            name: masked_mean(treat(model, task, other, noise).log_prob(task.y), task.target_mask)
            for name, treat in TREATMENTS.items()
        }

    found = _by_chunks(martingale, source, num_tasks, num_samples, score)
    return {name: found[name] for name in TREATMENTS}  # JAX returns dictionaries in alphabetical order


def spread_of_draws(
    model: AbstractNeuralProcess, source: TaskSource, num_tasks: int, num_samples: int, *, counts: Sequence[int]
) -> list[dict[str, Any]]:
    """Spread of function samples at the targets, and target score, for several numbers of pseudo points."""
    martingale = _require_martingale(model)

    def measure(model: MartingaleNP, task: Task, other: PointSet, key: PRNGKeyArray) -> dict[str, Float[Array, ""]]:
        predictive = model.predict(task.context, task.x, key=key, num_samples=num_samples)
        return {
            "between_std": masked_mean(predictive.between_std.mean(axis=-1), task.target_mask),
            "within_std": masked_mean(predictive.within_std.mean(axis=-1), task.target_mask),
            "target": masked_mean(predictive.log_prob(task.y), task.target_mask),
        }

    rows = []
    for number in counts:
        changed = dataclasses.replace(martingale, num_pseudo=number)
        found = _by_chunks(changed, source, num_tasks, num_samples, measure)
        rows.append({"num_pseudo": number, **{name: float(values.mean()) for name, values in found.items()}})
    return rows


def _by_chunks(
    model: MartingaleNP,
    source: TaskSource,
    num_tasks: int,
    num_samples: int,
    score: Callable[[MartingaleNP, Task, PointSet, PRNGKeyArray], dict[str, Float[Array, ""]]],
) -> dict[str, Float[np.ndarray, " task"]]:
    """Score tasks in chunks of equal size; the surplus of the last chunk is dropped."""

    @eqx.filter_jit
    def score_chunk(
        model: MartingaleNP, source: TaskSource, indices: Integer[Array, " chunk"]
    ) -> dict[str, Float[Array, " chunk"]]:
        tasks, keys = source.batch(indices), jax.vmap(source.noise_key)(indices)
        others = jax.tree.map(lambda leaf: jnp.roll(leaf, 1, axis=0), jax.vmap(lambda task: task.context)(tasks))
        size = microbatch_size(model, len(indices), tasks.context_mask.shape[-1], num_samples)
        return jax.lax.map(lambda parts: score(model, *parts), (tasks, others, keys), batch_size=size)

    starts = range(0, num_tasks, CHUNK)
    chunks = [jax.device_get(score_chunk(model, source, jnp.arange(CHUNK, dtype=jnp.uint32) + start)) for start in starts]
    return {name: np.concatenate([chunk[name] for chunk in chunks])[:num_tasks] for name in chunks[0]}


def _require_martingale(model: AbstractNeuralProcess) -> MartingaleNP:
    if not isinstance(model, MartingaleNP):
        raise InputError("pseudo contexts of another task need a model that generates representations: mpnp or mpanp")
    return model
