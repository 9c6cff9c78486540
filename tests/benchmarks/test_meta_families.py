"""Families of objectives with past studies: what is declared about them is true."""

import numpy as np
import pytest

optuna = pytest.importorskip("optuna", reason="needs the extra: pip install 'mpnp[optuna]'")
meta_families = pytest.importorskip("meta_families")
FAMILIES = meta_families.FAMILIES


@pytest.mark.parametrize("name", FAMILIES)
def test_no_cost_is_below_the_minimum_and_regret_only_falls(name):
    run = FAMILIES[name].objective(meta_families.TEST, 0)
    costs = run.objective(np.random.default_rng(0).random((2_000, 2)))
    assert run.objective.minimum <= costs.min() < run.objective.minimum + 0.3 * np.ptp(costs)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(run, n_trials=8)
    regret = run.regret(study.trials)
    assert (np.diff(regret) <= 0).all() and regret[-1] >= 0


@pytest.mark.parametrize("name", FAMILIES)
def test_an_objective_is_the_same_for_every_sampler(name):
    params = {key: one.high for key, one in FAMILIES[name].space.items()}
    values = []
    for seed in range(2):
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
        study.enqueue_trial(params)
        study.optimize(FAMILIES[name].objective(meta_families.VALIDATION, 3), n_trials=1)
        values.append(study.best_value)
    assert values[0] == values[1]


def test_data_sets_are_in_one_part_only():
    names = meta_families.PAST, meta_families.VALIDATION, meta_families.TEST
    parts = [set(meta_families._rows_of(part).tolist()) for part in names]
    assert sum(map(len, parts)) == len(set.union(*parts)) == len(meta_families._scores())
    for part, size in zip(parts, FAMILIES["svr"].sizes, strict=True):
        assert len(part) >= size
