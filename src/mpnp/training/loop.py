"""One training loop for every model: steps, validation, checkpoints, and bit-exact resume."""

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

from mpnp.errors import DivergedError, RunError
from mpnp.evaluation.metrics import summarise
from mpnp.evaluation.scoring import Scorer, make_scorer
from mpnp.io.files import environment
from mpnp.io.locks import exclusive
from mpnp.models.base import AbstractNeuralProcess
from mpnp.tasks.base import VALIDATION_SEED, Problem, fixed_tasks, training_indices
from mpnp.training import checkpoint, sharding
from mpnp.training.config import RunConfig
from mpnp.training.rundir import RunDirectory, load_model
from mpnp.training.step import TrainState, initial_state, learning, make_step, state_shapes

__all__ = ["finish", "resume", "train"]

LOG_EVERY = 10
"""Steps between rows of the metrics log."""


@dataclasses.dataclass(frozen=True)
class Progress:
    """Progress of a run, stored in its checkpoints."""

    step: int = 0
    best_score: float | None = None
    best_step: int = 0
    best_core_score: float | None = None
    """Of the core, while it was trained alone."""
    best_core_step: int = 0
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0


def train(config: RunConfig, out: str | Path, *, quiet: bool = False) -> AbstractNeuralProcess:
    """Train a new model in the directory `out`, and return it at its best validation score.

    On Ctrl-C or SIGTERM, a checkpoint is saved before `KeyboardInterrupt` is raised; `resume` continues from it.
    """
    run = RunDirectory(Path(out))
    problem = run.problem(config)
    state = initial_state(config, problem.training)  # before anything is written, so that a failure leaves nothing behind
    with _alone_in(run):
        return _train(run, config, problem, state, quiet)


def resume(out: str | Path, *, quiet: bool = False) -> AbstractNeuralProcess:
    """Continue the run in `out` from its last checkpoint. The result is bit for bit that of an uninterrupted run."""
    run = RunDirectory(Path(out))
    config = run.config()
    problem = run.problem(config)
    with _alone_in(run):
        return _resume(run, config, problem, quiet)


def finish(config: RunConfig, out: str | Path, *, quiet: bool = False) -> RunDirectory:
    """Train or resume the run of this configuration in `out` to its end. A finished run is left as it is."""
    run = RunDirectory(Path(out))
    with _alone_in(run):
        if not run.config_file.exists():
            problem = run.problem(config)
            _train(run, config, problem, initial_state(config, problem.training), quiet)
        elif run.config() != config:
            raise RunError(f"{out} holds a run with another configuration; move it, or choose another folder for runs")
        elif not run.last.exists() or checkpoint.read_card(run.last)["progress"]["step"] < config.recipe.steps:
            _resume(run, config, run.problem(config), quiet)
    return run


def _alone_in(run: RunDirectory) -> contextlib.AbstractContextManager[None]:
    """The lock of a run. Of the processes that train it together, only the first one writes, so it holds the lock."""
    return exclusive(run.path) if sharding.is_lead() else contextlib.nullcontext()


def _train(run: RunDirectory, config: RunConfig, problem: Problem, state: TrainState, quiet: bool) -> AbstractNeuralProcess:
    if sharding.is_lead():
        run.create(config)
    return _run(run, config, problem, state, Progress(), quiet)


def _resume(run: RunDirectory, config: RunConfig, problem: Problem, quiet: bool) -> AbstractNeuralProcess:
    state, progress = _last_state(run, config, problem)
    if sharding.is_lead():
        run.rewind_logs(progress.step if progress.step else -1)  # the first validation is repeated, too
    return _run(run, config, problem, state, progress, quiet)


def _last_state(run: RunDirectory, config: RunConfig, problem: Problem) -> tuple[TrainState, Progress]:
    """The last checkpoint; the initial state if the run was killed before it wrote any."""
    if not run.last.exists():
        if run.best.exists():
            raise RunError(
                f"{run.last} is missing, so the run cannot be resumed, and starting over would replace {run.best.name}; "
                "restore it from a copy, or start a new run in another directory"
            )
        return initial_state(config, problem.training), Progress()
    state, card = checkpoint.load(run.last, state_shapes(config))
    config.require_own(run.last, card)
    progress = Progress(**card["progress"])
    _require_best(run, progress)
    return state, progress


def _require_best(run: RunDirectory, progress: Progress) -> None:
    """Raise an error if the run has had a best model, but its file is gone."""
    if progress.best_score is not None and not run.best.exists():
        raise RunError(
            f"{run.best}, the best model so far, of step {progress.best_step}, is missing; restore it from a copy, or start a "
            "new run in another directory"
        )


def _run(
    run: RunDirectory, config: RunConfig, problem: Problem, state: TrainState, progress: Progress, quiet: bool
) -> AbstractNeuralProcess:
    with tqdm(
        total=config.recipe.steps, initial=progress.step, desc=f"{config.model} on {config.task}", unit="step",
        disable=True if quiet else None,  # None means: show the bar only on a terminal
    ) as bar:  # fmt: skip
        progress = _Loop(run, config, problem, bar, quiet).run(state, progress)
    sharding.wait_for_all("the last checkpoint is written")
    _require_best(run, progress)
    if progress.best_score is None:
        raise DivergedError(
            f"no validation of {run.path} gave finite scores, so there is no best model. Start a new run with a smaller "
            f"--learning-rate (it was {config.recipe.learning_rate:g})"
        )
    return load_model(run.path)[0]


class _Loop:
    """The loop and its bookkeeping between steps, on the host."""

    def __init__(self, run: RunDirectory, config: RunConfig, problem: Problem, bar: Any, quiet: bool) -> None:
        self.out, self.config, self.problem, self.bar, self.quiet = run, config, problem, bar, quiet
        self.mesh = sharding.batch_mesh(config.recipe.batch_size)
        validation = fixed_tasks(self.problem.validation, VALIDATION_SEED)
        self.scorer: Scorer = make_scorer(validation, num_samples=config.recipe.num_samples)

    def run(self, state: TrainState, progress: Progress) -> Progress:
        """Train to the end, and return the final progress."""
        recipe, step = self.config.recipe, make_step(self.config, self.problem.training, self.mesh)
        state = sharding.replicate(self.mesh, state)
        clock = _Clock(progress)
        if progress.step < recipe.steps:
            self._tell(f"{self.config.model} on {self.config.task}: training on {sharding.describe(self.mesh)}")
        if progress.step == 0:
            self._save(self.out.last, state, progress)  # first of all, so that there is never a best model alone
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
                    if not done and self._out_of_patience(progress):
                        done = True
                        self._tell(
                            f"stopped early at step {progress.step:,} of {recipe.steps:,}: no better validation score in "
                            f"{recipe.patience} validations, since step {progress.best_step:,}"
                        )
                self._show(stats, progress)
                stopping = bool(stop_requested) and not done
                if done or stopping or progress.step % recipe.checkpoint_every == 0:
                    self._save(self.out.last, state, progress)
                if stopping:
                    raise KeyboardInterrupt
        return progress

    def _out_of_patience(self, progress: Progress) -> bool:
        recipe, since = self.config.recipe, max(progress.best_step, self.config.core_steps)
        return recipe.patience is not None and progress.step - since >= recipe.patience * recipe.validate_every

    def _validate(self, state: TrainState, progress: Progress) -> Progress:
        """Score the model on the validation tasks and save it if it is the best so far.

        While only the core is trained, the same is done for the core.
        """
        learner = learning(self.config, state.model, max(progress.step - 1, 0))
        scores = self.scorer(sharding.local_copy(learner), self.config.recipe.validation_tasks)
        summary = summarise(scores)
        means = {name: summary[name]["mean"] for name in ("context", "target", "task")}
        self._log(self.out.metrics, {"step": progress.step, "validation": means})
        timing = {"cpu_seconds": progress.cpu_seconds, "wall_seconds": progress.wall_seconds}
        self._log(self.out.timing, {"step": progress.step, **timing})
        chosen = self.config.recipe.select_by
        score = means[chosen] if np.isfinite(scores["task"]).all() else None
        shown = "none" if score is None else f"{score:.4f}"
        self._tell(f"step {progress.step:>6}  validation log-likelihood per point {shown}")
        if score is None:
            return progress
        if learner is state.model and (progress.best_score is None or score > progress.best_score):
            progress = dataclasses.replace(progress, best_score=score, best_step=progress.step)
            self._save(self.out.best, learner, progress)
        if learner is not state.model and (progress.best_core_score is None or score > progress.best_core_score):
            progress = dataclasses.replace(progress, best_core_score=score, best_core_step=progress.step)
            self._save(self.out.best_core, learner, progress)
        return progress

    def _tell(self, line: str) -> None:
        if not self.quiet:
            tqdm.write(line, nolock=True)

    def _log(self, log: Path, row: dict[str, Any]) -> None:
        if not sharding.is_lead():
            return
        try:
            with log.open("a") as file:
                file.write(json.dumps(row) + "\n")
        except OSError as error:
            raise RunError(f"cannot write {log}: {error.strerror}; make room, then resume the run") from None

    def _save(self, path: Path, arrays: PyTree, progress: Progress) -> None:
        if sharding.is_lead():
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
        raise DivergedError(
            f"the loss, its gradient or the model is not finite at step {step} (loss {stats['loss']}, gradient norm "
            f"{stats['gradient_norm']}); the checkpoint in {self.out.last} is intact. Start a new run with a smaller "
            f"--learning-rate (it was {self.config.recipe.learning_rate:g})"
        )

    def _show(self, stats: dict[str, float], progress: Progress) -> None:
        best = "none" if progress.best_score is None else f"{progress.best_score:.3f}"
        self.bar.set_postfix_str(f"loss {stats['loss']:.3f}, best validation {best}", refresh=False)
        self.bar.update()


class _Clock:
    """Total time of a run, over all interruptions."""

    def __init__(self, before: Progress) -> None:
        self.cpu = before.cpu_seconds - time.process_time()
        self.wall = before.wall_seconds - time.monotonic()

    def read(self, progress: Progress) -> Progress:
        """The progress with times up to now."""
        cpu, wall = self.cpu + time.process_time(), self.wall + time.monotonic()
        return dataclasses.replace(progress, cpu_seconds=round(cpu, 3), wall_seconds=round(wall, 3))


@contextlib.contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """Collect stop signals, so that the current step can finish and be saved. A second Ctrl-C stops at once."""
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
