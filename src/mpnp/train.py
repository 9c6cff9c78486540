"""One training loop for every model: steps, validation, checkpoints, and a resume that changes no bit."""

import contextlib
import dataclasses
import json
import math
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree
from tqdm import tqdm

from mpnp import checkpoint, devices
from mpnp.errors import DivergedError, RunError
from mpnp.metrics import summarise
from mpnp.models.contract import AbstractNeuralProcess
from mpnp.records import environment
from mpnp.runs import RunConfig, RunDirectory, load_model
from mpnp.scoring import Scorer, make_scorer
from mpnp.step import TrainState, initial_state, learning, make_step, state_shapes
from mpnp.tasks.sources import VALIDATION_SEED, Problem, fixed_tasks, training_indices

__all__ = ["finish", "resume", "train"]

LOG_EVERY = 10
"""Steps between rows of the metrics log."""


@dataclasses.dataclass(frozen=True)
class Progress:
    """Where a run stands; kept in the cards of its checkpoints."""

    step: int = 0
    best_score: float | None = None
    best_step: int = 0
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0


def train(config: RunConfig, out: str | Path, *, quiet: bool = False) -> AbstractNeuralProcess:
    """Train a new model in the directory `out`, and return it at its best validation score.

    Ctrl-C or a request to terminate saves a checkpoint first, then raises `KeyboardInterrupt`; `resume` continues.
    """
    run = RunDirectory(Path(out))
    problem = run.problem(config)
    state = initial_state(config, problem.training)  # what cannot start leaves nothing behind
    if devices.is_lead():
        run.create(config)
    return _run(run, config, problem, state, Progress(), quiet)


def resume(out: str | Path, *, quiet: bool = False) -> AbstractNeuralProcess:
    """Continue the run in `out` from its last checkpoint, bit for bit as if it had never stopped."""
    run = RunDirectory(Path(out))
    config = run.config()
    problem = run.problem(config)
    if not run.last.exists():
        if devices.is_lead():
            run.rewind_logs(-1)  # a run without a checkpoint starts over, its first validation included
        return _run(run, config, problem, initial_state(config, problem.training), Progress(), quiet)
    state, card = checkpoint.load(run.last, state_shapes(config))
    config.require_own(run.last, card)
    progress = Progress(**card["progress"])
    if devices.is_lead():
        run.rewind_logs(progress.step)
    return _run(run, config, problem, state, progress, quiet)


def finish(config: RunConfig, out: str | Path, *, quiet: bool = False) -> RunDirectory:
    """The run of this configuration in `out`, trained from wherever it is to its end."""
    run = RunDirectory(Path(out))
    if not run.config_file.exists():
        train(config, out, quiet=quiet)
    elif run.config() != config:
        raise RunError(f"{out} holds a run of another configuration; move it away, or name another folder for the runs")
    elif not run.last.exists() or checkpoint.read_card(run.last)["progress"]["step"] < config.recipe.steps:
        resume(out, quiet=quiet)
    return run


def _run(
    run: RunDirectory, config: RunConfig, problem: Problem, state: TrainState, progress: Progress, quiet: bool
) -> AbstractNeuralProcess:
    with tqdm(
        total=config.recipe.steps, initial=progress.step, desc=f"{config.model} on {config.task}", unit="step",
        disable=True if quiet else None,  # tqdm reads None as: show it if someone is watching a terminal
    ) as bar:  # fmt: skip
        _Loop(run, config, problem, bar, quiet).run(state, progress)
    devices.wait_for_all("the last checkpoint is written")
    if not run.best.exists():
        raise DivergedError(
            f"no validation of {run.path} gave finite scores, so there is no best model. Start again elsewhere with a smaller "
            f"--learning-rate (it was {config.recipe.learning_rate:g})"
        )
    return load_model(run.path)[0]


class _Loop:
    """The loop and its bookkeeping: everything here happens between steps, on the host."""

    def __init__(self, run: RunDirectory, config: RunConfig, problem: Problem, bar: Any, quiet: bool) -> None:
        self.out, self.config, self.problem, self.bar, self.quiet = run, config, problem, bar, quiet
        self.mesh = devices.batch_mesh(config.recipe.batch_size)
        validation = fixed_tasks(self.problem.validation, VALIDATION_SEED)
        self.scorer: Scorer = make_scorer(validation, num_samples=config.recipe.num_samples)

    def run(self, state: TrainState, progress: Progress) -> None:
        recipe, step = self.config.recipe, make_step(self.config, self.problem.training, self.mesh)
        state = devices.replicate(self.mesh, state)
        clock = _Clock(progress)
        if progress.step < recipe.steps:
            self._tell(f"{self.config.model} on {self.config.task}: training on {devices.describe(self.mesh)}")
        if progress.step == 0:
            progress = self._validate(state, clock.read(progress))
        with _stop_signals() as stop_requested:
            while progress.step < recipe.steps and not self._out_of_patience(progress):
                indices = training_indices(
                    progress.step, recipe.batch_size, num_tasks=self.config.num_tasks, seed=self.config.seed
                )
                state, stats = step(state, indices, progress.step)
                stats = {name: float(value) for name, value in jax.device_get(stats).items()}
                self._require_finite(stats, progress.step + 1)
                progress = dataclasses.replace(clock.read(progress), step=progress.step + 1)
                done = progress.step == recipe.steps
                if done or progress.step % LOG_EVERY == 0:
                    self._log(self.out.metrics, {"step": progress.step, **stats})
                if done or progress.step % recipe.validate_every == 0:
                    progress = self._validate(state, progress)
                    done = done or self._out_of_patience(progress)
                self._show(stats, progress)
                stopping = bool(stop_requested) and not done
                if done or stopping or progress.step % recipe.checkpoint_every == 0:
                    self._save(self.out.last, state, progress)
                if stopping:
                    raise KeyboardInterrupt

    def _out_of_patience(self, progress: Progress) -> bool:
        recipe, since = self.config.recipe, max(progress.best_step, self.config.core_steps)
        return recipe.patience is not None and progress.step - since >= recipe.patience * recipe.validate_every

    def _validate(self, state: TrainState, progress: Progress) -> Progress:
        """Score what has learnt so far. While that is the core alone, no model is the best one yet."""
        learner = learning(self.config, state.model, max(progress.step - 1, 0))
        scores = self.scorer(devices.local_copy(learner), self.config.recipe.validation_tasks)
        summary = summarise(scores)
        means = {name: summary[name]["mean"] for name in ("context", "target", "task")}
        self._log(self.out.metrics, {"step": progress.step, "validation": means})
        timing = {"cpu_seconds": progress.cpu_seconds, "wall_seconds": progress.wall_seconds}
        self._log(self.out.timing, {"step": progress.step, **timing})
        chosen = self.config.recipe.select_by
        score = means[chosen] if np.isfinite(scores["task"]).all() else None
        self._tell(f"step {progress.step:>6}  validation log-likelihood a point {'none' if score is None else f'{score:.4f}'}")
        if score is not None and learner is state.model and (progress.best_score is None or score > progress.best_score):
            progress = dataclasses.replace(progress, best_score=score, best_step=progress.step)
            self._save(self.out.best, state.model, progress)
        return progress

    def _tell(self, line: str) -> None:
        if not self.quiet:
            tqdm.write(line, nolock=True)

    def _log(self, log: Path, row: dict[str, Any]) -> None:
        if devices.is_lead():
            with log.open("a") as file:
                file.write(json.dumps(row) + "\n")

    def _save(self, path: Path, arrays: PyTree, progress: Progress) -> None:
        if devices.is_lead():
            checkpoint.save(path, arrays, self._card(progress))

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
