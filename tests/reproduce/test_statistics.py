"""Comparisons of models: bootstrap intervals, paired by task and seed."""

import dataclasses

import numpy as np

from helpers.reproduction import campaign_in, on_rbf, run
from mpnp.reproduce.statistics import compare, paired_bootstrap


def test_the_bootstrap_interval_of_a_mean_is_the_normal_one():
    differences = np.random.default_rng(0).normal([0.5, -1.0], [1.0, 3.0], size=(400, 2))
    for column, (low, high) in zip(differences.T, paired_bootstrap(differences, 4_000), strict=True):
        error = column.std() / np.sqrt(len(column))
        np.testing.assert_allclose([low, high], column.mean() + 1.96 * error * np.array([-1, 1]), atol=0.1 * error)


def test_comparisons_are_paired_by_task_and_seed(tmp_path):
    campaign = campaign_in(tmp_path, num_seeds=3)
    lines = on_rbf(campaign, "cnp", "np", "mpnp")
    run(campaign, lines)
    found = {(each.first, each.second): each for each in compare(campaign, lines)}
    assert set(found) == {("mpnp", "cnp"), ("mpnp", "np"), ("np", "cnp")}
    # Tasks and seeds differ between records, but alike for all models: nothing but the models' difference is left.
    for (first, second), each in found.items():
        wanted = len(first) - len(second)
        np.testing.assert_allclose([each.mean, each.low, each.high], wanted, atol=1e-5)
        assert (each.num_tasks, each.num_seeds) == (6, 3)


def test_models_that_share_no_seed_are_not_compared(tmp_path):
    campaign = campaign_in(tmp_path, num_seeds=2)
    lines = cnp, mpnp = on_rbf(campaign, "cnp", "mpnp")
    run(dataclasses.replace(campaign, num_seeds=1), [cnp])
    run(campaign, [mpnp])
    for path in (tmp_path / "out/tiny/records/rbf").glob("mpnp-seed0-*/rbf.*"):
        path.unlink()
    assert compare(campaign, lines) == []
