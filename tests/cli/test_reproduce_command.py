"""The command that reproduces the paper: one small table by real training, and one line for everything that goes wrong."""

import shutil

import pytest
from matplotlib.figure import Figure

from helpers.command_line import call
from helpers.documents import RESULTS
from helpers.reproduction import campaign_in, tiny_budget
from mpnp.cli import reproduce
from mpnp.io.files import environment
from mpnp.reproduce import experiments, figures
from mpnp.reproduce.budgets import BUDGETS
from mpnp.reproduce.experiments import EXPERIMENTS
from mpnp.training import evaluate
from mpnp.training.rundir import RunDirectory


@pytest.fixture(scope="module", autouse=True)
def tiny():
    """A budget of two steps; the oracle and matched widths take seconds, and are tested elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(BUDGETS, "tiny", tiny_budget())
        patch.setattr(evaluate, "has_oracle", lambda family: False)
        patch.setattr(experiments, "matched_width", lambda model, settings: 2 * settings.width)
        yield


def options(home, *more):
    return ("--budget", "tiny", "--out", home / "out", "--runs", home / "runs", "--ceilings", home / "ceilings", *more)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two lines of a table, one of whose runs was killed before its first checkpoint."""
    home = tmp_path_factory.mktemp("made")
    campaign = campaign_in(home)
    killed = next(line for line in EXPERIMENTS["direct"].rows(campaign.budget) if line.model == "cnp").run(
        campaign.budget.efforts["pooled"], 0, 1e-3
    )
    RunDirectory(campaign.directory(killed)).create(killed.config())
    return home, call("reproduce", "direct", "--models", "cnp", "np", *options(home))


def rows(answer):
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in answer.out.splitlines() if line.startswith("| rbf")]
    return {row[1]: row for row in cells if len(row) > 8}


def test_a_small_table_comes_about(made):
    home, answer = made
    assert answer.code == 0, answer.err
    table = rows(answer)
    assert table["cnp"][3] != "not run" and table["np"][3] != "not run" and table["mpnp"][3] == "not run"
    assert answer.out.splitlines()[0].startswith("[1 of 2] rbf/cnp-seed0-rate0.001-steps2: target ")
    for name in ("tables/direct.md", "tables/direct.tex", "figures/direct-learning-curves.png"):
        assert f"wrote {home / 'out/tiny' / name}" in answer.out and (home / "out/tiny" / name).is_file()


def test_a_record_holds_the_scores_of_all_tasks_and_the_learning_curve(made):
    campaign = campaign_in(made[0])
    line = next(line for line in EXPERIMENTS["direct"].rows(campaign.budget) if line.model == "np")
    record = campaign.record(line, 0)
    assert record.target.shape == (6,) and record.mean("target") == pytest.approx(record.target.mean(), rel=1e-6)
    assert [row["step"] for row in record.curve] == [0, 1, 2]
    assert record.score["training"]["seed"] == 0 and record.content["config"]["model"] == "np"
    assert record.content["environment"] == environment()


def test_what_has_a_record_is_not_trained_again_even_if_its_run_is_gone(made, tmp_path):
    home, answer = made
    shutil.copytree(home / "out", tmp_path / "out")
    again = call("reproduce", "direct", "--models", "cnp", "np", *options(tmp_path))
    assert again.code == 0 and rows(again) == rows(answer) and "[1 of" not in again.out
    assert not (tmp_path / "runs").exists()


def test_records_alone_are_drawn(made, tmp_path):
    home, answer = made
    shutil.copytree(home / "out", tmp_path / "out")
    assert rows(call("reproduce", "direct", "--draw-only", *options(tmp_path))) == rows(answer)
    empty = call("reproduce", "posterior-samples", "--draw-only", *options(tmp_path))
    assert empty.code == 0 and "nothing to draw" in empty.out


def test_the_listing_counts_what_is_there(made, monkeypatch):
    home, _ = made
    monkeypatch.setenv("MPNP_DATA", str(home / "no data"))
    listed = {line.split()[0]: line for line in call("reproduce", *options(home)).out.splitlines() if line}
    assert "2 of 12" in listed["direct"] and listed["direct"].split()[-5] == "10"
    assert "10 runs of unknown cost" in listed["direct"]
    assert "0 of 24" in listed["images"] and "data of celeba, mnist, svhn" in listed["images"]
    assert set(EXPERIMENTS) < set(listed)


def test_all_is_everything(made, monkeypatch):
    shown = []
    monkeypatch.setattr(reproduce, "_show", lambda campaign, artefact: shown.append(artefact.name))
    assert call("reproduce", "all", "--draw-only", *options(made[0])).code == 0
    assert shown == list(EXPERIMENTS)


def test_tables_without_a_line_that_was_chosen_are_left_out(made, monkeypatch):
    shown = []
    monkeypatch.setattr(reproduce, "_show", lambda campaign, artefact: shown.append(artefact.name))
    assert call("reproduce", "4d", "direct", "--draw-only", "--tasks", "rbf", *options(made[0])).code == 0
    assert shown == ["direct"]


def test_a_figure_of_a_model_whose_run_is_gone_trains_it_again(made, tmp_path):
    home, _ = made
    campaign = campaign_in(home)
    (line,) = EXPERIMENTS["posterior-samples"].rows(campaign.budget)
    assert call("reproduce", "posterior-samples", *options(home)).code == 0
    shutil.copytree(home / "out", tmp_path / "out")
    again = call("reproduce", "posterior-samples", *options(tmp_path))
    assert again.code == 0 and "posterior-samples-mpanp-rbf.png" in again.out
    assert campaign_in(tmp_path).trained([line]).keys() == {"mpanp"}


def test_figures_of_models_whose_runs_are_gone_are_named_and_made_again(made, tmp_path, monkeypatch):
    home, _ = made
    monkeypatch.setattr(figures, "plot_posterior", lambda model, family, *, num_samples: Figure())
    chosen = ("direct", "--models", "mpanp-dsi", *options(home))
    assert f"wrote {home / 'out/tiny/figures/direct-mpanp-dsi-rbf.png'}" in call("reproduce", *chosen).out
    shutil.rmtree(home / "runs" / "tiny" / "rbf" / "mpanp-dsi-seed0-rate0.001-steps2")
    dropped = call("reproduce", *chosen).out.splitlines()
    assert dropped[-1] == (
        "direct: no figures of mpanp-dsi, whose runs are gone; 'mpnp reproduce direct --budget tiny --retrain' makes them again"
    )
    assert not any("direct-mpanp-dsi-rbf.png" in line for line in dropped)
    again = call("reproduce", *chosen, "--retrain").out
    assert "direct-mpanp-dsi-rbf.png" in again and "runs are gone" not in again


@pytest.mark.parametrize("name", sorted(path.stem for path in (RESULTS / "reproduce/hours/tables").glob("*.md")))
def test_the_tables_of_the_results_are_what_their_records_say(name, tmp_path):
    out = tmp_path / "reproduce"
    shutil.copytree(RESULTS / "reproduce", out)
    folders = ("--out", out, "--runs", tmp_path / "none", "--ceilings", RESULTS / "ceilings")
    assert call("reproduce", name, "--budget", "hours", "--draw-only", *folders).code == 0
    for ending in ("md", "tex"):
        table = f"hours/tables/{name}.{ending}"
        assert (out / table).read_text() == (RESULTS / "reproduce" / table).read_text()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["regresion"], "unknown table or figure 'regresion'. Did you mean 'regression'?"),
        (["direct", "--budget", "hour"], "unknown budget 'hour'. Did you mean 'hours'?"),
        (["direct", "--engine", "rays"], "unknown engine 'rays'. Did you mean 'ray'?"),
        (["direct", "--models", "mpmp"], "unknown model 'mpmp'. Did you mean 'mpnp'?"),
        (["direct", "--tasks", "rbf", "matern"], "unknown task 'matern'. Your selection has: rbf."),
        (["4d", "--models", "mpnp-dsi"], "unknown model 'mpnp-dsi'. Did you mean 'mpnp'? Your selection has: cnp, np,"),
        (["4d", "direct", "--models", "mpnp-dsi", "--tasks", "rbf-4d"], "no row combines mpnp-dsi with rbf-4d; leave out"),
        (["direct", "--seeds", "0"], "--seeds must be a whole number of at least 1, got 0"),
    ],
)
def test_mistakes_are_one_line(arguments, complaint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = call("reproduce", *arguments)
    assert answer.code == 2 and complaint in answer.err and len(answer.err.splitlines()) == 1
