"""Tables: their cells, their captions, and their Markdown and LaTeX."""

import dataclasses

import numpy as np

from helpers.reproduction import RATES, MadeUp, campaign_in, made_up_targets, on_rbf, run
from mpnp.io.files import write_json
from mpnp.reproduce.experiments import EXPERIMENTS
from mpnp.reproduce.paper import METRICS
from mpnp.reproduce.reference_scores import Ceiling, find_ceiling
from mpnp.reproduce.tables import TableView, comparison_table, latex, rates_table, score_table, write_tables


def ceiling_file(campaign):
    scores = {metric: {"mean": 0.25} for metric in METRICS}
    content = {"known_minus_inferred": {"floored": scores}, "evaluation": {"num_tasks": 3}, "inferred": {"floored": scores}}
    for task in ("rbf", "t-noise"):
        write_json(campaign.ceilings / f"{task}.json", content)


def test_a_table_cell_by_cell(tmp_path):
    campaign = campaign_in(tmp_path)
    ceiling_file(campaign)
    lines = on_rbf(campaign, "cnp", "np", "mpnp")
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
    line = next(line for line in EXPERIMENTS["regression"].rows(campaign.budget) if line.task == "t-noise")
    (job,) = run(campaign, [line]).jobs
    row, limit = score_table(campaign, TableView("t", "Title"), [line]).rows
    assert row[6] == f"{0.25 - made_up_targets(job.run, 6)[:3].mean():.3f}"
    assert limit[1] == "ceiling: kernel inferred, the first 3 test tasks"


def test_a_protocol_of_our_own_gets_no_difference_to_the_paper(tmp_path):
    campaign = campaign_in(tmp_path)
    lines = EXPERIMENTS["4d"].rows(campaign.budget)
    assert "target − paper's" in score_table(campaign, TableView("4d", "T", "4d"), lines).header
    shown = score_table(campaign, TableView("4d", "T", "4d", differences=False), lines)
    assert "target − paper's" not in shown.header and "paper: target" in shown.header


def test_images_that_are_not_prepared_say_so_and_stop_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("MPNP_DATA", str(tmp_path / "nothing"))
    campaign = campaign_in(tmp_path)
    lines = EXPERIMENTS["images"].rows(campaign.budget)
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
