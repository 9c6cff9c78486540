"""Experiments and budgets: every table has its rows, and models are treated alike."""

import dataclasses

import jax
import numpy as np
import pytest

from helpers.reproduction import campaign_in, run, tiny_budget
from mpnp.models.build import build, num_parameters
from mpnp.models.registry import MODELS
from mpnp.reproduce import budgets
from mpnp.reproduce.budgets import BUDGETS
from mpnp.reproduce.experiments import EXPERIMENTS
from mpnp.reproduce.model_groups import ATTENTIVE_MODELS, DIRECT_MODELS, MARTINGALE_MODELS, POOLED_MODELS, matched_width
from mpnp.training.config import LEARNING_RATE_GRID


def test_every_table_and_figure_has_rows_and_an_output(any_width):
    assert all(experiment.name == name for name, experiment in EXPERIMENTS.items())
    assert all(experiment.rows(tiny_budget()) and experiment.outputs for experiment in EXPERIMENTS.values())


def test_models_of_the_paper_are_grouped_by_backbone():
    for names, backbone in ((POOLED_MODELS, "pooled"), (ATTENTIVE_MODELS, "attentive")):
        assert {MODELS[name].backbone for name in names} == {backbone}
    mechanisms = [[MODELS[name].mechanism for name in names] for names in (POOLED_MODELS, ATTENTIVE_MODELS)]
    assert mechanisms[0] == mechanisms[1]
    assert {MODELS[name].partner for name in DIRECT_MODELS} == set(MARTINGALE_MODELS)


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=lambda budget: budget.name)
def test_runs_of_one_name_are_one_run_and_models_of_a_group_are_treated_alike(budget, any_width):
    lines = [line for experiment in EXPERIMENTS.values() for line in experiment.rows(budget)]
    named = {}
    for line in lines:
        effort = budget.efforts[line.group]
        assert effort.trial_steps <= effort.recipe.steps
        runs = [line.run(effort, seed, rate) for seed, rate in enumerate(effort.rates[:2])]
        for each in [*runs, *line.trials(effort)]:
            assert named.setdefault(each.name, each) == each
        same = {(each.recipe.steps, each.recipe.batch_size, each.recipe.optimizer) for each in runs}
        assert same == {(effort.recipe.steps, effort.recipe.batch_size, effort.recipe.optimizer)}
    assert {line.group for line in lines} == set(budget.efforts)


@pytest.mark.parametrize("budget", [budgets.HOURS, budgets.DAY, budgets.PAPER], ids=lambda budget: budget.name)
def test_finite_training_sets_are_seen_as_often_as_in_the_paper(budget):
    recipe = budget.efforts["finite-data"].recipe
    seen = [recipe.steps * recipe.batch_size / size for size in budget.finite_sizes]
    assert seen == [500, 250, 100]


def test_the_paper_s_budget_is_the_paper_s():
    effort = budgets.PAPER.efforts["pooled"]
    assert (effort.recipe.steps, effort.recipe.batch_size, effort.recipe.num_samples) == (100_000, 256, 10)
    assert (effort.recipe.optimizer, len(effort.rates), effort.num_test) == ("adam", 5, 25_600)
    assert (budgets.PAPER.num_seeds, budgets.PAPER.finite_sizes) == (4, (51_200, 102_400, 256_000))


def test_the_paper_s_learning_rates_are_those_of_its_appendix_c():
    np.testing.assert_allclose(LEARNING_RATE_GRID, [1.5811e-4, 2.8117e-4, 5e-4, 8.8914e-4, 1.5811e-3], rtol=1e-4)
    for group in set(budgets.PAPER.efforts) - {"4d"}:
        assert budgets.PAPER.efforts[group].rates == LEARNING_RATE_GRID


def test_the_paper_fixes_the_rate_in_four_dimensions():
    """Appendix B.2: 0.00015 for all models, with the settings of 1-D regression otherwise."""
    effort, one_dimensional = budgets.PAPER.efforts["4d"], budgets.PAPER.efforts["pooled"]
    assert (effort.rates, effort.full(effort.rates[0]).learning_rate) == ((0.00015,), 0.00015)
    assert dataclasses.replace(effort.recipe, learning_rate=5e-4) == one_dimensional.recipe
    assert (effort.num_test, effort.num_samples) == (25_600, 10)


@pytest.mark.parametrize(("name", "num_test"), [("mnist", 10_000), ("svhn", 26_032), ("celeba", 19_962)])
def test_the_paper_s_images_come_in_batches_of_128_with_5_samples(name, num_test):
    """Appendix C.3; every image of the test part is scored once."""
    effort = budgets.PAPER.efforts[name]
    assert (effort.recipe.batch_size, effort.recipe.num_samples, effort.recipe.optimizer) == (128, 5, "adam")
    assert (effort.num_samples, effort.num_test) == (5, num_test)


def test_tables_share_their_runs(tmp_path):
    campaign = campaign_in(tmp_path)
    run(campaign, EXPERIMENTS["regression"].rows(campaign.budget))
    direct = run(campaign, EXPERIMENTS["direct"].rows(campaign.budget))
    assert {job.run.model for job in direct.jobs} == {"mpnp-dsi", "mpnp-dse", "mpanp-dsi", "mpanp-dse"}
    for name in ("regression-full", "bayesopt", "posterior-samples", "pseudo-use", "learning-curves"):
        assert run(campaign, EXPERIMENTS[name].rows(campaign.budget)).jobs == []


def test_a_matched_width_is_the_smallest_that_reaches_the_martingale_model():
    settings = tiny_budget().settings

    def count(model, width=None):
        sized = dataclasses.replace(settings, encoder_width=width)
        return num_parameters(jax.eval_shape(lambda: build(model, key=jax.random.key(0), settings=sized)))

    width = matched_width("np", settings)
    assert count("np", width - 1) < count("mpnp") <= count("np", width)
