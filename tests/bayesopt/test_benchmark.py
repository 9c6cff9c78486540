"""The benchmark: objectives of the literature, and trials in lockstep that are the searches of the loop."""

import numpy as np
import pytest

from helpers.bayesopt import GRID, PROCESS, search
from mpnp.bayesopt import NeuralProcessSurrogate, Optimizer, registry
from mpnp.bayesopt.acquisition import ACQUISITIONS, Acquisition
from mpnp.bayesopt.benchmark import Study, initial_points, read_acquisitions, run_study, run_trials, simple_regret
from mpnp.bayesopt.figures import acquisitions_figure, regret_figure
from mpnp.bayesopt.objectives import OBJECTIVES
from mpnp.bayesopt.space import OutputScale
from mpnp.bayesopt.strategies import ModelBased, RandomSearch, child_seed, choose


@pytest.mark.parametrize(("name", "where"), [("gramacy-lee", 0.5486), ("forrester", 0.7572)])
def test_the_minima_are_those_of_the_literature(name, where):
    objective = OBJECTIVES[name]
    x, y = objective.minimum
    assert x == pytest.approx(where, abs=1e-4)
    assert y <= objective(np.linspace(objective.low, objective.high, 9_973)).min()


def test_searches_start_at_regret_one_and_never_get_worse():
    y = np.array([[3.0, 2.0, 4.0, 2.5, 1.0, 0.0, 5.0]])
    np.testing.assert_array_equal(simple_regret(y, 0.0, 3), [[1, 1, 0.5, 0, 0]])
    for objective in OBJECTIVES:
        study = Study(objective, num_trials=7, num_iterations=9)
        trials = run_trials(study, RandomSearch())
        regret = simple_regret(trials.y, OBJECTIVES[objective].minimum[1], 3)
        assert regret.shape == (7, 10) and (regret[:, 0] == 1).all() and (np.diff(regret) <= 0).all() and (regret >= 0).all()
        assert trials.x.shape == (7, 12) and all(len(set(row)) == 12 for row in trials.x.tolist())


def test_all_strategies_start_alike_and_a_small_study_is_the_beginning_of_a_large_one():
    few, many = (Study("forrester", num_trials=count, num_iterations=2) for count in (3, 5))
    np.testing.assert_array_equal(initial_points(few), initial_points(many)[:3])
    for strategy in (RandomSearch(), ModelBased(PROCESS)):
        np.testing.assert_array_equal(run_trials(few, strategy).x, run_trials(many, strategy).x[:3])
    assert not np.array_equal(initial_points(few), initial_points(Study("forrester", num_trials=3, seed=1)))


@pytest.mark.parametrize("acquisition", ACQUISITIONS)
@pytest.mark.parametrize("model", ["network", "process"])
def test_the_loop_goes_uphill_from_the_points_that_the_study_would_choose(network, model, acquisition):
    surrogate = PROCESS if model == "process" else NeuralProcessSurrogate(network, num_samples=3)
    optimizer = Optimizer(surrogate, (0, 1), acquisition=acquisition, seed=1)
    search(optimizer, count=5)
    x = np.array([[evaluation.x for evaluation in optimizer.evaluations]])
    y = np.array([[evaluation.y for evaluation in optimizer.evaluations]])
    seed = np.array([child_seed(1, 5)], np.uint32)

    def score(points):
        return optimizer.strategy.scores(x, OutputScale.of(y).apply(y), points, seed)[0]

    grid = GRID[:, None]
    (on_grid,) = choose(optimizer.strategy, x, OutputScale.of(y).apply(y), grid, np.zeros((1, len(grid)), bool), seed)
    suggested = optimizer.ask()
    # The two sets of points are computed apart, so the network's rounding differs.
    if ACQUISITIONS[acquisition].climbs:
        assert score(suggested[None]).item() >= score(grid)[on_grid] - 1e-5 and suggested[0] not in GRID


def test_the_best_predicted_solutions_are_those_of_lowest_mean():
    study = Study("forrester", num_trials=2, num_iterations=6)
    trials = run_trials(study, ModelBased(PROCESS))
    assert [moment["after"] for moment in trials.predicted] == [0, 5, 6]
    last, scale = trials.predicted[-1], OutputScale.of(trials.y[:1])
    mean, _ = PROCESS.moments(trials.x[:1, :, None], scale.apply(trials.y[:1]), GRID[:, None], np.zeros(1, int))
    np.testing.assert_allclose(last["mean"], np.sort(scale.undo(mean)[0])[:10], rtol=1e-5)
    assert len(last["x"]) == 10 and len(last["observed_x"]) == 9
    assert run_trials(study, RandomSearch()).predicted == []


def test_a_new_acquisition_is_one_row_and_is_drawn(monkeypatch, tmp_path):
    def lowest_bound(surrogate, x, z, candidates, seeds):
        mean, std = surrogate.moments(x, z, candidates, seeds)
        return 2 * std - mean

    monkeypatch.setattr(registry, "pretrained_process", lambda: PROCESS)
    monkeypatch.setitem(ACQUISITIONS, "lower-bound", Acquisition(lowest_bound, "lower bound"))
    studies = [Study("forrester", name, num_trials=2, num_iterations=3) for name in ACQUISITIONS]
    for study in studies:
        run_study(study, ["gp-rbf"], tmp_path, quiet=True)
    records = read_acquisitions(tmp_path, studies[0])
    lines = acquisitions_figure(records).axes[0].lines
    assert [line.get_label() for line in lines] == [entry.label for entry in ACQUISITIONS.values()]
    assert len({line.get_color() for line in lines}) == len(lines) == 4
    assert [line.get_linewidth() for line in lines] == [3.5, 1.5, 1.5, 1.5]
    assert regret_figure(records["lower-bound"]).get_suptitle().endswith(": lower bound, median of 2 trials")
    for number in range(20):
        name = f"further-{number}"
        monkeypatch.setitem(ACQUISITIONS, name, Acquisition(lowest_bound, name))
        records[name] = records["thompson"]
    assert len(acquisitions_figure(records).axes[0].lines) == 24  # more than there are colours
