"""One training loop for every model: Adam with cosine decay, validation, checkpoints, and a resume that changes no bit."""

import contextlib
import dataclasses
import json
import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Integer, PyTree
from tqdm import tqdm

from mpnp import checkpoint
from mpnp.errors import DivergedError
from mpnp.metrics import summarise
from mpnp.models.contract import AbstractNeuralProcess, LossTerms
from mpnp.records import environment
from mpnp.runs import RunConfig, RunDirectory, load_model
from mpnp.scoring import Scorer, make_scorer
from mpnp.tasks.sources import VALIDATION_SEED, TaskSource, fixed_tasks, training_indices

__all__ = ["TrainState", "make_step", "resume", "train"]

LOG_EVERY = 10
"""Steps between rows of the metrics log."""


class TrainState(eqx.Module):
    """The arrays that a run continues from. Random keys are not among them: they follow from the seed and the step."""

    model: AbstractNeuralProcess
    optimizer: PyTree


@dataclasses.dataclass(frozen=True)
class Progress:
    """Where a run stands; kept in the cards of its checkpoints."""

    step: int = 0
    best_score: float | None = None
    best_step: int = 0
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0


StepStats = dict[str, Float[Array, ""]]
Step = Callable[[TrainState, Integer[Array, " batch"], Integer[Array, ""]], tuple[TrainState, StepStats]]


def train(config: RunConfig, out: str | Path, *, quiet: bool = False) -> AbstractNeuralProcess:
    """Train a new model in the directory `out`, and return it at its best validation score.

    Ctrl-C or a request to terminate saves a checkpoint first, then raises `KeyboardInterrupt`; `resume` continues.
    """
    run = RunDirectory(Path(out))
    run.create(config)
    return _run(run, config, quiet)


def resume(out: str | Path, *, quiet: bool = False) -> AbstractNeuralProcess:
    """Continue the run in `out` from its last checkpoint, bit for bit as if it had never stopped."""
    run = RunDirectory(Path(out))
    return _run(run, run.config(), quiet)


def make_optimizer(config: RunConfig) -> optax.GradientTransformation:
    """Adam without weight decay, clipping or warm-up, as in the authors' code."""
    return optax.adam(optax.cosine_decay_schedule(config.recipe.learning_rate, config.recipe.steps))


def make_step(config: RunConfig) -> Step:
    """The compiled training step: draws its tasks on the device, then descends."""
    optimizer, recipe = make_optimizer(config), config.recipe
    _, data_key, noise_key = jax.random.split(jax.random.key(config.seed), 3)
    source = TaskSource(config.family, data_key)

    def batch_loss(
        model: AbstractNeuralProcess, indices: Integer[Array, " batch"], step: Integer[Array, ""]
    ) -> tuple[Float[Array, ""], LossTerms]:
        tasks = source.batch(indices)
        keys = jax.random.split(jax.random.fold_in(noise_key, step), recipe.batch_size)
        loss, terms = jax.vmap(lambda task, key: model.loss(task, key=key, num_samples=recipe.num_samples))(tasks, keys)
        return loss.mean(), jax.tree.map(jnp.mean, terms)

    @eqx.filter_jit
    def step(state: TrainState, indices: Integer[Array, " batch"], step: Integer[Array, ""]) -> tuple[TrainState, StepStats]:
        grad = eqx.filter_value_and_grad(batch_loss, has_aux=True)
        (loss, terms), gradient = grad(state.model, indices, step)
        updates, optimizer_state = optimizer.update(gradient, state.optimizer)
        model = eqx.apply_updates(state.model, updates)
        norms = {"gradient_norm": optax.tree.norm(gradient), "parameter_norm": optax.tree.norm(model)}
        return TrainState(model, optimizer_state), {"loss": loss, **terms, **norms}

    return step


def _run(run: RunDirectory, config: RunConfig, quiet: bool) -> AbstractNeuralProcess:
    model = config.build_model()
    state = TrainState(model, make_optimizer(config).init(eqx.filter(model, eqx.is_inexact_array)))
    progress = Progress()
    if run.last.exists():
        state, card = checkpoint.load(run.last, state)
        config.require_own(run.last, card)
        progress = Progress(**card["progress"])
        run.rewind_logs(progress.step)
    else:
        run.rewind_logs(-1)  # a run without a checkpoint starts over, its first validation included
    with tqdm(
        total=config.recipe.steps, initial=progress.step, desc=f"{config.model} on {config.task}", unit="step",
        disable=True if quiet else None,  # tqdm reads None as: show it if someone is watching a terminal
    ) as bar:  # fmt: skip
        _Loop(run, config, bar, quiet).run(state, progress)
    return load_model(run.path)[0]


class _Loop:
    """The loop and its bookkeeping: everything here happens between steps, on the host."""

    def __init__(self, run: RunDirectory, config: RunConfig, bar: Any, quiet: bool) -> None:
        self.out, self.config, self.bar, self.quiet = run, config, bar, quiet
        self.scorer: Scorer = make_scorer(fixed_tasks(config.family, VALIDATION_SEED), num_samples=config.recipe.num_samples)

    def run(self, state: TrainState, progress: Progress) -> None:
        recipe, step = self.config.recipe, make_step(self.config)
        clock = _Clock(progress)
        if progress.step == 0:
            progress = self._validate(state, clock.read(progress))
        with _stop_signals() as stop_requested:
            while progress.step < recipe.steps:
                indices = training_indices(
                    progress.step, recipe.batch_size, num_tasks=self.config.num_tasks, seed=self.config.seed
                )
                state, stats = step(state, jnp.asarray(indices), jnp.asarray(progress.step))
                stats = {name: float(value) for name, value in jax.device_get(stats).items()}
                self._require_finite(stats, progress.step + 1)
                progress = dataclasses.replace(clock.read(progress), step=progress.step + 1)
                done = progress.step == recipe.steps
                if done or progress.step % LOG_EVERY == 0:
                    _append(self.out.metrics, {"step": progress.step, **stats})
                if done or progress.step % recipe.validate_every == 0:
                    progress = self._validate(state, progress)
                self._show(stats, progress)
                stopping = bool(stop_requested) and not done
                if done or stopping or progress.step % recipe.checkpoint_every == 0:
                    checkpoint.save(self.out.last, state, self._card(progress))
                if stopping:
                    raise KeyboardInterrupt

    def _validate(self, state: TrainState, progress: Progress) -> Progress:
        scores = self.scorer(state.model, self.config.recipe.validation_tasks)
        summary = summarise(scores)
        means = {name: summary[name]["mean"] for name in ("context", "target", "task")}
        _append(self.out.metrics, {"step": progress.step, "validation": means})
        timing = {"cpu_seconds": progress.cpu_seconds, "wall_seconds": progress.wall_seconds}
        _append(self.out.timing, {"step": progress.step, **timing})
        score = means["task"] if np.isfinite(scores["task"]).all() else None
        if not self.quiet:
            shown = "none" if score is None else f"{score:.4f}"
            tqdm.write(f"step {progress.step:>6}  validation log-likelihood a point {shown}", nolock=True)
        if score is not None and (progress.best_score is None or score > progress.best_score):
            progress = dataclasses.replace(progress, best_score=score, best_step=progress.step)
            checkpoint.save(self.out.best, state.model, self._card(progress))
        return progress

    def _card(self, progress: Progress) -> dict[str, Any]:
        return {
            "config": self.config.to_json(),
            "progress": dataclasses.asdict(progress),
            "environment": environment(),
        }

    def _require_finite(self, stats: dict[str, float], step: int) -> None:
        if all(math.isfinite(stats[name]) for name in ("loss", "gradient_norm", "parameter_norm")):
            return
        kept = f"the checkpoint in {self.out.last} is intact" if self.out.last.exists() else "nothing was saved yet"
        raise DivergedError(
            f"the loss, its gradient or the model is not finite at step {step} (loss {stats['loss']}, gradient norm "
            f"{stats['gradient_norm']}); {kept}. Start again with a smaller --learning-rate "
            f"(it was {self.config.recipe.learning_rate:g})"
        )

    def _show(self, stats: dict[str, float], progress: Progress) -> None:
        best = "none" if progress.best_score is None else f"{progress.best_score:.3f}"
        self.bar.set_postfix_str(f"loss {stats['loss']:.3f}, best validation {best}", refresh=False)
        self.bar.update()


class _Clock:
    """Time spent in all sittings of a run together."""

    def __init__(self, before: Progress) -> None:
        self.cpu = before.cpu_seconds - time.process_time()
        self.wall = before.wall_seconds - time.monotonic()

    def read(self, progress: Progress) -> Progress:
        """The progress with the time up to now."""
        cpu, wall = self.cpu + time.process_time(), self.wall + time.monotonic()
        return dataclasses.replace(progress, cpu_seconds=round(cpu, 3), wall_seconds=round(wall, 3))


def _append(log: Path, row: dict[str, Any]) -> None:
    with log.open("a") as file:
        file.write(json.dumps(row) + "\n")


@contextlib.contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """Collect requests to stop, so that the step under way can finish and be saved; a second Ctrl-C stops at once."""
    received: list[int] = []

    def remember(number: int, _frame: Any) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)
        os.write(2, b"\nstopping after this step; press Ctrl-C again to stop at once without saving\n")

    try:
        previous = {number: signal.signal(number, remember) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread, where Python delivers no signals
        yield received
        return
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
