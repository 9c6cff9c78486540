"""Campaigns: which jobs are run, and what their records hold, without any training."""

import numpy as np
import pytest

from helpers.reproduction import MADE_IN, RATES, MadeUp, campaign_in, made_up_targets, on_rbf, run, tiny_budget
from mpnp.errors import InputError, RunError
from mpnp.io.files import read_json, write_json
from mpnp.reproduce import experiments
from mpnp.reproduce.executor import train_again
from mpnp.reproduce.experiments import EXPERIMENTS
from mpnp.reproduce.jobs import Job, Outcome
from mpnp.reproduce.tables import TableView, rates_table, score_table


def test_the_best_rate_is_taken_for_all_seeds_and_a_trial_as_long_as_a_run_is_that_run(tmp_path):
    for trial_steps in (1, 2):
        campaign = campaign_in(tmp_path / str(trial_steps), num_seeds=2, rates=RATES, trial_steps=trial_steps)
        (line,) = on_rbf(campaign, "cnp")
        jobs = run(campaign, [line]).jobs
        trials, runs = jobs[:2], jobs[2:]
        assert [job.run.recipe.learning_rate for job in trials] == list(RATES) and not any(job.tests for job in trials)
        assert [(job.run.seed, job.run.recipe.learning_rate, job.run.recipe.steps) for job in runs] == [
            (0, 2e-3, 2),
            (1, 2e-3, 2),
        ]
        assert (trials[1].run == runs[0].run) == (trial_steps == 2)


def test_trials_and_failures_say_in_which_environment_they_were_made(tmp_path):
    campaign = campaign_in(tmp_path, rates=RATES, trial_steps=1)
    (line,) = on_rbf(campaign, "cnp")
    run(campaign, [line], MadeUp(diverge=RATES))
    assert [trial["environment"] for trial in campaign.trials(line).values()] == [MADE_IN, MADE_IN]
    assert campaign.record(line, 0).content["environment"] == MADE_IN


def test_rates_tried_on_one_task_serve_every_task(tmp_path):
    campaign = campaign_in(tmp_path, rates=RATES, trial_steps=1, tried_on="rbf")
    lines = [line for line in EXPERIMENTS["regression"].rows(campaign.budget) if line.model == "cnp"]
    jobs = run(campaign, lines).jobs
    assert [job.run.task for job in jobs if not job.tests] == ["rbf", "rbf"]
    assert [job.run.task for job in jobs if job.tests] == list(experiments.REGRESSION_TASKS)
    assert {campaign.rate(line) for line in lines} == {RATES[1]}
    assert rates_table(campaign, TableView("t", "T"), lines).rows == [["rbf", "cnp", "0.001", "0.002", "0.002"]]


def test_a_rate_that_diverges_is_recorded_and_not_taken(tmp_path):
    campaign = campaign_in(tmp_path, rates=RATES)
    (line,) = on_rbf(campaign, "cnp")
    run(campaign, [line], MadeUp(diverge=RATES[1:]))
    assert campaign.rate(line) == RATES[0]
    assert rates_table(campaign, TableView("t", "T"), [line]).rows == [["rbf", "cnp", "0.002", "diverged", "0.001"]]


def test_a_model_that_diverges_at_all_rates_gets_a_record_that_says_so_and_stops_nobody(tmp_path):
    campaign = campaign_in(tmp_path, rates=RATES, trial_steps=1)
    cnp, mpnp = lines = on_rbf(campaign, "cnp", "mpnp")
    run(campaign, [cnp], MadeUp(diverge=RATES))
    run(campaign, [mpnp])
    assert campaign.rate(cnp) == RATES[0] and campaign.count_missing(lines) == 0
    table = score_table(campaign, TableView("t", "T"), lines)
    assert [row[3] == "diverged" for row in table.rows[:2]] == [True, False]


def test_what_was_done_before_a_stop_is_not_done_again(tmp_path):
    campaign = campaign_in(tmp_path, num_seeds=2, rates=RATES)
    lines = on_rbf(campaign, "cnp", "mpnp")
    whole, stopped = run(campaign_in(tmp_path / "whole", num_seeds=2, rates=RATES), lines), MadeUp(stop_after=5)
    with pytest.raises(KeyboardInterrupt):
        run(campaign, lines, stopped)
    rest = run(campaign, lines)
    assert [job.run for job in stopped.jobs + rest.jobs] == [job.run for job in whole.jobs] and len(rest.jobs) == 3
    assert run(campaign, lines).jobs == []


def test_models_whose_runs_are_gone_can_be_trained_again_but_not_those_that_diverged(tmp_path):
    campaign = campaign_in(tmp_path)
    cnp, mpnp = lines = on_rbf(campaign, "cnp", "mpnp")
    assert campaign.missing_models(lines) == []  # without records they are missing altogether
    run(campaign, [cnp])
    run(campaign, [mpnp], MadeUp(diverge=campaign.effort(mpnp).rates))
    (job,) = campaign.missing_models(lines)
    assert job.run == campaign.run(cnp, 0) and not job.tests
    kept = (tmp_path / "out/tiny/records" / job.run.name / "rbf.json").read_bytes()
    train_again(campaign, lines, engine := MadeUp(), lambda text: None)
    assert engine.jobs == [job] and (tmp_path / "out/tiny/records" / job.run.name / "rbf.json").read_bytes() == kept
    assert not (tmp_path / "out/tiny/trials").exists()


def test_one_job_makes_all_tests_of_a_run(tmp_path):
    campaign = campaign_in(tmp_path)
    jobs = run(campaign, EXPERIMENTS["predator-prey"].rows(campaign.budget)).jobs
    assert len(jobs) == 8
    assert all([(test.task, test.num_tasks) for test in job.tests] == [("lotka-volterra", 6), ("hare-lynx", 4)] for job in jobs)


def test_records_keep_every_task_s_score(tmp_path):
    campaign = campaign_in(tmp_path)
    (line,) = on_rbf(campaign, "mpnp")
    (job,) = run(campaign, [line]).jobs
    np.testing.assert_array_equal(campaign.record(line, 0).target, made_up_targets(job.run, 6))
    assert campaign.record(line, 0).curve[-1]["step"] == 2


def test_records_of_other_recipes_budgets_and_tests_are_refused(tmp_path):
    campaign = campaign_in(tmp_path)
    (line,) = on_rbf(campaign, "cnp")
    run(campaign, [line])
    (path,) = (campaign.folder / "records").rglob("*.json")
    content = read_json(path)
    for change, complaint in (
        ({"budget": "other"}, "is not a record of the budget 'tiny'"),
        ({"config": content["config"] | {"seed": 7}}, "another recipe than the budget 'tiny' now has"),
        ({"score": content["score"] | {"evaluation": {"num_tasks": 9, "num_samples": 2}}}, "tested on 9 tasks with 2 samples"),
    ):
        write_json(path, content | change)
        with pytest.raises(RunError, match=complaint):
            campaign.record(line, 0)
    write_json(path, content)
    path.with_suffix(".npy").write_bytes(b"junk")
    with pytest.raises(RunError, match="missing or damaged"):
        campaign.record(line, 0)


def test_a_record_of_before_a_recipe_had_an_option_is_of_the_option_s_default(tmp_path):
    campaign = campaign_in(tmp_path)
    (line,) = on_rbf(campaign, "mpnp")
    run(campaign, [line])
    (path,) = (campaign.folder / "records").rglob("*.json")
    content = read_json(path)
    recipe = content["config"]["recipe"]
    older = {name: value for name, value in recipe.items() if name not in ("initialisation", "core_share")}
    write_json(path, content | {"config": content["config"] | {"recipe": older}})
    assert campaign.record(line, 0) is not None
    for damaged in (recipe | {"core_share": 0.5}, recipe | {"core_share": 2.0}, recipe | {"unheard_of": 1}, None):
        write_json(path, content | {"config": content["config"] | {"recipe": damaged}})
        with pytest.raises(RunError, match="another recipe"):
            campaign.record(line, 0)


def test_jobs_and_outcomes_survive_their_journey(tmp_path):
    campaign = campaign_in(tmp_path)
    (job,) = campaign.missing_runs(on_rbf(campaign, "mpnp"))
    assert Job.from_json(job.to_json()) == job
    outcome = MadeUp().outcome(job)
    again = Outcome.from_json(outcome.to_json())
    assert (again.config, again.curve, again.failure) == (outcome.config, outcome.curve, None)
    np.testing.assert_array_equal(again.scores["rbf"].target, outcome.scores["rbf"].target)


def test_no_campaign_without_a_seed_and_no_effort_without_a_rate(tmp_path):
    with pytest.raises(InputError, match="--seeds must be a whole number of at least 1, got 0"):
        campaign_in(tmp_path, num_seeds=0)
    with pytest.raises(InputError, match="--seeds must be at most 1000"):
        campaign_in(tmp_path, num_seeds=10**20)
    with pytest.raises(InputError, match="at least one learning rate"):
        tiny_budget(rates=())
