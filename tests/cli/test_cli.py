"""The command line: from training to a picture, and one line that says what to do for everything that goes wrong."""

import json
import warnings
from importlib.metadata import version

import pytest
from matplotlib import pyplot as plt

from helpers.command_line import call, files, flags
from helpers.models import SETTINGS
from helpers.paper import PAPER_COUNTS
from mpnp.errors import DivergedError
from mpnp.models.martingale import NumPseudoWarning
from mpnp.models.registry import MODELS
from mpnp.tasks.registry import STORED_TASKS, TASKS
from mpnp.training import checkpoint, loop
from mpnp.training.config import Recipe, RunConfig
from mpnp.training.rundir import RunDirectory

CONFIG = RunConfig(
    "mpnp",
    seed=5,
    recipe=Recipe(
        steps=4, batch_size=2, num_samples=2, learning_rate=1e-3, validate_every=2, validation_tasks=4, checkpoint_every=2
    ),
    settings=SETTINGS,
)
SCORES = {"context", "target", "task", "joint", "rmse", "crps", "coverage_50", "coverage_90", "coverage_95"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A trained martingale model, and what was said about it."""
    run = tmp_path_factory.mktemp("trained") / "run"
    return run, call("train", *flags(CONFIG), "--out", run)


@pytest.fixture(scope="module")
def run(trained):
    return trained[0]


@pytest.fixture(scope="module")
def scored_at_home(run):
    return call("evaluate", run, "--num-tasks", "4", "--json")


@pytest.fixture(scope="module")
def scored_abroad(run, tmp_path_factory):
    """Scores on another task, with another number of pseudo points, written elsewhere."""
    record = tmp_path_factory.mktemp("abroad") / "new" / "record.json"
    with warnings.catch_warnings():
        warnings.simplefilter("default", NumPseudoWarning)
        return record, call("evaluate", run, "--task", "t-noise", "--num-pseudo", "5", "--num-tasks", "4", "--out", record)


def test_training_makes_a_run_and_says_how_to_score_it(trained):
    run, answer = trained
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.count("validation log-likelihood") == 4
    assert answer.out.endswith(f"in {run}; score it with: mpnp evaluate {run}\n")
    assert {path.name for path in run.iterdir()} >= {
        "config.json",
        "metrics.jsonl",
        "timing.jsonl",
        "last.safetensors",
        "best.safetensors",
    }
    assert RunDirectory(run).config() == CONFIG


@pytest.mark.parametrize("repeated", [[], flags(CONFIG)], ids=["bare", "with its own flags"])
def test_resuming_a_finished_run_changes_nothing(repeated, run):
    before = files(run)
    answer = call("train", "--resume", run, *repeated)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("done: ")
    assert files(run) == before


def test_a_record_holds_all_that_is_needed_to_repeat_it(run, scored_at_home):
    assert (scored_at_home.code, scored_at_home.err) == (0, "")
    record = json.loads(scored_at_home.out)
    assert record == json.loads((run / "scores" / "rbf.json").read_text())
    assert (record["model"], record["task"]) == ("mpnp", "rbf")
    assert set(record["scores"]) == SCORES
    assert all(set(score) == {"mean", "standard_error", "trimmed_mean"} for score in record["scores"].values())
    evaluation, training = record["evaluation"], record["training"]
    assert [evaluation[name] for name in ("num_tasks", "num_samples", "num_pseudo")] == [4, 2, SETTINGS.num_pseudo]
    assert (training["seed"], training["task"], training["recipe"]["steps"]) == (5, "rbf", 4)
    assert training["best_step"] in (0, 2, 4)
    for part in (evaluation, training):
        assert part["cpu_seconds"] > 0
        assert {"commit", "mpnp", "python", "jax", "cpu"} <= set(part["environment"])


def test_a_gaussian_process_is_scored_beside_its_exact_posterior(scored_at_home):
    record = json.loads(scored_at_home.out)
    oracle = record["oracle"]
    assert (oracle["available"], oracle["sigma_min"]) == (True, SETTINGS.sigma_min)
    assert set(oracle["exact"]) == SCORES
    assert set(oracle["floored"]) == SCORES - {"joint"}
    scores = (record["scores"], oracle["floored"], oracle["exact"])
    model, floored, exact = (score["task"]["mean"] for score in scores)
    assert model < floored < exact


def test_another_task_is_scored_with_no_oracle_if_it_has_none(scored_abroad):
    path, answer = scored_abroad
    assert answer.code == 0
    record = json.loads(path.read_text())
    assert (record["task"], record["training"]["task"]) == ("t-noise", "rbf")
    assert set(record["scores"]) == SCORES
    assert record["oracle"] == {"available": False, "reason": "the exact posterior of this task has no closed form"}


def test_the_table_shows_what_the_record_holds(scored_abroad):
    path, answer = scored_abroad
    scores = json.loads(path.read_text())["scores"]
    (row,) = (line for line in answer.out.splitlines() if line.startswith("log-likelihood, target  "))
    assert row.split()[2:] == [f"{scores['target'][name]:.3f}" for name in ("mean", "standard_error")]
    assert answer.out.endswith(f"record: {path}\n")


def test_another_number_of_pseudo_points_is_used_with_a_warning(scored_abroad):
    path, answer = scored_abroad
    assert json.loads(path.read_text())["evaluation"]["num_pseudo"] == 5
    (line,) = answer.err.splitlines()
    assert line.startswith("mpnp: warning: trained with num_pseudo=3, now 5")


def test_a_run_can_be_drawn_on_any_task(run, tmp_path):
    picture, open_before = tmp_path / "picture.png", plt.get_fignums()
    answer = call("plot", run, "--task", "helpers.command_line:SHORT", "--seed", "1", "--out", picture)
    assert answer == (0, f"wrote {picture}\n", "")
    assert plt.imread(picture).min() < 0.1
    assert plt.get_fignums() == open_before


def test_the_models_are_listed_with_the_papers_sizes():
    listed = {row["name"]: row for row in json.loads(call("models", "--json").out)}
    assert list(listed) == list(MODELS)
    assert {name: listed[name]["parameters"] for name in PAPER_COUNTS} == PAPER_COUNTS


def test_the_tasks_are_listed_with_their_dimensions():
    listed = {row["name"]: row for row in json.loads(call("tasks", "--json").out)}
    assert list(listed) == [*TASKS, *STORED_TASKS]
    assert (listed["rbf"]["x_dim"], listed["rbf-4d"]["x_dim"]) == (1, 4)


@pytest.mark.parametrize(("command", "names"), [("models", MODELS), ("tasks", TASKS | STORED_TASKS)])
def test_a_listing_is_a_table_with_one_row_per_name(command, names):
    code, out, err = call(command)
    assert (code, err) == (0, "")
    header, line, *rows = out.splitlines()
    assert header.startswith("name") and set(line) == {"-", " "}
    assert [row.split()[0] for row in rows] == list(names)


def test_the_version_is_the_installed_one():
    assert call("--version") == (0, f"mpnp {version('mpnp')}\n", "")


HELP = {
    "": {"train", "evaluate", "plot", "models", "tasks", "--version", "exit codes"},
    "train": {"--recipe", "--num-tasks", "--out", "--resume", "--quiet", "--encoder-width"}
    | {flag.partition("=")[0] for flag in flags(CONFIG)},
    "evaluate": {"RUN", "--task", "--num-tasks", "--num-samples", "--num-pseudo", "--out", "--json"},
    "plot": {"RUN", "--task", "--num-samples", "--num-pseudo", "--out", "--seed"},
    "models": {"--json"},
    "tasks": {"--json"},
}


@pytest.mark.parametrize(("command", "words"), HELP.items(), ids=[name or "mpnp" for name in HELP])
def test_help_names_every_option(command, words):
    code, out, err = call(*command.split(), "--help")
    assert (code, err) == (0, "")
    assert {word for word in words if word not in out} == set()


def save_untrained(directory, model):
    """A run as it stands after its first validation."""
    config, run = RunConfig(model, settings=SETTINGS), RunDirectory(directory)
    run.create(config)
    progress = {"step": 0, "best_score": -1.0, "best_step": 0, "cpu_seconds": 1.0, "wall_seconds": 1.0}
    checkpoint.save(run.best, config.build_model(), {"config": config.to_json(), "progress": progress, "environment": {}})
    return run


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with runs in every state, and with what is no run."""
    place = tmp_path_factory.mktemp("place")
    for model in ("mpnp", "cnp"):
        save_untrained(place / model, model)
    cut = save_untrained(place / "cut", "cnp").best
    cut.write_bytes(cut.read_bytes()[:200])
    RunDirectory(place / "fresh").create(RunConfig("cnp", settings=SETTINGS))
    for name, content in {"foreign": '{"name": "something else"}', "list": "[1, 2]", "garbled": '{"model": "cn'}.items():
        (place / name).mkdir()
        (place / name / "config.json").write_text(content)
    (place / "empty").mkdir()
    (place / "file").touch()
    return place


REFUSALS = {
    # what was asked: exit code, and what the answer says
    "": (2, "command"),
    "trian": (2, "unknown command 'trian'. Did you mean 'train'? Run 'mpnp --help' to see them all."),
    "train": (2, "choose a model with --model NAME"),
    "train --model mpmp": (2, "unknown model 'mpmp'. Did you mean 'mpnp'?"),
    "train --model cnp --task rfb": (2, "unknown task 'rfb'. Did you mean 'rbf'?"),
    "train --model cnp --task no.such:family": (2, "cannot import the task family 'no.such:family'"),
    "train --model cnp --task :family": (2, "unknown task ':family'"),
    "train --model cnp --task .near:family": (2, "cannot import the task family '.near:family'"),
    "train --model cnp --recipe papre": (2, "unknown recipe 'papre'. Did you mean 'paper'?"),
    "train --model cnp --stesp 5": (2, "unrecognized argument --stesp. Did you mean --steps? See 'mpnp train --help'."),
    "train --model cnp --steps 0": (2, "steps must be a whole number of at least 1, got 0"),
    "train --model cnp --steps x": (2, "argument --steps: invalid int value: 'x'. See 'mpnp train --help'."),
    "train --model cnp --steps": (2, "argument --steps: expected one argument"),
    "train --model cnp --learning-rate nan": (2, "learning_rate must be positive and finite, got nan"),
    "train --model cnp --seed -1": (2, "seed must lie between 0 and 4294967295, got -1"),
    "train --model cnp --num-tasks 3": (2, "num_tasks must be at least one batch of 64, got 3"),
    "train --model cnp --sigma-min 1": (2, "sigma_min must lie above 0 and below 1"),
    "train --model canp --num-heads 3": (2, "num_heads must divide the attention width 128"),
    "train --model np --bound elbow": (2, "unknown bound 'elbow'. Did you mean 'elbo'?"),
    "train --model cnp --out file/below": (3, "cannot write file/below"),
    "train --model cnp --out cnp": (3, "cnp already holds a run; continue it with '--resume cnp'"),
    "train --resume nowhere": (3, "nowhere holds no run"),
    "train --resume empty": (3, "empty holds no run"),
    "train --resume cnp --steps 99": (2, "cnp was started with --steps 100000, not 99; leave out --steps to resume it"),
    "train --resume cnp --model mpnp": (2, "cnp was started with --model cnp, not mpnp"),
    "train --resume cnp --recipe quick": (2, "cnp was started with --steps 100000, not 600"),
    "train --resume cnp --width 9": (2, "cnp was started with --width 8, not 9"),
    "train --resume cnp --width 9 --seed 1": (2, "--seed 0, not 1, --width 8, not 9; leave out --seed and --width to resume"),
    "train --resume cnp": (3, "last.safetensors is missing, so the run cannot be resumed"),
    "train --resume cnp --out other": (2, "--resume continues in cnp itself; leave out --out other"),
    "evaluate": (2, "the following arguments are required: RUN"),
    "evaluate nowhere": (3, "nowhere holds no run: config.json is missing"),
    "evaluate empty": (3, "empty holds no run"),
    "evaluate file": (3, "file holds no run"),
    "evaluate fresh": (3, "fresh has no validated checkpoint yet; continue it with 'mpnp train --resume fresh'"),
    "evaluate cut": (3, "best.safetensors is damaged"),
    "evaluate foreign": (3, "written by another version of mpnp"),
    "evaluate list": (3, "written by another version of mpnp"),
    "evaluate garbled": (3, "config.json is not valid JSON"),
    "evaluate cnp --task rbf-4d": (2, "the task 'rbf-4d' has 4 input and 1 output dimensions, but this model was trained"),
    "evaluate cnp --task matren": (2, "unknown task 'matren'. Did you mean 'matern'?"),
    "evaluate cnp --num-tasks 0": (2, "num_tasks must be a whole number of at least 1, got 0"),
    "evaluate cnp --num-samples 0 --num-tasks 1": (2, "num_samples must be a whole number of at least 1, got 0"),
    "evaluate cnp --num-pseudo 3": (2, "num_pseudo applies to martingale models only"),
    "evaluate mpnp --num-pseudo 0": (2, "num_pseudo must be a whole number of at least 1, got 0"),
    "plot nowhere": (3, "nowhere holds no run"),
    "plot cut": (3, "best.safetensors is damaged"),
    "plot cnp --task rbf-4d": (2, "the task 'rbf-4d' has 4 input and 1 output dimensions"),
    "plot cnp --num-samples 0 --task helpers.command_line:SHORT": (
        2,
        "num_samples must be a whole number of at least 1, got 0",
    ),
    "plot cnp --seed -1": (2, "seed must"),
    "plot cnp --task helpers.command_line:SHORT --out picture.xyz": (
        2,
        "cannot write a figure to 'picture.xyz': its name must end in",
    ),
    "models --jsno": (2, "unrecognized argument --jsno. Did you mean --json?"),
}


@pytest.mark.parametrize(("arguments", "refusal"), REFUSALS.items(), ids=[name or "nothing" for name in REFUSALS])
def test_what_cannot_be_done_is_said_in_one_line_and_touches_nothing(arguments, refusal, place, monkeypatch):
    monkeypatch.chdir(place)
    before = files(place)
    code, out, err = call(*arguments.split())
    assert (code, out) == (refusal[0], "")
    assert err.startswith("mpnp: error: ") and err.count("\n") == 1
    assert refusal[1] in err
    assert files(place) == before


@pytest.mark.parametrize(
    ("failure", "code", "line"),
    [
        (DivergedError("not finite at step 2"), 4, "mpnp: error: not finite at step 2\n"),
        (KeyboardInterrupt(), 130, "mpnp: interrupted\n"),
    ],
    ids=["diverged", "interrupted"],
)
def test_a_run_that_ends_early_has_an_exit_code_of_its_own(failure, code, line, monkeypatch, tmp_path):
    def fail(*_, **__):
        raise failure

    monkeypatch.setattr(loop, "train", fail)
    answer = call("train", "--model", "cnp", "--out", tmp_path / "run")
    assert (answer.code, answer.err) == (code, line)
    assert f"{code} " in call("--help").out.partition("exit codes:")[2]
