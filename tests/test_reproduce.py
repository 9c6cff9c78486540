"""Reproduction of the paper's tables: plan, budgets, records, comparisons and rendering, without any training."""

import dataclasses

import jax
import numpy as np
import pytest

from mpnp.errors import InputError, RunError
from mpnp.models.catalogue import build, num_parameters
from mpnp.records import read_json, write_json
from mpnp.reproduce import budgets, comparisons, plan
from mpnp.reproduce.artefacts import ARTEFACTS
from mpnp.reproduce.budgets import BUDGETS
from mpnp.reproduce.comparisons import compare, paired_bootstrap
from mpnp.reproduce.jobs import Job, Outcome
from mpnp.reproduce.limits import Ceiling, find_ceiling
from mpnp.reproduce.paper import METRICS, paper_row, paper_rows
from mpnp.reproduce.plan import PLANS, matched_width
from mpnp.reproduce.render import latex
from mpnp.reproduce.runner import run_missing, train_again
from mpnp.reproduce.tables import TableView, comparison_table, rates_table, score_table, write_tables
from reproduction import RATES, MadeUp, campaign_in, made_up_targets, tiny_budget


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    monkeypatch.setattr(comparisons, "NUM_RESAMPLES", 50)


@pytest.fixture
def any_width(monkeypatch):
    """The width that matches takes seconds to find, and is tested by itself."""
    monkeypatch.setattr(plan, "matched_width", lambda model, settings: 2 * settings.width)


def run(campaign, lines, engine=None):
    engine = engine or MadeUp()
    run_missing(campaign, lines, engine, lambda text: None)
    return engine


def on_rbf(campaign, *models):
    return [line for line in PLANS["regression"](campaign.budget) if line.task == "rbf" and line.model in models]


# The paper's numbers


@pytest.mark.parametrize(
    ("table", "tested_on", "model", "metric", "mean", "std"),
    [
        ("regression", "rbf", "mpanp", "target", 0.881, 0.003),
        ("regression", "periodic", "np", "context", -0.267, 0.024),
        ("regression", "t-noise", "bnp", "target", -0.619, 0.191),
        ("size-matched", "matern", "banp", "task", 1.012, 0.014),
        ("4d", "rbf-4d", "anp", "target", 0.320, 0.014),
        ("images", "celeba", "mpnp", "task", 2.407, 0.006),
        ("predator-prey", "hare-lynx", "canp", "context", -4.743, 1.119),
        ("direct", "rbf", "mpanp-dse", "target", 0.783, 0.014),
    ],
)
def test_cells_of_the_paper(table, tested_on, model, metric, mean, std):
    score = paper_row(table, tested_on, model).scores[metric]
    assert (score.mean, score.std) == (mean, std)


def test_sizes_of_the_paper():
    assert paper_row("size-matched", "rbf", "banp").parameters == 885_000
    assert paper_row("regression", "rbf", "banp").parameters is None


def test_every_row_of_the_paper_has_its_line_and_the_other_way_round(any_width):
    tables = {table for table, _, _ in paper_rows()}
    wanted = {(table, line.tested_on, line.model) for table in tables for line in PLANS[table](tiny_budget())}
    assert wanted == set(paper_rows()) and len(paper_rows()) == 108


def test_what_the_paper_prints_twice_is_the_same():
    for (table, tested_on, model), row in paper_rows().items():
        if table == "direct" and (other := paper_row("regression", tested_on, model)):
            assert row == other


# Plan and budgets


def test_every_table_and_figure_has_a_plan_and_an_output():
    assert set(ARTEFACTS) == set(PLANS)
    assert all(artefact.outputs for artefact in ARTEFACTS.values())


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=lambda budget: budget.name)
def test_runs_of_one_name_are_one_run_and_models_of_a_group_are_treated_alike(budget, any_width):
    lines = [line for make in PLANS.values() for line in make(budget)]
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


@pytest.mark.parametrize("budget", [budgets.HOURS, budgets.PAPER], ids=lambda budget: budget.name)
def test_finite_training_sets_are_seen_as_often_as_in_the_paper(budget):
    recipe = budget.efforts["finite-data"].recipe
    seen = [recipe.steps * recipe.batch_size / size for size in budget.finite_sizes]
    assert seen == [500, 250, 100]


def test_the_paper_s_budget_is_the_paper_s():
    effort = budgets.PAPER.efforts["pooled"]
    assert (effort.recipe.steps, effort.recipe.batch_size, effort.recipe.num_samples) == (100_000, 256, 10)
    assert (effort.recipe.optimizer, len(effort.rates), effort.num_test) == ("adam", 5, 25_600)
    assert (budgets.PAPER.num_seeds, budgets.PAPER.finite_sizes) == (4, (51_200, 102_400, 256_000))
    assert budgets.PAPER.efforts["mnist"].recipe.num_samples == 5


def test_tables_share_their_runs(tmp_path):
    campaign = campaign_in(tmp_path)
    run(campaign, PLANS["regression"](campaign.budget))
    direct = run(campaign, PLANS["direct"](campaign.budget))
    assert {job.run.model for job in direct.jobs} == {"mpnp-dsi", "mpnp-dse", "mpanp-dsi", "mpanp-dse"}
    for name in ("regression-full", "bayesopt", "posterior-samples", "pseudo-use", "learning-curves"):
        assert run(campaign, PLANS[name](campaign.budget)).jobs == []


def test_a_matched_width_is_the_smallest_that_reaches_the_martingale_model():
    settings = tiny_budget().settings

    def count(model, width=None):
        sized = dataclasses.replace(settings, encoder_width=width)
        return num_parameters(jax.eval_shape(lambda: build(model, key=jax.random.key(0), settings=sized)))

    width = matched_width("np", settings)
    assert count("np", width - 1) < count("mpnp") <= count("np", width)


# Records


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


def test_rates_tried_on_one_task_serve_every_task(tmp_path):
    campaign = campaign_in(tmp_path, rates=RATES, trial_steps=1, tried_on="rbf")
    lines = [line for line in PLANS["regression"](campaign.budget) if line.model == "cnp"]
    jobs = run(campaign, lines).jobs
    assert [job.run.task for job in jobs if not job.tests] == ["rbf", "rbf"]
    assert [job.run.task for job in jobs if job.tests] == list(plan.REGRESSION_TASKS)
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
    jobs = run(campaign, PLANS["predator-prey"](campaign.budget)).jobs
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
        ({"config": content["config"] | {"seed": 7}}, "another recipe than the budget 'tiny' has now"),
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
    with pytest.raises(InputError, match="--seeds must be at least 1, got 0"):
        campaign_in(tmp_path, num_seeds=0)
    with pytest.raises(InputError, match="at least one learning rate"):
        tiny_budget(rates=())


# Comparisons


def test_the_bootstrap_interval_of_a_mean_is_the_normal_one(monkeypatch):
    monkeypatch.setattr(comparisons, "NUM_RESAMPLES", 4_000)
    differences = np.random.default_rng(0).normal([0.5, -1.0], [1.0, 3.0], size=(400, 2))
    for column, (low, high) in zip(differences.T, paired_bootstrap(differences), strict=True):
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


# Tables


def ceiling_file(campaign):
    scores = {metric: {"mean": 0.25} for metric in METRICS}
    content = {"known_minus_inferred": {"floored": scores}, "evaluation": {"num_tasks": 3}, "inferred": {"floored": scores}}
    for task in ("rbf", "t-noise"):
        write_json(campaign.ceilings / f"{task}.json", content)


def test_a_table_cell_by_cell(tmp_path):
    campaign = campaign_in(tmp_path)
    ceiling_file(campaign)
    lines = [
        line for line in PLANS["regression"](campaign.budget) if line.task == "rbf" and line.model in ("cnp", "np", "mpnp")
    ]
    run(campaign, lines[:1] + lines[2:])
    table = score_table(campaign, TableView("t", "Title", "regression", ("context", "target")), lines)
    luck = np.random.default_rng(0).normal(0, 0.01)
    cnp, mpnp = 3.25 + luck, 4.25 + luck
    assert table.header == [
        *("tested on", "model", "parameters", "context", "target", "paper: context", "paper: target"),
        *("target − paper's", "gap to ceiling", "CPU-s"),
    ]
    assert table.rows == [
        ["rbf", "cnp", "1,234", f"{cnp + 1:.3f} ± 0.125", f"{cnp:.3f} ± 0.125", "1.096 ± 0.023", "0.515 ± 0.018",
         f"{cnp - 0.515:+.3f}", f"{8.75 - cnp:.3f}", "60"],
        ["rbf", "np", "", "not run", "not run", "1.022 ± 0.005", "0.498 ± 0.003", "", "", ""],
        ["rbf", "mpnp", "1,234", f"{mpnp + 1:.3f} ± 0.125", f"{mpnp:.3f} ± 0.125", "1.189 ± 0.005", "0.675 ± 0.003",
         f"{mpnp - 0.675:+.3f}", f"{8.75 - mpnp:.3f}", "60"],
        ["rbf", "ceiling: kernel inferred, all test tasks", "", "8.750", "8.750", "", "", "", "", ""],
        ["rbf", "exact GP, kernel known", "", "9.000", "9.000", "", "", "", "", ""],
    ]  # fmt: skip
    assert "± is the standard error over test tasks" in table.caption and "2 steps of 2 tasks, adam" in table.caption


def test_without_records_the_ceiling_is_that_of_the_most_tasks(tmp_path):
    few, many = ({"floored": {"target": {"mean": value}}} for value in (0.25, 0.5))
    content = {"evaluation": {"num_tasks": 3}, "inferred": few}
    write_json(tmp_path / "t-noise.json", content)
    write_json(tmp_path / "rbf.json", content | {"carried_over": {"num_tasks": 4_000, "inferred": many}})
    assert find_ceiling(tmp_path, "t-noise", []) == Ceiling({"target": 0.25}, 3, "the first 3 test tasks")
    assert find_ceiling(tmp_path, "rbf", []) == Ceiling({"target": 0.5}, 4_000, "the first 4,000 test tasks")
    assert find_ceiling(tmp_path, "matern", []) is None


def test_with_seeds_the_spread_is_theirs_and_missing_ones_are_counted(tmp_path):
    campaign = campaign_in(tmp_path, num_seeds=3)
    (line,) = on_rbf(campaign, "cnp")
    run(dataclasses.replace(campaign, num_seeds=2), [line])
    luck = [np.random.default_rng(seed).normal(0, 0.01) for seed in range(2)]
    table = score_table(campaign, TableView("t", "Title"), [line])
    assert table.rows[0][1] == "cnp (2 of 3 seeds)"
    assert table.rows[0][4] == f"{3.25 + np.mean(luck):.3f} ± {np.std(luck, ddof=1):.3f}"
    assert "± is the standard deviation over seeds" in table.caption
    (other,) = on_rbf(campaign, "np")
    run(dataclasses.replace(campaign, num_seeds=1), [other])
    assert "±" not in score_table(campaign, TableView("t", "Title"), [other]).rows[0][4]


def test_models_that_share_no_seed_are_not_compared(tmp_path):
    campaign = campaign_in(tmp_path, num_seeds=2)
    lines = cnp, mpnp = on_rbf(campaign, "cnp", "mpnp")
    run(dataclasses.replace(campaign, num_seeds=1), [cnp])
    run(campaign, [mpnp])
    for path in (tmp_path / "out/tiny/records/rbf").glob("mpnp-seed0-*/rbf.*"):
        path.unlink()
    assert compare(campaign, lines) == []


def test_scores_on_a_subset_say_so_and_are_not_held_against_the_paper(tmp_path):
    campaign, engine = campaign_in(tmp_path), MadeUp()
    engine.data = "subset: 10 train, 2 validation, 2 test"
    lines = on_rbf(campaign, "cnp")
    table = score_table(campaign, TableView("t", "T", "regression"), run(campaign, lines, engine) and lines)
    row = dict(zip(table.header, table.rows[0], strict=True))
    assert row["tested on"] == "rbf (subset)" and row["target"] and row["target − paper's"] == ""


def test_without_an_oracle_the_gap_is_taken_on_the_ceiling_s_own_tasks(tmp_path):
    campaign = campaign_in(tmp_path)
    ceiling_file(campaign)
    line = next(line for line in PLANS["regression"](campaign.budget) if line.task == "t-noise")
    (job,) = run(campaign, [line]).jobs
    row, limit = score_table(campaign, TableView("t", "Title"), [line]).rows
    assert row[6] == f"{0.25 - made_up_targets(job.run, 6)[:3].mean():.3f}"
    assert limit[1] == "ceiling: kernel inferred, the first 3 test tasks"


def test_a_protocol_of_our_own_gets_no_difference_to_the_paper(tmp_path):
    campaign = campaign_in(tmp_path)
    lines = PLANS["4d"](campaign.budget)
    assert "target − paper's" in score_table(campaign, TableView("4d", "T", "4d"), lines).header
    shown = score_table(campaign, TableView("4d", "T", "4d", differences=False), lines)
    assert "target − paper's" not in shown.header and "paper: target" in shown.header


def test_images_that_are_not_prepared_say_so_and_stop_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("MPNP_DATA", str(tmp_path / "nothing"))
    campaign = campaign_in(tmp_path)
    lines = PLANS["images"](campaign.budget)
    assert run(campaign, lines).jobs == []
    table = score_table(campaign, TableView("images", "T", "images"), lines)
    assert {row[3] for row in table.rows} == {"not prepared"}
    for name in ("mnist", "svhn", "celeba"):
        assert f"{name} is not prepared: run 'mpnp data {name} --from FOLDER'" in table.caption


def test_markdown_and_latex_hold_the_same_cells(tmp_path):
    campaign = campaign_in(tmp_path, rates=RATES)
    lines = on_rbf(campaign, "cnp", "mpnp")
    run(campaign, lines)
    view = TableView("small", "Small table")
    markdown_file, latex_file = write_tables(campaign, view, lines)
    shown, source = markdown_file.read_text(), latex_file.read_text()
    for table in (view_table(campaign, view, lines) for view_table in (score_table, comparison_table, rates_table)):
        for row in [table.header, *table.rows]:
            assert f"| {' | '.join(row)} |" in shown
            escaped = [cell.replace("±", r"$\pm$").replace("%", r"\%").replace("−", "$-$") for cell in row]
            assert " & ".join(escaped) + r" \\" in source
    assert source.count(r"\begin{tabular}") == source.count(r"\end{tabular}") == 3


def test_latex_separates_groups_and_escapes():
    text = latex(["a", "b"], [["x_1", "1%"], ["x_1", "2"], ["y", "3 ± 1"]], "A & B", "name")
    assert text.splitlines()[7:14] == [
        r"a & b \\", r"\midrule", r"x\_1 & 1\% \\", r"x\_1 & 2 \\", r"\midrule", r"y & 3 $\pm$ 1 \\", r"\bottomrule",
    ]  # fmt: skip
    assert r"\caption{A \& B}" in text and r"\label{table/name}" in text
