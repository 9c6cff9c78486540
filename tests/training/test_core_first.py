"""Martingale models whose core learns first, or comes from another run."""

import dataclasses
import os
import shutil
import signal

import equinox as eqx
import jax
import numpy as np
import pytest

from helpers.models import assert_trees_close
from helpers.training import EASY, RECIPE, at_step, numbers, step_reached, trained, with_recipe
from mpnp.errors import InputError, RunError
from mpnp.training import checkpoint
from mpnp.training import loop as training
from mpnp.training.loop import resume, train
from mpnp.training.rundir import RunDirectory, load_model
from mpnp.training.sharding import batch_mesh
from mpnp.training.step import TrainState, initial_state, make_optimizer, make_step

pytestmark = pytest.mark.usefixtures("programs")

CORE_FIRST = dataclasses.replace(with_recipe(steps=12, core_share=0.5, optimizer="muon", initialisation="spread"), model="mpnp")


def test_the_core_learns_first_and_as_the_conditional_model_would():
    mesh = batch_mesh(RECIPE.batch_size)
    whole = initial_state(CORE_FIRST, EASY)
    alone = TrainState(whole.model.core, make_optimizer("muon").init(whole.model.core))
    generator = whole.model.generator
    step, step_alone = (make_step(config, EASY, mesh) for config in (CORE_FIRST, dataclasses.replace(CORE_FIRST, model="cnp")))
    for number in range(CORE_FIRST.recipe.steps):
        indices = np.arange(4 * number, 4 * number + 4, dtype=np.uint32)
        whole, stats = step(whole, indices, number)
        if number < CORE_FIRST.core_steps:
            alone, stats_alone = step_alone(alone, indices, number)
            np.testing.assert_allclose(stats["loss"], stats_alone["loss"], rtol=1e-3)
            assert_trees_close(whole.model.core, alone.model, atol=2e-3)  # Muon makes rounding errors of small gradients large
            assert eqx.tree_equal(whole.model.generator, generator)
        else:
            assert {"marginal", "amortisation", "pseudo"} <= set(stats)
    assert not eqx.tree_equal(whole.model.generator, generator)


def test_validations_are_of_the_core_until_the_whole_model_learns(run, monkeypatch):
    scored = []
    make_scorer = training.make_scorer

    def recording(*arguments, **options):
        scorer = make_scorer(*arguments, **options)
        return lambda model, num_tasks: scored.append(type(model).__name__) or scorer(model, num_tasks)

    monkeypatch.setattr(training, "make_scorer", recording)
    trained(CORE_FIRST, run.path)
    assert scored == ["ConditionalNP"] * 4 + ["MartingaleNP"] * 3  # at 0, 2, 4, 6 and at 8, 10, 12 steps
    assert checkpoint.read_card(run.best)["progress"]["best_step"] > CORE_FIRST.core_steps


@pytest.mark.parametrize("stopped_at", [5, 6, 9])
def test_a_run_that_stops_around_the_end_of_its_core_resumes_bit_for_bit(stopped_at, run, tmp_path, monkeypatch):
    straight = trained(CORE_FIRST, tmp_path / "straight")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        at_step(stopped_at, patch, lambda: os.kill(os.getpid(), signal.SIGINT))
        train(CORE_FIRST, run.path, quiet=True)
    resume(run.path, quiet=True)
    assert numbers(run) == numbers(straight)


def test_a_model_without_a_core_learns_as_a_whole_from_the_first_step(run, tmp_path):
    config = dataclasses.replace(CORE_FIRST, model="cnp")
    plain = dataclasses.replace(config, recipe=dataclasses.replace(config.recipe, core_share=0.0))
    assert numbers(trained(config, run.path)) == numbers(trained(plain, tmp_path / "plain"))


def test_patience_counts_from_the_end_of_the_core(run, monkeypatch):
    config = dataclasses.replace(CORE_FIRST, recipe=dataclasses.replace(CORE_FIRST.recipe, patience=1))
    worse = iter(range(0, -100, -1))
    nothing_helps = {name: {"mean": 0.0} for name in ("context", "target")}
    monkeypatch.setattr(training, "summarise", lambda _: nothing_helps | {"task": {"mean": float(next(worse))}})
    trained(config, run.path)
    assert step_reached(run) == 10  # the first validation of the whole model, at step 8, and one that is not better


def test_a_martingale_model_starts_with_the_weights_of_its_conditional_one(tmp_path):
    first = trained(dataclasses.replace(with_recipe(steps=4), model="cnp"), tmp_path / "first")
    config = dataclasses.replace(with_recipe(steps=4), model="mpnp", start_from=str(first.path))
    state, (given, *_) = initial_state(config, EASY), load_model(first.path)
    for part in ("backbone", "decoder"):
        got, wanted = (jax.tree.leaves(getattr(model, part)) for model in (state.model, given))
        assert all((a == b).all() for a, b in zip(got, wanted, strict=True))
    second = trained(config, tmp_path / "second")
    shutil.rmtree(first.path)  # once there is a checkpoint, the run stands on its own
    resume(second.path, quiet=True)
    assert RunDirectory(second.path).config() == config
    backwards = dataclasses.replace(config, model="cnp", start_from=str(second.path))
    with pytest.raises(InputError, match=r"cnp cannot start from .*, which is mpnp: it has no array"):
        train(backwards, tmp_path / "third", quiet=True)
    with pytest.raises(RunError, match="holds no run"):
        train(config, tmp_path / "third", quiet=True)
    assert not (tmp_path / "third").exists()
