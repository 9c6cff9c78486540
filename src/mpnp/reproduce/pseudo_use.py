"""Is the generated context used? Scores with a task's own pseudo contexts, with another task's, and with none."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer, PRNGKeyArray

from mpnp.errors import InputError
from mpnp.models.contract import AbstractNeuralProcess
from mpnp.models.martingale import MartingaleNP
from mpnp.networks.predictive import Predictive
from mpnp.pieces import piece_size
from mpnp.tasks.sources import TaskSource
from mpnp.tasks.task import PointSet, Task, masked_mean

__all__ = ["SPREAD_COUNTS", "TREATMENTS", "score_treatments", "spread_of_draws"]

SPREAD_COUNTS = (1, 3, 10, 30, 100)
"""Numbers of pseudo points at which the spread of the draws is measured."""

CHUNK = 64
"""Tasks in one call; a task borrows its neighbour's context."""

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
    """Target log-likelihood of each task under each treatment, with the same draws of noise."""
    martingale = _require_martingale(model)

    def score(model: MartingaleNP, task: Task, other: PointSet, key: PRNGKeyArray) -> dict[str, Float[Array, ""]]:
        noise = model.draw_noise(task.context, num_samples, key=key)
        return {
            name: masked_mean(treat(model, task, other, noise).log_prob(task.y), task.target_mask)
            for name, treat in TREATMENTS.items()
        }

    found = _by_chunks(martingale, source, num_tasks, num_samples, score)
    return {name: found[name] for name in TREATMENTS}  # JAX hands dictionaries back in the order of the alphabet


def spread_of_draws(model: AbstractNeuralProcess, source: TaskSource, num_tasks: int, num_samples: int) -> list[dict[str, Any]]:
    """How far the drawn functions lie apart at the targets, and the score, for other numbers of pseudo points."""
    martingale = _require_martingale(model)

    def measure(model: MartingaleNP, task: Task, other: PointSet, key: PRNGKeyArray) -> dict[str, Float[Array, ""]]:
        predictive = model.predict(task.context, task.x, key=key, num_samples=num_samples)
        return {
            "between_std": masked_mean(predictive.between_std.mean(axis=-1), task.target_mask),
            "within_std": masked_mean(predictive.within_std.mean(axis=-1), task.target_mask),
            "target": masked_mean(predictive.log_prob(task.y), task.target_mask),
        }

    rows = []
    for number in SPREAD_COUNTS:
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
    """Whole chunks of tasks, the last one cut."""

    @eqx.filter_jit
    def score_chunk(
        model: MartingaleNP, source: TaskSource, indices: Integer[Array, " chunk"]
    ) -> dict[str, Float[Array, " chunk"]]:
        tasks, keys = source.batch(indices), jax.vmap(source.noise_key)(indices)
        others = jax.tree.map(lambda leaf: jnp.roll(leaf, 1, axis=0), jax.vmap(lambda task: task.context)(tasks))
        size = piece_size(model, len(indices), tasks.context_mask.shape[-1], num_samples)
        return jax.lax.map(lambda parts: score(model, *parts), (tasks, others, keys), batch_size=size)

    starts = range(0, num_tasks, CHUNK)
    chunks = [jax.device_get(score_chunk(model, source, jnp.arange(CHUNK, dtype=jnp.uint32) + start)) for start in starts]
    return {name: np.concatenate([chunk[name] for chunk in chunks])[:num_tasks] for name in chunks[0]}


def _require_martingale(model: AbstractNeuralProcess) -> MartingaleNP:
    if not isinstance(model, MartingaleNP):
        raise InputError("only a model that generates representations, mpnp or mpanp, can borrow those of another task")
    return model
