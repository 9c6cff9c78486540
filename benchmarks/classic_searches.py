"""Strategies that search for the minimum of a function: ours, Optuna's samplers and BoTorch, one point or one batch at a time.

Each runs with its defaults and starts in its own way: ours and BoTorch with Sobol points, Optuna's samplers with their ten
random trials. Inputs lie in the unit box.
"""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from classic_objectives import Classic

__all__ = ["STRATEGIES", "Strategy"]

BATCH, NUM_BATCHES = 4, 10
"""Points of a batch, and batches of a search that is made of them."""

Evaluate = Callable[[np.ndarray], float]
"""Evaluates the function, with noise, at a point."""

Loop = tuple[np.ndarray, list[float]]
"""What the strategy would return after each evaluation, and the CPU-seconds of each suggestion."""


@dataclasses.dataclass(frozen=True)
class Strategy:
    """A row of `STRATEGIES`."""

    title: str
    search: Callable[["Strategy", Classic, int, Evaluate], Loop]
    """Runs one search of a function with a seed."""
    batch: int = 1
    """Points that are suggested at a time."""

    def num_evaluations(self, classic: Classic) -> int:
        """Evaluations of each search, initial points included."""
        return classic.num_evaluations if self.batch == 1 else BATCH * NUM_BATCHES

    def loop(
        self,
        ask: Callable[[], np.ndarray],
        tell: Callable[[np.ndarray, list[float]], np.ndarray],
        classic: Classic,
        f: Evaluate,
    ) -> Loop:
        """Time the suggestion of a batch, evaluate it, and note the recommendation."""
        recommended, seconds = [], []
        for _ in range(self.num_evaluations(classic) // self.batch):
            started = time.process_time()
            xs = ask()
            asked = time.process_time() - started
            ys = [f(x) for x in xs]
            started = time.process_time()
            recommended += [tell(xs, ys)] * self.batch
            seconds += [(asked + time.process_time() - started) / self.batch] * self.batch
        return np.stack(recommended), seconds


class Observations:
    """All evaluations of a search."""

    def __init__(self) -> None:
        self.xs: list[np.ndarray] = []
        self.ys: list[float] = []

    def add(self, xs: np.ndarray, ys: list[float]) -> np.ndarray:
        """Returns the point with the lowest observed value."""
        self.xs += list(xs)
        self.ys += ys
        return self.xs[int(np.argmin(self.ys))]


def random_search(strategy: Strategy, classic: Classic, seed: int, f: Evaluate) -> Loop:
    """Uniform random points."""
    rng = np.random.default_rng(seed)
    return strategy.loop(lambda: rng.random((strategy.batch, len(classic.bounds))), Observations().add, classic, f)


def ours(model: str, acquisition: str = "expected-improvement") -> Callable[..., Loop]:
    """The ask-and-tell optimiser with its defaults."""

    def search(strategy: Strategy, classic: Classic, seed: int, f: Evaluate) -> Loop:
        from mpnp.bayesopt import Optimizer

        optimizer = Optimizer(model, [(0.0, 1.0)] * len(classic.bounds), acquisition=acquisition, seed=seed)

        def tell(xs: np.ndarray, ys: list[float]) -> np.ndarray:
            optimizer.tell(xs, ys)
            return optimizer.best.x

        return strategy.loop(lambda: optimizer.ask(strategy.batch), tell, classic, f)

    return search


def in_optuna(sampler: str) -> Callable[..., Loop]:
    """A sampler of Optuna with its defaults."""

    def search(strategy: Strategy, classic: Classic, seed: int, f: Evaluate) -> Loop:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        names = [f"x{i}" for i in range(len(classic.bounds))]
        space = {name: optuna.distributions.FloatDistribution(0.0, 1.0) for name in names}
        study = optuna.create_study(sampler=getattr(optuna.samplers, sampler)(seed=seed))
        trials: list[Any] = []

        def ask() -> np.ndarray:
            trials[:] = [study.ask(space) for _ in range(strategy.batch)]
            return np.array([[trial.params[name] for name in names] for trial in trials])

        def tell(xs: np.ndarray, ys: list[float]) -> np.ndarray:
            for trial, y in zip(trials, ys, strict=True):
                study.tell(trial, y)
            return np.array([study.best_params[name] for name in names])

        return strategy.loop(ask, tell, classic, f)

    return search


def in_botorch(strategy: Strategy, classic: Classic, seed: int, f: Evaluate) -> Loop:
    """SingleTaskGP and qLogEI of BoTorch, after 2d + 2 Sobol points; recommends the observed point of lowest posterior mean."""
    import torch
    from botorch.acquisition import qLogExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    num_inputs, batch = len(classic.bounds), strategy.batch
    num_initial = -(-(2 * num_inputs + 2) // batch) * batch
    start = torch.quasirandom.SobolEngine(num_inputs, scramble=True, seed=seed).draw(num_initial, dtype=torch.float64)
    box = torch.stack([torch.zeros(num_inputs), torch.ones(num_inputs)]).double()
    seen, models = Observations(), []

    def ask() -> np.ndarray:
        if len(seen.xs) < len(start):
            return start[len(seen.xs) : len(seen.xs) + batch].numpy()
        model, X = models[-1], torch.tensor(np.stack(seen.xs))
        best = model.posterior(X).mean.max().detach() if classic.noise else -min(seen.ys)
        acquisition = qLogExpectedImprovement(model, best_f=best)
        return optimize_acqf(acquisition, box, q=batch, num_restarts=8, raw_samples=256)[0].numpy()

    def tell(xs: np.ndarray, ys: list[float]) -> np.ndarray:
        best_observed = seen.add(xs, ys)
        if len(seen.xs) < len(start):
            return best_observed
        X = torch.tensor(np.stack(seen.xs))
        model = SingleTaskGP(X, -torch.tensor(seen.ys).double()[:, None])
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        models[:] = [model]
        return seen.xs[int(model.posterior(X).mean.argmax())] if classic.noise else best_observed

    return strategy.loop(ask, tell, classic, f)


STRATEGIES = {
    "auto": Strategy("mpnp, default", ours("auto")),
    "gp": Strategy("mpnp, `gp`", ours("gp")),
    "random": Strategy("random", random_search),
    "tpe": Strategy("Optuna TPE", in_optuna("TPESampler")),
    "gpsampler": Strategy("Optuna GPSampler", in_optuna("GPSampler")),
    "botorch": Strategy("BoTorch qLogEI", in_botorch),
    "thompson-batches": Strategy("mpnp, Thompson", ours("auto", "thompson"), BATCH),
    "auto-batches": Strategy("mpnp, default", ours("auto"), BATCH),
    "random-batches": Strategy("random", random_search, BATCH),
    "botorch-batches": Strategy("BoTorch qLogEI", in_botorch, BATCH),
}
