"""Runs and models from strangers: reading one never runs code."""

import json
import shutil
import sys

import pytest

import mpnp
from helpers.command_line import call, files, flags
from helpers.models import SETTINGS
from helpers.shapes import without_shape_checks
from mpnp.errors import InputError
from mpnp.tasks import registry
from mpnp.training.config import Recipe, RunConfig

MODULE, TASK = "family_of_a_stranger", "family_of_a_stranger:family"

SOURCE = """
from mpnp.tasks.base import FunctionFamily
from mpnp.tasks.gaussian_process import GaussianProcessPrior, RBFPrior

family = FunctionFamily(process=GaussianProcessPrior(RBFPrior()), max_points=8)
"""

SMALL = ("--num-samples", 2)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A run on the family of a stranger, and the stranger's module beside it."""
    place = tmp_path_factory.mktemp("shared")
    (place / f"{MODULE}.py").write_text(SOURCE)
    (place / "rows.csv").write_text("x\n0.5\n")
    recipe = Recipe(steps=2, batch_size=2, num_samples=2, validate_every=1, validation_tasks=2, checkpoint_every=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(place)
        mpnp.import_family(TASK)
        config = RunConfig("cnp", TASK, recipe=recipe, settings=SETTINGS)
        assert call("train", *flags(config), "--out", place / "run").code == 0
    return place


@pytest.fixture(autouse=True)
def place(shared, tmp_path, monkeypatch):
    """The working directory of someone who got the run: an import of the module would succeed, and would be seen."""
    shutil.copytree(shared, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    monkeypatch.setattr(registry, "_IMPORTED", {})
    return tmp_path


def change_config(place, **changes):
    path = place / "run" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


READERS = {
    "info": ("info", "run"),
    "info --json": ("info", "run", "--json"),
    "evaluate": ("evaluate", "run", "--num-tasks", 2),
    "plot": ("plot", "run", *SMALL),
    "resume": ("train", "--resume", "run"),
    "bayesopt": ("bayesopt", "forrester", "--models", "run", "--trials", 1, "--iterations", 1, *SMALL, "--quiet"),
    "complete": ("complete", "run", "picture.png"),
    "start from": ("train", "--model", "cnp", "--width", 9, "--start-from", "run", "--out", "new"),
    "fit --resume": ("fit", "--resume", "run"),
    "fit --update": ("fit", "rows.csv", "--update", "run", "--out", "new"),
    "predict": ("predict", "run", "--at", "rows.csv", "--num-samples", 2),
    "check": ("check", "run", "--out", "report.html", "--quiet"),
    "export": ("export", "run", "--format", "numpy", "--out", "exported"),
    "explore": ("explore", "run", "--data", "rows.csv"),  # which lacks the outputs, so that nothing is served
}


@pytest.mark.parametrize("arguments", READERS.values(), ids=READERS)
@pytest.mark.parametrize("dims", [[1, 1], None, [1, 2, 3], ["1", 1], [10**12, 1]], ids=str)
def test_no_command_imports_what_a_run_names(arguments, dims, place):
    change_config(place, own_dims=dims)
    with without_shape_checks():  # exports trace with symbolic sizes
        answer = call(*arguments)
    assert MODULE not in sys.modules
    assert answer.code in (0, 2, 3) and answer.err.count("\n") == (answer.code > 0)


@pytest.mark.parametrize("command", ["evaluate", "plot", "resume", "check"])
def test_a_command_that_needs_the_family_says_to_name_it_and_leaves_the_run_alone(command, place):
    before = files(place)
    answer = call(*READERS[command])
    assert answer.code == 2 and f"if you trust it, name it on the command line with --task {TASK}" in answer.err
    assert files(place) == before


@pytest.mark.parametrize("command", ["evaluate", "plot", "resume"])
def test_a_command_whose_user_names_the_family_imports_it(command):
    answer = call(*READERS[command], "--task", TASK)
    assert (answer.code, answer.err) == (0, "") and MODULE in sys.modules


@pytest.mark.parametrize(
    "task", ["../../secret", ":../../secret", "a:../../secret", "images/../../secret", "x" * 300, f"a:{'x' * 300}"]
)
def test_the_name_of_a_task_leads_to_no_file_outside_the_run(task, place):
    (place / "secret.json").write_text('{"secret": 1}')
    (place / "run" / "scores").mkdir(exist_ok=True)
    change_config(place, task=task, own_dims=[1, 1])
    for arguments in (*READERS.values(), ("train", "--model", "cnp", "--task", task, "--out", "new")):
        answer = call(*arguments)
        assert answer.code in (2, 3) and answer.err.count("\n") == 1 and 'secret": 1' not in answer.out


def test_resuming_with_another_family_is_refused(place):
    (place / "another_family.py").write_text(SOURCE)
    before = files(place / "run")
    answer = call("train", "--resume", "run", "--task", "another_family:family")
    assert answer.code == 2 and f"run was started with --task {TASK}, not another_family:family" in answer.err
    assert files(place / "run") == before


def test_a_model_loads_and_is_shown_without_its_family():
    assert mpnp.load("run").condition([0.0], [1.0]).predict([0.5]).shape == (1,)
    assert TASK in call("info", "run", "--json").out
    assert MODULE not in sys.modules


def test_in_python_a_family_is_used_once_it_is_imported():
    with pytest.raises(InputError, match=rf"call mpnp.import_family\('{TASK}'\)"):
        mpnp.find_family(TASK)
    family = mpnp.import_family(TASK)
    assert mpnp.find_family(TASK) is family and RunConfig("cnp", TASK).own_dims == (1, 1)


def test_a_run_written_before_dimensions_were_stored_loads_once_its_family_is_imported(place):
    change_config(place, own_dims=None)
    with pytest.raises(InputError, match="is not imported"):
        mpnp.load("run")
    mpnp.import_family(TASK)
    mpnp.load("run")
