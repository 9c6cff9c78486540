"""`mpnp export` and `mpnp explore`, as typed."""

import io
import json
import shutil
import signal
import subprocess
import sys
import urllib.request

import numpy as np
import pandas as pd
import pytest

from helpers.command_line import call, files
from helpers.fitted_models import fitted
from helpers.shapes import without_shape_checks


@pytest.fixture(scope="module", autouse=True)
def symbolic_sizes():
    with without_shape_checks():
        yield


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    directory = tmp_path_factory.mktemp("models") / "mine"
    fitted("cnp").save(directory)
    return directory


def test_each_format_is_written_and_named(model, tmp_path):
    answer = call("export", model, "--format", "numpy", "--out", tmp_path / "folder")
    assert answer.code == 0 and answer.out.count("wrote ") == 4
    names = sorted(path.name for path in (tmp_path / "folder").iterdir())
    assert names == ["interpreter.py", "model.json", "predictor.py", "weights.npz"]
    assert call("export", model, "canp-rbf", "--format", "html", "--out", tmp_path / "page.html").code == 0
    assert '"name":"mine"' in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["canp-rbf", "cnp-rbf", "--format", "numpy"], "this format holds one model"),
        (["canp-rbf", "--format", "pdf"], "invalid choice"),
        (["no-such-model", "--format", "html"], "holds no model"),
        (["mpanp-mnist", "--format", "html"], "one input"),
    ],
)
def test_what_cannot_be_exported_is_refused(arguments, message, tmp_path):
    answer = call("export", *arguments, "--out", tmp_path / "out")
    assert answer.code in (2, 3) and message in answer.err and answer.err.count("\n") == 1


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    (folder / "context.csv").write_text("task,x,y\na,20,301\nb,30,296\na,25,299\n")
    (folder / "at.csv").write_text("task,x\na,22\nb,28\na,31\n")
    return "--context", folder / "context.csv", "--at", folder / "at.csv"


@pytest.fixture(scope="module")
def exported(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    assert call("export", model, "--format", "numpy", "--out", folder).code == 0
    return folder


@pytest.mark.parametrize("choice", [[], ["--task", "a"], ["--quantiles", "0.1", "0.9"]])
def test_an_export_predicts_what_its_model_predicts(model, exported, tables, choice):
    one, other = (call("predict", each, *tables, *choice) for each in (model, exported))
    assert (one.code, other.code) == (0, 0)
    wanted, got = (pd.read_csv(io.StringIO(answer.out)) for answer in (one, other))
    pd.testing.assert_frame_equal(got, wanted, rtol=1e-4)


def test_an_export_predicts_without_jax(exported, tables):
    program = (
        "import sys; from mpnp.cli import main; assert main(sys.argv[1:]) == 0; "
        "sys.exit(bool({'jax', 'equinox', 'scipy', 'matplotlib'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", program, "predict", exported, *tables], capture_output=True, text=True)
    assert run.returncode == 0 and run.stdout.startswith("task,x,mean,std,q05")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--plot", "p.png"], "can neither plot"),
        (["--model", "gp"], "nor choose a forecaster"),
        (["--task", "c"], "no row has 'c'"),
        (["--quantiles", "2"], "above 0 and below 1"),
        (["--input", "hour"], "hour"),
        (["--num-samples", "0"], "num_samples must"),
        (["--num-samples", "1000000000"], "num_samples must be at most 100000"),
    ],
)
def test_what_an_export_cannot_answer_is_refused(exported, tables, arguments, message):
    answer = call("predict", exported, *tables, *arguments)
    assert answer.code == 2 and message in answer.err and answer.err.count("\n") == 1


@pytest.mark.filterwarnings("default::UserWarning")
def test_an_export_warns_of_what_lies_outside_its_training_range(exported, tmp_path):
    (tmp_path / "at.csv").write_text("x\n1000\n")
    answer = call("predict", exported, "--at", tmp_path / "at.csv")
    assert answer.code == 0 and "outside the training range" in answer.err


ODD = (None, [], "x", -1, 10**18, [[1]], {"x": 1})


@pytest.mark.filterwarnings("default::UserWarning")
def test_a_damaged_description_is_refused_or_read(exported, tables, tmp_path):
    whole = json.loads((exported / "model.json").read_text())
    shutil.copytree(exported, tmp_path, dirs_exist_ok=True)
    parts = [(part, name) for part in ("seen", "units", "columns") for name in whole[part]]
    damaged = [{}, [], whole | {"programs": dict.fromkeys(whole["programs"], whole["programs"]["query"])}]
    damaged += [whole | {name: odd} for name in whole for odd in ODD]
    damaged += [whole | {part: whole[part] | {name: odd}} for part, name in parts for odd in ODD]
    for content in damaged:
        (tmp_path / "model.json").write_text(json.dumps(content))
        answer = call("predict", tmp_path, *tables)
        assert answer.code in (0, 2) and answer.err.count("mpnp: error") == (answer.code > 0), content
    (tmp_path / "model.json").write_text("{}")
    assert "no export that this version can read" in call("predict", tmp_path, *tables).err


@pytest.mark.parametrize("content", [b"", b"PK", None], ids=["empty", "cut", "compressed"])
def test_damaged_and_compressed_weights_are_refused(exported, tables, tmp_path, content):
    shutil.copytree(exported, tmp_path, dirs_exist_ok=True)
    if content is None:
        with np.load(exported / "weights.npz") as weights:
            np.savez_compressed(tmp_path / "weights.npz", **weights)
    else:
        (tmp_path / "weights.npz").write_bytes(content)
    answer = call("predict", tmp_path, *tables)
    assert answer.code == 2 and "no export that this version can read" in answer.err and answer.err.count("\n") == 1
    assert content is not None or "compressed" in answer.err


def test_an_export_does_not_move_into_a_model(model):
    before = files(model)
    answer = call("export", model, "--format", "numpy", "--out", model)
    assert answer.code == 2 and "holds a model; choose another folder" in answer.err and files(model) == before


def test_a_port_out_of_range_is_refused():
    answer = call("explore", "--port", 70_000)
    assert answer.code == 2 and "between 0 and 65535" in answer.err


def test_without_its_extra_the_command_names_it():
    program = "import sys; sys.modules['starlette'] = None; from mpnp.cli import main; sys.exit(main(['explore']))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.returncode == 2 and "pip install 'mpnp[explore]'" in run.stderr


def test_it_serves_until_interrupted(model):
    pytest.importorskip("uvicorn", reason="needs the extra: pip install 'mpnp[explore]'")
    command = [sys.executable, "-m", "mpnp", "explore", str(model), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None and "exploring mine" in server.stdout.readline()
        address = server.stdout.readline().split()[1]
        page = urllib.request.urlopen(address, timeout=60).read().decode()
        assert "mpnp explore" in page and '"name":"mine"' in page
        server.send_signal(signal.SIGINT)
        assert server.wait(60) == 0
