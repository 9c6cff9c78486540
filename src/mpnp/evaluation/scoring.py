"""Score a model on a fixed set of tasks."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer, PRNGKeyArray

from mpnp.evaluation.metrics import score_task
from mpnp.models.base import AbstractNeuralProcess
from mpnp.models.microbatch import microbatch_size
from mpnp.tasks.base import TaskSource
from mpnp.tasks.task import Task

__all__ = ["Scorer", "make_scorer"]

CHUNK = 128
"""Tasks scored per call."""

Scorer = Callable[[AbstractNeuralProcess, int], dict[str, Float[np.ndarray, " task"]]]


def make_scorer(source: TaskSource, *, num_samples: int, chunk_size: int = CHUNK) -> Scorer:
    """A function that scores a model on the first `num_tasks` tasks and returns every metric of every task.

    Context, target and task scores share one prediction, and thus the same function samples.
    """

    @eqx.filter_jit
    def score_chunk(
        model: AbstractNeuralProcess, source: TaskSource, indices: Integer[Array, " chunk"]
    ) -> dict[str, Float[Array, " chunk"]]:
        tasks = source.batch(indices)
        keys = jax.vmap(source.noise_key)(indices)

        def score(numbered: tuple[Task, PRNGKeyArray]) -> dict[str, Float[Array, ""]]:
            task, key = numbered
            return score_task(model.predict(task.context, task.x, key=key, num_samples=num_samples), task)

        size = microbatch_size(model, len(indices), tasks.context_mask.shape[-1], num_samples)
        return jax.lax.map(score, (tasks, keys), batch_size=size)

    def score_tasks(model: AbstractNeuralProcess, num_tasks: int) -> dict[str, Float[np.ndarray, " task"]]:
        chunks = []
        for start in range(0, num_tasks, chunk_size):
            indices = np.arange(start, min(start + chunk_size, num_tasks), dtype=np.uint32)
            # Pad the last chunk with repeats, to avoid compiling for its size.
            filled = np.resize(indices, min(chunk_size, num_tasks))
            chunk = jax.device_get(score_chunk(model, source, jnp.asarray(filled)))
            chunks.append({name: values[: len(indices)] for name, values in chunk.items()})
        return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}

    return score_tasks
