"""What the README and the docs show runs as printed."""

import importlib.util
import re
import runpy
import sys

import numpy as np
import pytest

from helpers.command_line import call
from helpers.documents import ROOT, code_blocks
from helpers.shapes import without_shape_checks
from mpnp.cli.main import parse
from mpnp.cli.train import _new_run
from mpnp.training.config import RECIPES
from mpnp.training.rundir import PRETRAINED, RunDirectory


def test_the_ten_lines_of_the_readme_run(monkeypatch):
    monkeypatch.chdir(ROOT)
    (block,) = code_blocks("README.md", "python")
    names = {}
    exec(block, names)
    assert names["functions"].shape == (5, 200)
    assert np.all(names["low"] < names["median"]) and np.all(names["median"] < names["high"])
    assert 0 < names["below"][0] < 1 and len(names["posterior"].x) == 5


def test_the_predictor_of_the_docs_answers_one_task_and_many(monkeypatch):
    monkeypatch.chdir(ROOT)
    (block,) = code_blocks("docs/speed.md", "python")
    names = {}
    exec(block, names)
    assert names["posterior"].mean.shape == (100, 1)
    assert [posterior.mean.shape for posterior in names["posteriors"]] == [(50, 1)] * 3


def test_the_fit_of_the_docs_asks_for_the_maximum_of_a_day(monkeypatch):
    monkeypatch.chdir(ROOT)
    (block,) = code_blocks("docs/own-data.md", "python")
    names = {}
    exec(block, names)
    assert (names["low"] < names["median"]).all() and (names["median"] < names["high"]).all()
    assert len(names["warmest"].values) == 256 and set(names["when"].values) <= set(range(9, 24))


def test_the_check_of_the_docs_runs(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (block,) = code_blocks("docs/diagnostics.md", "python")
    names = {}
    exec(block.replace("num_tasks=200", "num_tasks=2"), names)
    assert "range" in names["report"]["functionals"].numbers and (tmp_path / "report.json").is_file()


def test_the_exported_predictor_of_the_docs_predicts(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    command = code_blocks("docs/export.md", "")[0].splitlines()[0]
    with without_shape_checks():
        assert call(*command.split()[1:]).code == 0
    (block,) = code_blocks("docs/export.md", "python")
    names = {}
    exec(block, names)
    assert names["answer"]["quantiles"].shape == (2, 1, 2) and names["functions"].shape == (20, 3, 1)


def test_the_loops_of_the_docs_run(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in code_blocks("docs/bayesopt.md", "python"):
        exec(block, names)
    assert names["result"].inputs.shape == (13, 1) and names["optimizer"].best.y == 3.7


def test_the_studies_of_the_docs_are_learnt_from(monkeypatch, tmp_path):
    optuna = pytest.importorskip("optuna", reason="needs the extra: pip install 'mpnp[optuna]'")
    monkeypatch.chdir(tmp_path)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    (block,) = code_blocks("docs/optuna.md", "python")
    names = {}
    exec(block, names)
    assert len({trial.params["rate"] for trial in names["study"].trials}) == 5


def test_the_task_family_of_the_docs_draws_tasks():
    (block,) = code_blocks("docs/tasks.md", "python")
    import jax

    names = {}
    exec(block, names)
    task = names["damped_waves"].sample(jax.random.key(0))
    assert task.mask.sum() >= 6
    assert np.all(np.abs(task.y) <= 1)


def test_the_example_forecasts_a_day(monkeypatch, tmp_path, capsys):
    out = tmp_path / "forecast.png"
    monkeypatch.setattr(sys, "argv", ["weather.py", "--model", "cnp", "--steps", "10", "--out", str(out)])
    monkeypatch.setenv("MPLBACKEND", "agg")
    runpy.run_path(str(ROOT / "examples" / "weather.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert "highest temperature of the day" in printed and len(printed.split("hour")[1].splitlines()) > 15
    assert out.stat().st_size > 10_000


COMMANDS = [
    line.split("  ")[0].strip()
    for document in (
        "README.md",
        "docs/training.md",
        "docs/tasks.md",
        "docs/speed.md",
        "docs/own-data.md",
        "docs/diagnostics.md",
        "docs/explore.md",
        "docs/export.md",
        "docs/images.md",
        "docs/predator-prey.md",
        "docs/bayesopt.md",
        "docs/reproduce.md",
        "docs/results.md",
    )
    for block in code_blocks(document, "")
    for line in block.splitlines()
    if line.startswith("mpnp ")
]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_that_the_documents_print_is_understood(command):
    assert callable(parse(command.split()[1:]).run)


def test_the_tables_in_the_documents_are_those_of_the_results():
    spec = importlib.util.spec_from_file_location("embed", ROOT / "benchmarks" / "embed.py")
    embed = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(embed)
    shown = 0
    for document in embed.documents():
        text = document.read_text()
        assert embed.embedded(text) == text, f"{document.name} is not up to date: run 'python benchmarks/embed.py'"
        shown += len(embed.PLACE.findall(text))
    assert shown > 3


def test_every_link_to_a_file_leads_to_one():
    dead, found = [], 0
    for document in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "results" / "README.md"):
        for target in re.findall(r"\]\(([^)#\s]+)", document.read_text()):
            if "://" not in target:
                found += 1
                dead += [] if (document.parent / target).exists() else [f"{document.name}: {target}"]
    assert dead == [] and found > 100


def test_the_command_of_the_packaged_model_of_digits_gives_its_configuration():
    (command,) = re.findall(r"`mpnp (train --model mpanp --task mnist [^`]*)`", (ROOT / "docs" / "images.md").read_text())
    assert _new_run(parse(command.split()))[0] == RunDirectory(PRETRAINED / "mpanp-mnist").config()


def test_the_table_of_recipes_is_true():
    rows = re.findall(
        r"\| `(\w+)` \| ([\d,]+) \| (\d+) \| (\d+) \| ([\de.-]+) \| (\w+) \|", (ROOT / "docs/training.md").read_text()
    )
    printed = {
        name: (int(steps.replace(",", "")), int(batch), int(k), float(rate), by) for name, steps, batch, k, rate, by in rows
    }
    actual = {name: (r.steps, r.batch_size, r.num_samples, r.learning_rate, r.optimizer) for name, r in RECIPES.items()}
    assert printed == actual


def test_every_script_that_documents_name_exists():
    named = set()
    for document in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "results" / "README.md"):
        named |= set(re.findall(r"benchmarks/(\w+\.py)", document.read_text()))
        if document.parent.name == "results":
            named |= set(re.findall(r"`(\w+\.py)`", document.read_text()))
    assert {name for name in named if not (ROOT / "benchmarks" / name).is_file()} == set()
    assert len(named) > 10
