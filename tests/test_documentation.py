"""What the README and the docs show runs as printed."""

import contextlib
import importlib.util
import re
import runpy
import sys

import gallery
import numpy as np
import pytest

import mpnp
from helpers.command_line import call
from helpers.documents import ROOT, code_blocks
from helpers.shapes import without_shape_checks
from mpnp.cli.main import parse
from mpnp.cli.train import _new_run
from mpnp.models.registry import MODELS
from mpnp.training.config import RECIPES, Recipe
from mpnp.training.rundir import PRETRAINED, RunDirectory

SHORT = Recipe(
    steps=2, batch_size=2, num_samples=2, learning_rate=1e-3, validate_every=2, validation_tasks=4, checkpoint_every=2
)
"""A recipe that is over at once, in place of the one that a document names."""


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


@pytest.fixture(scope="module")
def weather():
    """What the ten lines about one's own data leave behind."""
    (block,) = code_blocks("docs/own-data.md", "python")
    names = {}
    with contextlib.chdir(ROOT):
        exec(block, names)
    return names


def test_the_fit_of_the_docs_asks_for_the_maximum_of_a_day(weather):
    names = weather
    assert (names["low"] < names["median"]).all() and (names["median"] < names["high"]).all()
    assert len(names["warmest"].values) == 256 and set(names["when"].values) <= set(range(9, 24))


def test_the_tutorial_of_the_weather_runs(weather, monkeypatch, tmp_path):
    (block,) = code_blocks("docs/weather.md", "python")
    weather["model"].save(tmp_path / "model")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(block, names)
    low, high = names["highest"].interval(0.9)
    assert names["morning"].temp.max() <= low < high


def test_the_functions_of_the_theory_are_drawn():
    names = {"posterior": mpnp.load("cnp-rbf").condition([0.0, 1.0], [0.5, -0.5]), "grid": np.linspace(-2, 2, 5)}
    for block in code_blocks("docs/functions.md", "python"):
        exec(block, names)
    assert names["functions"].shape == (64, 5) and names["low"] < names["high"]


def test_any_curve_of_the_docs_is_read():
    (block,) = code_blocks("docs/curves.md", "python")
    names = {}
    exec(block, names)
    assert names["functions"].shape == (20, 50) and 300 < names["highest"][0] < 400


def test_the_training_of_the_docs_runs(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (block,) = code_blocks("docs/training.md", "python")
    names = {"RECIPE": SHORT}
    exec(block.replace('mpnp.RECIPES["quick"]', "RECIPE"), names)
    assert (tmp_path / "runs" / "b" / "best.safetensors").is_file()


def test_the_mechanism_of_the_docs_is_trained_and_judged(monkeypatch, tmp_path):
    mechanism, training, judgement = code_blocks("docs/research.md", "python")
    (tmp_path / "shifted.py").write_text(mechanism)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names = {"RECIPE": SHORT}
    try:
        exec(training.replace('mpnp.RECIPES["quick"]', "RECIPE"), names)
        exec(judgement.replace("num_tasks=200", "num_tasks=2"), names)
    finally:
        MODELS.pop("shifted", None)
    assert (names["generated"] > 0).all() and (names["resampled"] > 0).all()
    assert "functionals" in {section.name for section in names["report"].sections}


def test_the_gallery_draws_its_pictures_and_the_digit_is_completed(tmp_path):
    few = {
        "num_draws=20": "num_draws=2",
        "n=200": "n=4",
        "num_iterations=15": "num_iterations=2",
        "grid, 20": "grid, 2",
        "day, 20": "day, 2",
    }
    pictures = gallery.draw(tmp_path, few)
    assert [path.name for path in pictures] == sorted(path.name for path in (ROOT / "docs" / "gallery").glob("*.png"))
    with contextlib.chdir(tmp_path):
        (command,) = (line for line in COMMANDS if line.startswith("mpnp complete mpanp-mnist"))
        assert call(*command.split()[1:]).code == 0


def test_every_document_with_code_is_run_by_a_test():
    tests = "".join((ROOT / "tests" / name).read_text() for name in ("test_documentation.py", "integrations/test_botorch.py"))
    for document in DOCUMENTS:
        assert not code_blocks(document, "python") or document in tests or document == "docs/gallery.md", document


def test_the_site_and_the_list_for_language_models_have_every_document():
    navigation, listing = (ROOT / "mkdocs.yml").read_text(), (ROOT / "llms.txt").read_text()
    for document in DOCUMENTS:
        assert f": {document}\n" in navigation, document
        assert f"({document})" in listing or document.startswith("docs/api/") or document == "CHANGELOG.md", document


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


DOCUMENTS = [str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), *sorted(ROOT.glob("docs/**/*.md")))]

COMMANDS = [
    line.split("  ")[0].strip()
    for document in DOCUMENTS
    for block in code_blocks(document, "")
    for line in block.splitlines()
    if line.startswith("mpnp ") and line != "mpnp --version"
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
    for document in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "llms.txt", ROOT / "results" / "README.md"):
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
        named |= set(re.findall(r"(?<!tests/)benchmarks/(\w+\.py)", document.read_text()))
        if document.parent.name == "results":
            named |= set(re.findall(r"`(\w+\.py)`", document.read_text()))
    assert {name for name in named if not (ROOT / "benchmarks" / name).is_file()} == set()
    assert len(named) > 10


def test_the_contributors_tables_name_what_exists_where_it_is():
    section = (ROOT / "CONTRIBUTING.md").read_text().split("## Where things are")[1].split("## The backbone protocol")[0]
    located = re.findall(r"((?:`\w+`(?:, )?)+) in `(src/[\w/]+\.py)`", section)
    for names, path in located:
        for name in re.findall(r"\w+", names):
            assert re.search(rf"(?m)^((def|class) )?{name}\b", (ROOT / path).read_text()), (name, path)
    assert len(located) > 25
    paths = re.findall(r"`((?:src|tests|benchmarks)/[\w/.]+\.\w+)`", section)
    sources = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    names = set(re.findall(r"`(_?[A-Z][A-Za-z_]{3,}|_\w+|default_functionals|score_task)`", section))
    assert {path for path in paths if not (ROOT / path).is_file()} | {
        name for name in names if not re.search(rf"\b{name}\b", sources)
    } == set()
    assert len(names) > 20 and len(set(paths)) > 20
