"""The Optuna sampler: Optuna's published tests, then what is particular to ours."""

import pickle

import numpy as np
import pytest

optuna = pytest.importorskip("optuna", reason="needs the extra: pip install 'mpnp[optuna]'")

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.testing.pytest_samplers import (
    BasicSamplerTestCase,
    RelativeSamplerTestCase,
    SingleOnlySamplerTestCase,
)
from optuna.trial import TrialState

from helpers.fitted_models import fitted
from mpnp.bayesopt import GaussianProcess, Kernel
from mpnp.errors import InputError
from mpnp.inference.ood import OutsideRangeWarning
from mpnp.integrations.optuna import NeuralProcessSampler, tasks_from_studies
from mpnp.integrations.optuna.space import Space
from mpnp.tables.columns import Schema

optuna.logging.set_verbosity(optuna.logging.WARNING)

PROCESS = GaussianProcess(Kernel(amplitude=1.0, length=0.3, noise=0.05))
SPACE = {"rate": FloatDistribution(1e-4, 1.0, log=True), "width": FloatDistribution(0.0, 10.0)}


class Published:
    @pytest.fixture
    def sampler(self):
        return lambda: NeuralProcessSampler(seed=0)


class TestBasic(Published, BasicSamplerTestCase):
    pass


class TestRelative(Published, RelativeSamplerTestCase):
    pass


class TestSingleOnly(Published, SingleOnlySamplerTestCase):
    pass


# Spaces


@pytest.mark.parametrize(
    "distribution",
    [
        FloatDistribution(-3.0, 5.0),
        FloatDistribution(1e-5, 1e2, log=True),
        FloatDistribution(-1.0, 1.0, step=0.25),
        IntDistribution(-4, 9),
        IntDistribution(1, 1_000, log=True),
        IntDistribution(3, 12, step=3),
    ],
)
def test_values_are_where_they_are_said_to_be(distribution):
    space = Space.of({"x": distribution})
    rng = np.random.default_rng(0)
    values = space.values(space.box.from_unit(rng.random((200, 1))))
    assert all(distribution._contains(distribution.to_internal_repr(one["x"])) for one in values)
    again = space.values(space.places(values))
    np.testing.assert_allclose([one["x"] for one in again], [one["x"] for one in values], rtol=1e-12)
    if isinstance(distribution, IntDistribution) and not distribution.log:
        counts = np.unique([one["x"] for one in values], return_counts=True)[1]
        assert len(counts) == len(range(distribution.low, distribution.high + 1, distribution.step))
        assert counts.min() > 200 / len(counts) / 3  # the ends are as likely as any other value


def test_the_scale_is_part_of_the_name_and_parameters_of_one_value_are_left_out():
    space = Space.of({**SPACE, "fixed": IntDistribution(2, 2)})
    assert space.columns == ("log rate", "width")
    np.testing.assert_allclose(space.places([{"rate": 0.01, "width": 3}]), [[np.log(0.01), 3.0]])


def test_reversed_bounds_are_refused_by_optuna_in_words():
    study = optuna.create_study(sampler=NeuralProcessSampler("random", seed=0))
    with pytest.raises(ValueError, match="`low <= high`"):
        study.optimize(lambda trial: trial.suggest_float("x", 2, 1), n_trials=1)


def test_a_category_takes_an_input_for_each_choice():
    space = Space.of({"kernel": CategoricalDistribution(["rbf", None, 3]), "width": FloatDistribution(0.0, 10.0)})
    assert space.columns == ("kernel=rbf", "kernel=None", "kernel=3", "width")
    params = [{"kernel": None, "width": 2.5}, {"kernel": 3, "width": 7.5}]
    np.testing.assert_allclose(space.places(params), [[0, 1, 0, 2.5], [0, 0, 1, 7.5]])
    assert space.values(space.places(params)) == params
    assert space.snap(np.array([[0.2, 0.6, 0.5, 0.1]])).tolist() == [[0.0, 1.0, 0.0, 0.1]]


# The loop


def bowl(trial):
    return (np.log10(trial.suggest_float("rate", 1e-4, 1.0, log=True)) + 2) ** 2 + (
        trial.suggest_float("width", 0, 10) - 7
    ) ** 2


def run(sampler, objective=bowl, n_trials=8, direction="minimize", **options):
    study = optuna.create_study(sampler=sampler, direction=direction)
    study.optimize(objective, n_trials=n_trials, **options)
    return study


def asked(study):
    return [tuple(trial.params.values()) for trial in study.trials]


def test_the_same_seed_asks_the_same_and_another_seed_something_else():
    first, second, other = (asked(run(NeuralProcessSampler(PROCESS, seed=seed))) for seed in (1, 1, 2))
    assert first == second != other
    reseeded = NeuralProcessSampler(PROCESS, seed=1)
    reseeded.reseed_rng()
    assert asked(run(reseeded)) != first


def test_to_maximise_is_to_minimise_the_negative():
    down = run(NeuralProcessSampler(PROCESS, seed=1))
    up = run(NeuralProcessSampler(PROCESS, seed=1), lambda trial: -bowl(trial), direction="maximize")
    assert asked(down) == asked(up)


def test_trials_that_fail_or_are_pruned_teach_nothing_and_are_not_repeated():
    def fragile(trial):
        value = bowl(trial)
        if trial.number == 4:
            raise RuntimeError("out of memory")
        if trial.number == 5:
            raise optuna.TrialPruned
        return float("nan") if trial.number == 6 else value

    study = run(NeuralProcessSampler(PROCESS, seed=1), fragile, n_trials=10, catch=(RuntimeError,))
    states = [trial.state for trial in study.trials]
    assert states[4:7] == [TrialState.FAIL, TrialState.PRUNED, TrialState.FAIL] and len(set(asked(study))) == 10
    with pytest.raises(RuntimeError, match="out of memory"):
        run(NeuralProcessSampler(PROCESS, seed=1), fragile)


def test_all_values_of_a_small_space_are_tried_before_one_is_tried_again():
    study = run(NeuralProcessSampler(PROCESS, seed=0), lambda trial: trial.suggest_int("n", 0, 5) ** 2, n_trials=9)
    tried = [trial.params["n"] for trial in study.trials]
    assert len(set(tried[1:])) >= 5 and set(tried) == set(range(6))


def test_a_trial_that_still_runs_keeps_the_next_one_away():
    study = run(NeuralProcessSampler(PROCESS, seed=3), n_trials=6)
    running, other = (study.ask(SPACE) for _ in range(2))
    distance = Space.of(SPACE).box.to_unit(Space.of(SPACE).places([running.params, other.params]))
    assert np.abs(np.diff(distance, axis=0)).max() > 0.05


def test_a_network_searches_as_many_parameters_as_it_has_inputs():
    study = run(NeuralProcessSampler(fitted("mpanp"), seed=0), lambda trial: trial.suggest_float("x", 0, 1) ** 2, n_trials=5)
    assert len(set(asked(study))) == 5
    with pytest.raises(InputError, match="the bounds have 2 inputs, but the model reads 1"):
        run(NeuralProcessSampler(fitted("mpanp"), seed=0))


def test_arguments_are_checked():
    with pytest.raises(InputError, match="n_startup_trials must be a whole number of at least 0"):
        NeuralProcessSampler("random", n_startup_trials=-1)


def test_a_category_is_searched_together_with_numbers():
    def objective(trial):
        level = {"a": 0.5, "b": 0.0, "c": 1.0}[trial.suggest_categorical("c", ["a", "b", "c"])]
        return level + (trial.suggest_float("x", 0, 1) - 0.3) ** 2

    study = run(NeuralProcessSampler(seed=0), objective, n_trials=18)
    assert study.best_params["c"] == "b" and study.best_value < 0.01


def test_the_parameters_of_a_branch_are_searched_beside_those_that_all_trials_have():
    def objective(trial):
        if trial.suggest_categorical("branch", ["left", "right"]) == "left":
            return 1 + trial.suggest_float("y", 0, 1)
        return (trial.suggest_float("x", 0, 1) - 0.5) ** 2

    study = run(NeuralProcessSampler(seed=0), objective, n_trials=12)
    assert study.best_value < 0.1 and {"x", "y"} < {name for trial in study.trials for name in trial.params}


def test_violated_constraints_are_learnt():
    def objective(trial):
        value = -trial.suggest_float("x", 0, 1) - trial.suggest_float("y", 0, 1)
        trial.set_user_attr("excess", trial.params["x"] - 0.5)
        return value

    sampler = NeuralProcessSampler("gp", constraints_func=lambda trial: (trial.user_attrs["excess"],), seed=0)
    study = run(sampler, objective, n_trials=18)
    violations = [trial.user_attrs["excess"] > 0 for trial in study.trials]
    feasible = [trial.value for trial, violated in zip(study.trials, violations, strict=True) if not violated]
    assert sum(violations[6:]) <= 7 and min(feasible) < -1.3


def test_threads_do_not_repeat_one_another():
    study = run(NeuralProcessSampler("gp", search_space=SPACE, seed=0), n_trials=14, n_jobs=3)
    assert len(set(asked(study))) == 14


def test_a_sampler_survives_a_pickle():
    sampler = NeuralProcessSampler("gp", search_space=SPACE, seed=0)
    study = run(sampler, n_trials=6)
    study.sampler = pickle.loads(pickle.dumps(sampler))
    study.optimize(bowl, n_trials=1)
    again = run(NeuralProcessSampler("gp", search_space=SPACE, seed=0), n_trials=7)
    assert asked(again) == asked(study)


# Past studies


def past(direction="minimize", seed=0, n_trials=6, sign=1):
    return run(optuna.samplers.RandomSampler(seed=seed), lambda trial: sign * bowl(trial), n_trials, direction)


def learnt_from(curves):
    """A tiny network of random weights that takes itself for one that has learnt from these studies."""
    return fitted("mpanp", curves)


def test_a_study_becomes_a_task_in_its_own_units():
    studies = [past(seed=0), past("maximize", seed=1, sign=-1)]
    curves = tasks_from_studies(studies)
    assert curves.columns == Schema.named(("log rate", "width"), ("cost",), "study")
    assert curves.names == tuple(study.study_name for study in studies)
    for number, study in enumerate(studies):
        x, y = curves.pair(number)
        for trial, place, cost in zip(study.trials, x, y[:, 0], strict=True):
            np.testing.assert_allclose(place, [np.log(trial.params["rate"]), trial.params["width"]])
            assert cost == abs(trial.value)  # costs of a bowl are positive, whatever the direction


def test_studies_that_cannot_be_learnt_from_together_are_refused():
    def wide(trial):
        return trial.suggest_float("width", 0, 10)

    def linear(trial):
        return trial.suggest_float("rate", 1e-4, 1) + wide(trial)

    random = optuna.samplers.RandomSampler(seed=0)
    for objective, message in ((wide, "has width, and others have log rate, width"), (linear, "has rate, width")):
        with pytest.raises(InputError, match=message):
            tasks_from_studies([past(), run(random, objective, 3)])
    with pytest.raises(InputError, match="no studies"):
        tasks_from_studies([])
    with pytest.raises(InputError, match="none of the 1 studies has a finished trial"):
        tasks_from_studies([optuna.create_study()])
    with pytest.raises(InputError, match="2 objectives"):
        tasks_from_studies([optuna.create_study(directions=["minimize", "minimize"])])


@pytest.mark.filterwarnings("ignore::mpnp.OutsideRangeWarning")
def test_a_model_of_studies_is_asked_from_the_first_trial_if_it_is_told_the_space():
    model = learnt_from(tasks_from_studies([past(seed=seed) for seed in range(3)]))
    first = run(NeuralProcessSampler(model, search_space=SPACE, seed=0), n_trials=1).trials[0].params
    box = Space.of(SPACE).box
    posterior = model.condition()
    places = box.from_unit(np.random.default_rng(0).random((400, 2)))
    here = posterior.predict(Space.of(SPACE).places([first]))[0]
    assert here < np.quantile(posterior.predict(places), 0.05)  # about the lowest that it expects, knowing nothing yet
    study = optuna.create_study(sampler=NeuralProcessSampler(model, search_space=SPACE, seed=0))
    assert study.ask(SPACE).params != study.ask(SPACE).params  # the second does not wait for the first


@pytest.mark.filterwarnings("ignore::mpnp.OutsideRangeWarning")
def test_a_model_of_studies_reads_places_and_costs_as_it_learnt_them():
    curves = tasks_from_studies([past(seed=seed, n_trials=9) for seed in range(3)])
    model = learnt_from(curves)
    sampler = NeuralProcessSampler(model, search_space=SPACE, seed=0)
    belief, space = sampler._belief, Space.of(SPACE)
    x, y = curves.pair(0)
    asked_at = space.box.from_unit(np.random.default_rng(1).random((5, 2)))
    units = belief.units
    mean, std = belief.members[0].moments(
        units.inputs(x)[None], units.costs(y[:, 0])[None], units.inputs(asked_at), np.array([0])
    )
    wanted = model.condition(x, y).prediction(asked_at)
    np.testing.assert_allclose(units.scale.undo(mean)[0], wanted.mean[:, 0], rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(std[0] * units.scale.scale[0], wanted.std[:, 0], rtol=1e-3)


def test_past_studies_alone_tell_where_to_begin_and_need_no_network():
    studies = [past(seed=seed, n_trials=9) for seed in range(8)]
    made = [NeuralProcessSampler(past_studies=studies, search_space=SPACE, seed=0) for _ in range(2)]
    first, again = (run(sampler, n_trials=6) for sampler in made)
    assert asked(first) == asked(again)
    assert first.trials[0].value < np.quantile([trial.value for study in studies for trial in study.trials], 0.1)
    assert first.best_value < 0.02


@pytest.mark.filterwarnings("ignore::mpnp.OutsideRangeWarning")
def test_beside_a_model_of_studies_the_process_is_believed_as_far_as_it_predicts():
    studies = [past(seed=seed, n_trials=9) for seed in range(8)]
    model = learnt_from(tasks_from_studies(studies))  # of random weights: it predicts nothing
    study = run(NeuralProcessSampler(model, past_studies=studies, search_space=SPACE, seed=0), n_trials=6)
    assert study.best_value < 0.02


def test_past_studies_that_a_model_cannot_learn_from_are_refused():
    with pytest.raises(InputError, match="only the default model, or a model fitted to past studies"):
        NeuralProcessSampler("gp", past_studies=[past()])
    with pytest.raises(InputError, match="learnt from studies of log rate, width, but this one searches x"):
        run(NeuralProcessSampler(past_studies=[past()], seed=0), lambda trial: trial.suggest_float("x", 0, 1))


def test_a_model_of_studies_refuses_other_parameters():
    sampler = NeuralProcessSampler(learnt_from(tasks_from_studies([past(seed=seed) for seed in range(3)])), seed=0)
    with pytest.raises(InputError, match="learnt from studies of log rate, width, but this one searches x"):
        run(sampler, lambda trial: trial.suggest_float("x", 0, 1))


def test_a_model_of_studies_warns_of_a_box_that_they_never_reached():
    model = learnt_from(tasks_from_studies([past(seed=seed) for seed in range(3)]))
    with pytest.warns(OutsideRangeWarning, match="'width' reaches from 0 to 40"):
        NeuralProcessSampler(model, search_space={**SPACE, "width": FloatDistribution(0.0, 40.0)})
