"""Training: a run's numbers follow from its configuration alone, however often it was stopped on the way."""

import contextlib
import dataclasses
import importlib
import json
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
from jax.experimental.compilation_cache import compilation_cache

from models import SETTINGS, assert_trees_close
from mpnp import checkpoint
from mpnp.devices import batch_mesh
from mpnp.errors import DivergedError, InputError, RunError
from mpnp.models.settings import ModelSettings
from mpnp.recipes import RECIPES, Recipe, find_recipe
from mpnp.runs import RunConfig, RunDirectory, load_model
from mpnp.step import TrainState, initial_state, learning_rate, make_optimizer, make_step
from mpnp.tasks.families import AbstractProcess, FunctionFamily
from mpnp.train import resume, train

training = importlib.import_module("mpnp.train")  # the module: in the package, its name is the function's


class Constants(AbstractProcess):
    """Functions that have one value everywhere: one point of context tells all."""

    def __call__(self, x, key):
        return jnp.broadcast_to(jax.random.normal(key), (len(x), 1))


EASY = FunctionFamily(process=Constants(), max_points=8)

# Logs, validations and checkpoints fall on different steps, so that a stop meets every mixture of them. The model draws
# at random in training and in validation, so that a resume which lost count of its draws would show.
RECIPE = Recipe(
    steps=240, batch_size=4, num_samples=2, learning_rate=1e-2, validate_every=2, validation_tasks=8, checkpoint_every=7
)
CONFIG = RunConfig("np", f"{__name__}:EASY", recipe=RECIPE, settings=SETTINGS)


def with_recipe(**changes):
    return dataclasses.replace(CONFIG, recipe=dataclasses.replace(RECIPE, **changes))


@pytest.fixture(scope="module", autouse=True)
def programs(tmp_path_factory):
    """Runs of one configuration share their compiled programs, in this process and in its children."""
    options = {
        "jax_compilation_cache_dir": str(tmp_path_factory.mktemp("programs")),
        "jax_persistent_cache_min_compile_time_secs": 0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in options}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in options.items():
            jax.config.update(name, value)
            patch.setenv(name.upper(), str(value))
        yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that nothing disturbed."""
    return trained(CONFIG, tmp_path_factory.mktemp("finished") / "run")


@pytest.fixture
def run(tmp_path):
    return RunDirectory(tmp_path / "run")


def trained(config, path):
    train(config, path, quiet=True)
    return RunDirectory(path)


def arrays(path):
    """The content of a checkpoint bit for bit."""
    return {name: (str(a.dtype), a.shape, a.tobytes()) for name, a in safetensors.numpy.load_file(path).items()}


def numbers(run):
    """All that a run's configuration decides."""
    timeless = ("step", "best_score", "best_step")
    progress = [checkpoint.read_card(path)["progress"] for path in (run.last, run.best)]
    return {
        "metrics": run.metrics.read_text().splitlines(),
        "progress": [{name: card[name] for name in timeless} for card in progress],
        "last": arrays(run.last),
        "best": arrays(run.best),
    }


def files(directory):
    """Everything in a directory, with the content of its files."""
    return {path: path.read_bytes() if path.is_file() else None for path in Path(directory).rglob("*")}


def flags(config):
    """A configuration as the command line takes it."""
    options = {"model": config.model, "task": config.task, "seed": config.seed}
    options |= dataclasses.asdict(config.recipe) | dataclasses.asdict(config.settings)
    return [f"--{name.replace('_', '-')}={value}" for name, value in options.items() if value is not None]


def step_reached(run):
    return checkpoint.read_card(run.last)["progress"]["step"]


def rows(run, kind):
    """The rows of the log that hold losses, or those that hold validations."""
    parsed = map(json.loads, run.metrics.read_text().splitlines())
    return [row for row in parsed if kind in row]


def at_step(number, monkeypatch, action):
    """Make something happen when a run is about to take a step."""
    original = training.training_indices

    def indices(step, *arguments, **options):
        if step == number:
            action()
        return original(step, *arguments, **options)

    monkeypatch.setattr(training, "training_indices", indices)


@contextlib.contextmanager
def in_another_process(config, run):
    """A run of the command line, past its 40th step, that cannot end: what it prints is more than is read or buffered."""
    ours, theirs = socket.socketpair()
    for end, option in ((theirs, socket.SO_SNDBUF), (ours, socket.SO_RCVBUF)):
        end.setsockopt(socket.SOL_SOCKET, option, 4096)
    process = subprocess.Popen(
        [sys.executable, "-m", "mpnp", "train", *flags(config), "--out", run.path],
        stdout=theirs,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    theirs.close()
    try:
        with ours, ours.makefile() as output, process.stderr:
            seen = next((line for line in output if line.startswith("step     40 ")), None)
            assert seen is not None, process.stderr.read().decode()
            yield process, output
    finally:
        process.kill()
        process.wait()


def test_the_same_configuration_gives_the_same_numbers(finished, run):
    assert numbers(trained(CONFIG, run.path)) == numbers(finished)


@pytest.mark.parametrize("change", [{"seed": 1}, {"num_tasks": 8}], ids=["seed", "finite training set"])
def test_another_configuration_gives_other_numbers(change, finished, run):
    trained(dataclasses.replace(CONFIG, **change), run.path)
    assert step_reached(run) == RECIPE.steps
    losses = [[row["loss"] for row in rows(each, "loss")] for each in (run, finished)]
    assert len(losses[0]) == len(losses[1]) and not set(losses[0]) & set(losses[1])
    assert arrays(run.last) != arrays(finished.last)


def test_training_on_easy_functions_raises_validation(finished):
    scores = [row["validation"]["task"] for row in rows(finished, "validation")]
    assert scores[-1] > scores[0] + 0.5
    assert np.mean([row["loss"] for row in rows(finished, "loss")][-5:]) < rows(finished, "loss")[0]["loss"]


def test_the_model_of_a_run_is_the_one_that_validated_best(finished):
    validations = {row["step"]: row["validation"]["task"] for row in rows(finished, "validation")}
    assert list(validations) == list(range(0, RECIPE.steps + 1, RECIPE.validate_every))
    model, config, card = load_model(finished.path)
    best = max(validations, key=validations.get)
    assert (card["progress"]["best_step"], card["progress"]["best_score"]) == (best, validations[best])
    assert config == CONFIG
    stored = safetensors.numpy.load_file(finished.best)
    np.testing.assert_array_equal(model.decoder.mlp.layers[0].weight, stored[".decoder.mlp.layers[0].weight"])


def test_a_killed_run_resumes_as_if_nothing_had_happened(finished, run):
    with in_another_process(CONFIG, run) as (process, _):
        process.kill()
        assert process.wait() == -signal.SIGKILL
    assert 0 < step_reached(run) < RECIPE.steps
    resume(run.path, quiet=True)
    assert numbers(run) == numbers(finished)


def test_an_interrupted_run_saves_its_step_and_says_how_to_resume(finished, run):
    with in_another_process(CONFIG, run) as (process, output):
        process.send_signal(signal.SIGINT)
        printed, errors = output.read(), process.stderr.read().decode()
        assert process.wait() == 130
    assert f"continue with: mpnp train --resume {run.path}" in printed
    assert "mpnp: interrupted" in errors and "Traceback" not in errors
    validated = rows(run, "validation")[-1]["step"]
    assert 40 <= validated <= step_reached(run) < validated + RECIPE.validate_every
    assert step_reached(run) < RECIPE.steps
    resume(run.path, quiet=True)
    assert numbers(run) == numbers(finished)


def test_a_request_to_terminate_saves_the_step_under_way(monkeypatch, run):
    handler = signal.getsignal(signal.SIGTERM)
    at_step(9, monkeypatch, lambda: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(KeyboardInterrupt):
        train(CONFIG, run.path, quiet=True)
    assert step_reached(run) == 10
    assert signal.getsignal(signal.SIGTERM) is handler


@pytest.mark.parametrize("step", [3, 13], ids=["before any checkpoint", "after one"])
def test_a_crash_in_the_middle_of_a_log_line_leaves_no_trace(step, finished, run, monkeypatch):
    class PowerCutError(Exception):
        pass

    def crash():
        raise PowerCutError

    with monkeypatch.context() as patch, pytest.raises(PowerCutError):
        at_step(step, patch, crash)
        train(CONFIG, run.path, quiet=True)
    assert run.last.exists() == (step >= RECIPE.checkpoint_every)
    with run.metrics.open("a") as log:
        log.write(f'{{"step": {step}, "validation": {{"con')
    resume(run.path, quiet=True)
    assert numbers(run) == numbers(finished)


def test_resuming_a_finished_run_changes_nothing(finished):
    before = files(finished.path)
    resume(finished.path, quiet=True)
    assert files(finished.path) == before


def test_training_in_a_run_directory_is_refused(finished):
    before = files(finished.path)
    with pytest.raises(RunError, match=f"already holds a run; continue it with '--resume {finished.path}'"):
        train(dataclasses.replace(CONFIG, seed=1), finished.path)
    assert files(finished.path) == before


def test_resuming_needs_a_run(tmp_path):
    with pytest.raises(RunError, match=r"holds no run: config.json is missing"):
        resume(tmp_path)
    assert not files(tmp_path)


def test_a_damaged_last_checkpoint_is_named_and_left_alone(finished, run):
    shutil.copytree(finished.path, run.path)
    run.last.write_bytes(run.last.read_bytes()[:100])
    before = files(run.path)
    with pytest.raises(RunError, match=r"last.safetensors is damaged"):
        resume(run.path, quiet=True)
    assert files(run.path) == before


@pytest.mark.parametrize("quiet", [True, False], ids=["quiet", "talkative"])
def test_divergence_is_named_and_leaves_a_finite_checkpoint(quiet, run):
    config = with_recipe(learning_rate=1e15, validate_every=1, checkpoint_every=1)
    with pytest.raises(DivergedError, match=r"not finite at step 2 .*learning-rate \(it was 1e\+15\)") as caught:
        train(config, run.path, quiet=quiet)
    assert f"the checkpoint in {run.last} is intact" in str(caught.value)
    assert step_reached(run) == 1
    assert all(np.isfinite(array).all() for array in safetensors.numpy.load_file(run.last).values())
    model, _, card = load_model(run.path)
    assert card["progress"]["best_step"] == 0
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(model))


def test_a_run_without_any_finite_validation_has_no_model(run, monkeypatch):
    broken = {name: np.full(4, np.nan) for name in ("context", "target", "task")}
    monkeypatch.setattr(training, "make_scorer", lambda source, num_samples: lambda model, num_tasks: broken)
    with pytest.raises(DivergedError, match=r"no validation of .* gave finite scores.*smaller --learning-rate"):
        train(with_recipe(steps=1), run.path, quiet=True)


def test_the_learning_rate_follows_a_cosine_to_zero():
    steps = np.arange(RECIPE.steps + 1)
    rates = [learning_rate(RECIPE, int(step)) for step in steps]
    np.testing.assert_allclose(rates, RECIPE.learning_rate * (1 + np.cos(math.pi * steps / RECIPE.steps)) / 2, atol=1e-12)
    assert rates[-1] == 0


def test_a_step_moves_by_the_learning_rate_of_that_step():
    state, step = initial_state(CONFIG, EASY), make_step(CONFIG, EASY, batch_mesh(RECIPE.batch_size))
    for number in (0, RECIPE.steps // 3, RECIPE.steps):
        moved, _ = step(state, np.arange(RECIPE.batch_size, dtype=np.uint32), number)
        changes = jax.tree.map(lambda a, b: np.abs(a - b).max(), moved.model, state.model)
        # Adam's first step moves a parameter by its learning rate, whatever the gradient.
        np.testing.assert_allclose(max(jax.tree.leaves(changes)), learning_rate(RECIPE, number), rtol=1e-3, atol=1e-8)


@pytest.mark.parametrize("bound", ["iwae", "elbo"])
def test_either_bound_trains_a_latent_model(bound):
    config = dataclasses.replace(CONFIG, settings=dataclasses.replace(SETTINGS, bound=bound))
    state, step = initial_state(config, EASY), make_step(config, EASY, batch_mesh(config.recipe.batch_size))
    losses = []
    for number in range(RECIPE.steps):
        state, stats = step(state, np.arange(4 * number, 4 * number + 4, dtype=np.uint32), number)
        assert stats["loss"] == stats["negative_bound"]
        losses.append(float(stats["loss"]))
    assert np.mean(losses[-20:]) < np.mean(losses[:20]) - 0.5


@pytest.mark.parametrize(
    "config",
    [CONFIG, RunConfig("mpanp"), RunConfig("anp", "t-noise", 7, 51_200, RECIPES["short"], ModelSettings(bound="elbo"))],
    ids=["tiny", "default", "changed"],
)
def test_a_configuration_survives_json(config):
    assert RunConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


@pytest.mark.parametrize(
    "content",
    [{}, {"hello": "world"}, CONFIG.to_json() | {"novelty": 1}, CONFIG.to_json() | {"recipe": {"stops": 3}}],
    ids=["nothing", "something else", "new field", "unknown recipe"],
)
def test_a_configuration_of_another_program_is_refused(content):
    with pytest.raises(RunError, match="written by another version of mpnp"):
        RunConfig.from_json(content)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Recipe(steps=0), "steps must be a whole number of at least 1, got 0"),
        (lambda: Recipe(core_share=1.0), "core_share must be at least 0 and below 1, got 1.0"),
        (lambda: Recipe(core_share=float("nan")), "core_share must be at least 0 and below 1, got nan"),
        (lambda: Recipe(initialisation="spred"), "unknown initialisation 'spred'. Did you mean 'spread'?"),
        (lambda: Recipe(batch_size=-1), "batch_size must be a whole number of at least 1, got -1"),
        (lambda: Recipe(checkpoint_every=0), "checkpoint_every must be a whole number of at least 1, got 0"),
        (lambda: Recipe(learning_rate=-1e-3), "learning_rate must be positive and finite, got -0.001"),
        (lambda: Recipe(learning_rate=0.0), "learning_rate must be positive and finite, got 0.0"),
        (lambda: Recipe(learning_rate=math.nan), "learning_rate must be positive and finite, got nan"),
        (lambda: Recipe(learning_rate=math.inf), "learning_rate must be positive and finite, got inf"),
        (lambda: RunConfig("mpmp"), "unknown model 'mpmp'. Did you mean 'mpnp'"),
        (lambda: RunConfig("cnp", "matren"), "unknown task 'matren'. Did you mean 'matern'"),
        (lambda: RunConfig("cnp", seed=-1), "seed must lie between 0 and 4294967295, got -1"),
        (lambda: RunConfig("cnp", seed=2**32), "seed must lie between 0 and 4294967295, got 4294967296"),
        (lambda: dataclasses.replace(CONFIG, num_tasks=3), "num_tasks must be at least one batch of 4, got 3"),
        (lambda: ModelSettings(bound="elbow"), "unknown bound 'elbow'. Did you mean 'elbo'"),
        (
            lambda: RunConfig("canp", settings=ModelSettings(width=8, num_heads=3)),
            "num_heads must divide the attention width 8",
        ),
        (lambda: find_recipe("papre"), "unknown recipe 'papre'. Did you mean 'paper'"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(make, message):
    with pytest.raises(InputError) as caught:
        make()
    assert message in str(caught.value)


CORE_FIRST = dataclasses.replace(with_recipe(steps=12, core_share=0.5, optimizer="muon", initialisation="spread"), model="mpnp")


def test_the_core_learns_first_and_as_the_conditional_model_would():
    mesh = batch_mesh(RECIPE.batch_size)
    whole = initial_state(CORE_FIRST, EASY)
    alone = TrainState(whole.model.core, make_optimizer("muon").init(whole.model.core))
    generator = whole.model.generator
    step, step_alone = (make_step(config, EASY, mesh) for config in (CORE_FIRST, dataclasses.replace(CORE_FIRST, model="cnp")))
    for number in range(CORE_FIRST.recipe.steps):
        indices = np.arange(4 * number, 4 * number + 4, dtype=np.uint32)
        whole, stats = step(whole, indices, number)
        if number < CORE_FIRST.core_steps:
            alone, stats_alone = step_alone(alone, indices, number)
            np.testing.assert_allclose(stats["loss"], stats_alone["loss"], rtol=1e-3)
            assert_trees_close(whole.model.core, alone.model, atol=2e-3)  # Muon makes rounding errors of small gradients large
            assert eqx.tree_equal(whole.model.generator, generator)
        else:
            assert {"marginal", "amortisation", "pseudo"} <= set(stats)
    assert not eqx.tree_equal(whole.model.generator, generator)


def test_validations_are_of_the_core_until_the_whole_model_learns(run, monkeypatch):
    scored = []
    make_scorer = training.make_scorer

    def recording(*arguments, **options):
        scorer = make_scorer(*arguments, **options)
        return lambda model, num_tasks: scored.append(type(model).__name__) or scorer(model, num_tasks)

    monkeypatch.setattr(training, "make_scorer", recording)
    trained(CORE_FIRST, run.path)
    assert scored == ["ConditionalNP"] * 4 + ["MartingaleNP"] * 3  # at 0, 2, 4, 6 and at 8, 10, 12 steps
    assert checkpoint.read_card(run.best)["progress"]["best_step"] > CORE_FIRST.core_steps


@pytest.mark.parametrize("stopped_at", [5, 6, 9])
def test_a_run_that_stops_around_the_end_of_its_core_resumes_bit_for_bit(stopped_at, run, tmp_path, monkeypatch):
    straight = trained(CORE_FIRST, tmp_path / "straight")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        at_step(stopped_at, patch, lambda: os.kill(os.getpid(), signal.SIGINT))
        train(CORE_FIRST, run.path, quiet=True)
    resume(run.path, quiet=True)
    assert numbers(run) == numbers(straight)


def test_a_model_without_a_core_learns_as_a_whole_from_the_first_step(run, tmp_path):
    config = dataclasses.replace(CORE_FIRST, model="cnp")
    plain = dataclasses.replace(config, recipe=dataclasses.replace(config.recipe, core_share=0.0))
    assert numbers(trained(config, run.path)) == numbers(trained(plain, tmp_path / "plain"))


def test_patience_counts_from_the_end_of_the_core(run, monkeypatch):
    config = dataclasses.replace(CORE_FIRST, recipe=dataclasses.replace(CORE_FIRST.recipe, patience=1))
    worse = iter(range(0, -100, -1))
    nothing_helps = {name: {"mean": 0.0} for name in ("context", "target")}
    monkeypatch.setattr(training, "summarise", lambda _: nothing_helps | {"task": {"mean": float(next(worse))}})
    trained(config, run.path)
    assert step_reached(run) == 10  # the first validation of the whole model, at step 8, and one that is not better


def test_a_martingale_model_starts_with_the_weights_of_its_conditional_one(tmp_path):
    first = trained(dataclasses.replace(with_recipe(steps=4), model="cnp"), tmp_path / "first")
    config = dataclasses.replace(with_recipe(steps=4), model="mpnp", start_from=str(first.path))
    state, (given, *_) = initial_state(config, EASY), load_model(first.path)
    for part in ("backbone", "decoder"):
        got, wanted = (jax.tree.leaves(getattr(model, part)) for model in (state.model, given))
        assert all((a == b).all() for a, b in zip(got, wanted, strict=True))
    second = trained(config, tmp_path / "second")
    shutil.rmtree(first.path)  # once there is a checkpoint, the run stands on its own
    resume(second.path, quiet=True)
    assert RunDirectory(second.path).config() == config
    backwards = dataclasses.replace(config, model="cnp", start_from=str(second.path))
    with pytest.raises(InputError, match=r"cnp cannot start from .*, which is mpnp: it has no place for"):
        train(backwards, tmp_path / "third", quiet=True)
    with pytest.raises(RunError, match="holds no run"):
        train(config, tmp_path / "third", quiet=True)
    assert not (tmp_path / "third").exists()


def test_training_stops_once_out_of_patience(run):
    train(with_recipe(steps=200, learning_rate=1e-12, validate_every=5, patience=3), run.path, quiet=True)
    progress = checkpoint.read_card(run.last)["progress"]
    assert progress["step"] == progress["best_step"] + 15
    resume(run.path, quiet=True)
    assert checkpoint.read_card(run.last)["progress"]["step"] == progress["step"]


def test_the_best_model_is_chosen_by_the_score_asked_for(finished, run):
    train(with_recipe(select_by="context"), run.path, quiet=True)
    for path, name in ((run, "context"), (finished, "task")):
        rows = [json.loads(line) for line in path.metrics.read_text().splitlines() if "validation" in line]
        best = max(rows, key=lambda row: row["validation"][name])
        assert checkpoint.read_card(path.best)["progress"]["best_step"] == best["step"]
