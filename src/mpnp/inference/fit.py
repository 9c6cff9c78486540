"""From curves to a fitted model: plan, train, describe; interrupted fits resume, and fitted models are updated."""

import contextlib
import dataclasses
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

from mpnp.errors import InputError, RunError, first_line
from mpnp.inference.budget import plan_run
from mpnp.inference.describe import describe_run
from mpnp.inference.files import CARD, save_model
from mpnp.inference.fit_options import SETTINGS, FitOptions
from mpnp.inference.model import FittedModel, load
from mpnp.inference.plan import PLAN, FitPlan
from mpnp.inference.pretrained import PRETRAINED
from mpnp.io.files import environment
from mpnp.io.locks import exclusive
from mpnp.models.config import ModelSettings
from mpnp.tables.curves import Curves
from mpnp.tables.dataset import CurveDataset
from mpnp.tables.storage import load_dataset, save_dataset
from mpnp.tasks.registry import TABLE
from mpnp.training import checkpoint
from mpnp.training.config import RunConfig
from mpnp.training.loop import Progress, finish
from mpnp.training.rundir import RunDirectory

__all__ = [
    "FewTasksWarning",
    "FitOptions",
    "SETTINGS",
    "fit_curves",
    "has_unfinished_fit",
    "resume_fit",
    "unfinished_curves",
    "unfinished_plan",
    "update_model",
]

TRAINING = "training"
"""The run of an unfinished fit, inside the model's directory."""

START = "start"
"""Inside that run, the weights of the model that is updated."""

FEW_TASKS = 10
"""With so few tasks or fewer, a model can hardly learn what tasks have in common."""

UPDATE_RATE = 3e-3
"""Base learning rate of an update, lower than that of new weights."""


class FewTasksWarning(UserWarning):
    """There are too few tasks to learn from."""


def fit_curves(
    curves: Curves,
    options: FitOptions | None = None,
    *,
    settings: ModelSettings = SETTINGS,
    out: str | Path | None = None,
    licence: str | None = None,
    quiet: bool = False,
) -> FittedModel:
    """Fit a model to curves. If `out` is given, save it there; until then, the directory holds what `resume_fit` needs.

    The number of steps depends on the CPU time of a step; set `steps` for a reproducible result.
    """
    options = options or FitOptions()
    _check_count(curves)
    table = CurveDataset(curves, options.context, options.validation, options.test, options.seed, options.mixing)
    return _fit(table, options, settings, None, out, licence, quiet)


def update_model(
    model: FittedModel,
    curves: Curves,
    options: FitOptions | None = None,
    *,
    out: str | Path | None = None,
    licence: str | None = None,
    quiet: bool = False,
) -> FittedModel:
    """Continue the training of a model on further curves, with its columns and scales; `out` must be a new directory.

    The model does not hold the curves that it was fitted to. Pass them again, together with the new ones, to forget nothing.
    """
    card = model.card
    if "recipe" not in card.about or not isinstance(card.about.get("context"), str):
        raise InputError("only models that 'mpnp fit' made can be updated; fit a new model to your curves")
    options = dataclasses.replace(
        options or FitOptions(learning_rate=UPDATE_RATE), model=card.model, context=card.about["context"]
    )
    columns = card.columns
    curves = dataclasses.replace(curves, columns=columns)
    table = CurveDataset(curves, options.context, options.validation, options.test, options.seed, options.mixing, scaled=True)
    return _fit(table, options, card.settings, model, out, licence if licence is not None else card.licence, quiet)


def _fit(
    table: CurveDataset,
    options: FitOptions,
    settings: ModelSettings,
    earlier: FittedModel | None,
    out: str | Path | None,
    licence: str | None,
    quiet: bool,
) -> FittedModel:
    """Plan, train and describe; `earlier` is the model that is updated."""
    if table.columns.noise and settings.likelihood != "gaussian":
        raise InputError(f"known noise is normal, so it needs the likelihood 'gaussian', not '{settings.likelihood}'")
    with _directory(out) as directory:
        parts = ", ".join(f"{len(part):,} for {name}" for name, part in table.parts.items() if len(part))
        _tell(f"tasks: {parts}; compiling and measuring the cost of a training step", quiet)
        start = None if earlier is None else _save_start(directory / START, earlier, table)
        schedule = plan_run(table, options, settings, start)
        _tell(schedule.describe(), quiet)
        seen = None if earlier is None else earlier.card.seen
        plan = FitPlan(schedule.run, dataclasses.asdict(options), licence, seen)
        save_dataset(RunDirectory(directory).table, table)
        plan.write(directory)
        model = _finish(directory, plan, quiet)
        return model if out is None else _keep(model, Path(out))


def _tell(line: str, quiet: bool) -> None:
    if not quiet:
        print(line, flush=True)


def _check_count(curves: Curves) -> None:
    """Refuse a single task, and warn if there are only a few."""
    pretrained = f"mpnp.load('{PRETRAINED}'), which reads any curve of one input and one output, in any units"
    if len(curves) < 2:
        raise InputError(
            f"a model learns from many tasks, but there is only {len(curves)}. A pretrained model needs no others: {pretrained}"
        )
    if len(curves) <= FEW_TASKS:
        warnings.warn(
            f"{len(curves)} tasks are hardly enough to learn from, and scores on so few are mostly chance. Try the rival 'gp', "
            f"which learns most from few tasks (--model gp to predict), and for curves of many points {pretrained}",
            FewTasksWarning,
            stacklevel=3,
        )


def _save_start(directory: Path, model: FittedModel, table: CurveDataset) -> str:
    """Write the weights of a model as a run that training can start from."""
    card = model.card
    config = RunConfig(card.model, TABLE, settings=card.settings, own_dims=table.columns.dims)
    run = RunDirectory(directory.resolve())
    shutil.rmtree(run.path, ignore_errors=True)  # of a fit that was killed before its plan was written
    run.create(config)
    header = {"config": config.to_json(), "progress": dataclasses.asdict(Progress()), "environment": environment()}
    checkpoint.save(run.best, model.uncalibrated().network, header)
    return str(run.path)


def resume_fit(out: str | Path, *, licence: str | None = None, quiet: bool = False) -> FittedModel:
    """Continue an interrupted fit. The result is that of an uninterrupted one; a licence may still be added."""
    out = Path(out)
    if not (out / TRAINING).exists():
        raise RunError(f"{out} holds no unfinished fit; start one with 'mpnp fit'")
    with exclusive(out):
        if (out / CARD).exists():  # interrupted while cleaning up
            model = load(out)
            return _keep(model if licence is None else model.licensed(licence), out)
        if (plan := unfinished_plan(out)) is None:
            raise RunError(f"{out} holds a fit that was interrupted before its first step; start it again with 'mpnp fit'")
        if licence is not None:
            plan = dataclasses.replace(plan, licence=licence)
            plan.write(out / TRAINING)
        return _keep(_finish(out / TRAINING, plan, quiet), out)


def unfinished_plan(out: str | Path) -> FitPlan | None:
    """The plan of the fit to resume; None if there is none."""
    if not has_unfinished_fit(out):
        return None
    plan = FitPlan.read(Path(out) / TRAINING)
    try:
        return dataclasses.replace(plan, options=dataclasses.asdict(FitOptions(**plan.options)))
    except (TypeError, InputError) as error:
        raise RunError(f"the plan of {Path(out) / TRAINING} is damaged ({first_line(error)}); restore it from a copy") from None


def has_unfinished_fit(out: str | Path) -> bool:
    """Whether there is a fit to resume."""
    return (Path(out) / TRAINING / PLAN).exists()


def unfinished_curves(out: str | Path) -> Curves:
    """The curves of the fit to resume."""
    return load_dataset(RunDirectory(Path(out) / TRAINING).table).curves


def _finish(directory: Path, plan: FitPlan, quiet: bool) -> FittedModel:
    """Train to the end from the last checkpoint, if any, then describe the model."""
    finish(plan.run, directory, quiet=quiet)
    return describe_run(directory, plan, lambda line: _tell(line, quiet))


def _keep(model: FittedModel, out: Path) -> FittedModel:
    """Save a model, then remove its training run."""
    save_model(out, model.network, model.card, model.rivals)
    shutil.rmtree(out / TRAINING)
    return model


@contextlib.contextmanager
def _directory(out: str | Path | None) -> Iterator[Path]:
    """Where the run lives: inside `out` until it is finished, or in a temporary directory."""
    if out is not None:
        with exclusive(Path(out)):
            _require_free(Path(out))
            yield Path(out) / TRAINING
        return
    with tempfile.TemporaryDirectory(prefix="mpnp-") as temporary:
        yield Path(temporary)


def _require_free(out: Path) -> None:
    """Raise an error if the directory holds a model or an unfinished fit."""
    if (out / CARD).exists():
        raise RunError(f"{out} already holds a model; choose another --out")
    if has_unfinished_fit(out):
        raise RunError(
            f"{out} holds an unfinished fit; continue it with 'mpnp fit --resume {out}', remove {out / TRAINING}, or "
            "choose another --out"
        )
