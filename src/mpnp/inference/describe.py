"""What a finished run becomes: the best network of its candidates, recalibrated, with scores, rivals and a card."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mpnp.inference.assess import HeldOut, assess, cut_curves
from mpnp.inference.card import REFERENCE_DIGITS, ModelCard, Reference, TrainingDomain
from mpnp.inference.fit_options import FitOptions
from mpnp.inference.forecasters import AbstractForecaster, RivalForecaster
from mpnp.inference.model import FittedModel, load
from mpnp.inference.ood import half_scores
from mpnp.inference.plan import FitPlan
from mpnp.inference.pretrained import PRETRAINED, PretrainedForecaster, reads_any_curve
from mpnp.inference.recalibration import calibrate_if_better
from mpnp.inference.rivalry import compete, learn_rivals
from mpnp.models.registry import find_model
from mpnp.tables.dataset import CurveDataset
from mpnp.tables.storage import load_dataset
from mpnp.training import checkpoint
from mpnp.training.rundir import RunDirectory, load_core, load_model

__all__ = ["describe_run", "held_out", "judge"]


def describe_run(directory: Path, plan: FitPlan, tell: Callable[[str], None]) -> FittedModel:
    """The best network of a run, with all that its card says. `tell` hears what is being done."""
    table, options = load_dataset(RunDirectory(directory).table), FitOptions(**plan.options)
    candidates = _candidates(directory, table, plan)
    validation = held_out(table, "validation", options.held_out_contexts)
    return judge(_best(candidates, validation) if validation.cuts else candidates[0], table, options, tell)


def judge(model: FittedModel, table: CurveDataset, options: FitOptions, tell: Callable[[str], None]) -> FittedModel:
    """The model, recalibrated and scored next to its rivals on held-out curves, whatever its card said of both before."""
    validation, test = (held_out(table, part, options.held_out_contexts) for part in ("validation", "test"))
    tell(f"scoring the network on {len(validation.cuts):,} validation and {len(test.cuts):,} test contexts")
    if not validation.cuts:
        return model
    model = model.uncalibrated()
    columns = model.card.columns
    calibration, report, answers = calibrate_if_better(columns, model.answer_cuts(validation.cuts), validation.cuts)
    model = model.calibrated(calibration)
    tested = model.answer_cuts(test.cuts) if test.cuts else None
    scores: dict[str, Any] = {"validation": assess(columns, answers, validation.cuts), "recalibration": report}
    if tested is not None:
        scores["test"] = assess(columns, tested, test.cuts)
    rivals, skipped = learn_rivals(table, options.rival_names, seed=options.seed, tell=tell)
    others: dict[str, AbstractForecaster] = {name: RivalForecaster(rival, columns) for name, rival in rivals.items()}
    if PRETRAINED in options.rival_names:
        if reads_any_curve(columns):
            others[PRETRAINED] = PretrainedForecaster(load(PRETRAINED), columns)
        else:
            skipped[PRETRAINED] = "it reads curves of a single numeric input and a single output"
    if others:
        tell("scoring all forecasters on the same contexts")
        scores["leaderboard"] = compete(columns, others, validation, test, skipped, (answers, tested)).to_json()
    card = dataclasses.replace(model.card, reference=_reference(model, validation), about=model.card.about | scores)
    return FittedModel(model.network, card, rivals)


def _candidates(directory: Path, table: CurveDataset, plan: FitPlan) -> list[FittedModel]:
    """The model at its best validation score, and the best of its core, which is a model of its own."""
    network, config, header = load_model(directory)
    candidates = [FittedModel(network, _card(directory, table, plan, config.model, header))]
    core = load_core(directory)
    if core is not None and (name := find_model(config.model).core) is not None:
        network, header = core
        progress = {**header["progress"], "best_step": header["progress"]["best_core_step"]}
        candidates.append(FittedModel(network, _card(directory, table, plan, name, {**header, "progress": progress})))
    return candidates


def _best(candidates: Sequence[FittedModel], validation: HeldOut) -> FittedModel:
    """The candidate that predicts held-out curves best, with all scores in its card if there are several."""
    if len(candidates) == 1:
        return candidates[0]
    scores = [candidate.mean_log_prob(validation.cuts) for candidate in candidates]
    rows = [
        {"model": model.card.model, "step": model.card.about["progress"]["best_step"], "log_likelihood": score}
        for model, score in zip(candidates, scores, strict=True)
    ]
    best = candidates[int(np.argmax(scores))]
    return FittedModel(best.network, dataclasses.replace(best.card, about=best.card.about | {"candidates": rows}))


def _card(directory: Path, table: CurveDataset, plan: FitPlan, name: str, header: dict[str, Any]) -> ModelCard:
    """The card of a candidate, before it is scored."""
    run, training, config = RunDirectory(directory), table.parts["train"], plan.run
    seen = TrainingDomain.learn(training, max(table.max_rows - 1, 1))
    return ModelCard(
        model=name,
        settings=config.settings,
        columns=table.columns,
        seen=seen if plan.earlier is None else plan.earlier.union(seen),
        reference=None,
        about={
            "tasks": {part: len(curves) for part, curves in table.parts.items()},
            "context": table.context,
            "mixing": table.mixing,
            "seed": config.seed,
            "recipe": dataclasses.asdict(config.recipe),
            "progress": header["progress"],
            "steps_done": checkpoint.read_card(run.last)["progress"]["step"],
            "cpu_seconds": run.cpu_seconds() or 0.0,
            "learning_curve": [{name: row[name] for name in ("step", "target")} for row in run.learning_curve()],
            "environment": header["environment"],
        },
        licence=plan.licence,
    )


def _reference(model: FittedModel, validation: HeldOut) -> Reference:
    """Scores of held-out contexts, with which new contexts are compared, rounded as in a card: then saving changes nothing."""
    contexts = [(cut.x, cut.y) for cut in validation.cuts]
    scores = half_scores(model.plain_predictor, model.card.columns, contexts)
    return Reference(np.asarray([len(x) for x, _ in contexts]), np.round(scores, REFERENCE_DIGITS))


def held_out(table: CurveDataset, part: str, num_contexts: int) -> HeldOut:
    """About `num_contexts` contexts of all sizes from the curves of a part, clustered by the groups of these."""
    curves = table.parts[part]
    usable = np.flatnonzero(curves.counts > 1)
    if not len(usable):
        return HeldOut([], np.zeros(0, int))
    num_cuts = math.ceil(num_contexts / len(curves))
    cuts = cut_curves(curves, table.context, max_rows=table.max_rows, num_cuts=num_cuts, seed=table.seed)
    numbers = {group: number for number, group in enumerate(dict.fromkeys(curves.groups))}
    return HeldOut(cuts, np.repeat([numbers[curves.groups[number]] for number in usable], num_cuts))
