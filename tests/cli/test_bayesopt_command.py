"""The command that compares models in searches for a minimum, with good and bad input."""

import json
import shutil

import numpy as np
import pytest
from matplotlib import pyplot as plt

from helpers.command_line import call
from helpers.fitted_models import fitted, some_curves
from mpnp.bayesopt import GaussianProcess, Kernel, registry
from mpnp.bayesopt.benchmark import Study, read_acquisitions
from mpnp.bayesopt.figures import acquisitions_figure

SMALL = ("--trials", 3, "--iterations", 6, "--num-samples", 2)
FOLDER = "forrester/expected-improvement"


@pytest.fixture(scope="module", autouse=True)
def learnt_kernel():
    """To learn the kernel takes seconds, and is tested elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "pretrained_process", lambda: GaussianProcess(Kernel(0.5, 0.05, 0.02)))
        yield


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A finished comparison, beside models to search with, and what was said about it."""
    home = tmp_path_factory.mktemp("bayesopt")
    fitted("cnp").save(home / "tiny")
    fitted("canp").save(home / "elsewhere" / "tiny")
    fitted("cnp", some_curves(outputs=2)).save(home / "pair")
    fitted("cnp", some_curves(inputs=2)).save(home / "plane")
    answer = call("bayesopt", "forrester", "--models", home / "tiny", "gp-rbf", "random", *SMALL, "--out", home / "out")
    assert answer.code == 0, answer.err
    return home, answer


def test_the_table_shows_every_strategy_and_the_figures_are_there(study):
    home, answer = study
    lines = answer.out.splitlines()
    assert lines[0].startswith("forrester, expected-improvement") and "quartiles" in lines[0]
    assert [line.split()[0] for line in lines[2:5]] == ["gp-rbf", "random", "tiny"]
    assert lines[5:] == [f"wrote {home / 'out' / FOLDER / name}" for name in ("table.md", "regret.png", "predicted.png")]
    table = (home / "out" / FOLDER / "table.md").read_text().splitlines()
    assert [row.split(" | ")[0] for row in table[2:]] == ["| gp-rbf", "| random", "| tiny"]
    for name in ("regret", "predicted"):
        assert plt.imread(home / "out" / FOLDER / f"{name}.png").shape[2] == 4


def test_a_record_holds_what_is_needed_to_trust_and_repeat_it(study):
    for name, moments in (("tiny", [0, 5, 6]), ("gp-rbf", [0, 5, 6]), ("random", [])):
        record = json.loads((study[0] / "out" / FOLDER / f"{name}.json").read_text())
        regret, x = np.asarray(record["simple_regret"]), np.asarray(record["x"])
        assert regret.shape == (3, 7) and (regret[:, 0] == 1).all() and (np.diff(regret) <= 0).all()
        assert x.shape == (3, 9) and (x >= 0).all() and (x <= 1).all()
        assert record["settings"]["seed"] == 0 and record["environment"]["jax"] and record["strategy"]["model"]
        assert [moment["after"] for moment in record["predicted"]] == moments
        assert record["minimum"]["x"] == pytest.approx(0.7572, abs=1e-4)


def test_what_has_a_record_is_not_run_again_and_the_rest_is_the_same_without_it(study, tmp_path):
    home, _ = study
    out = tmp_path / "out"
    shutil.copytree(home / "out", out)
    files = {name: out / FOLDER / f"{name}.json" for name in ("gp-rbf", "random", "tiny")}
    gp = json.loads(files["gp-rbf"].read_text())
    files["gp-rbf"].unlink()
    untouched = {name: files[name].stat().st_mtime_ns for name in ("random", "tiny")}
    assert call("bayesopt", "forrester", "--models", home / "tiny", "gp-rbf", "random", *SMALL, "--out", out).code == 0
    assert {name: files[name].stat().st_mtime_ns for name in ("random", "tiny")} == untouched
    again = json.loads(files["gp-rbf"].read_text())
    assert (again["x"], again["simple_regret"]) == (gp["x"], gp["simple_regret"])


def test_records_alone_are_drawn(study, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(study[0] / "out", out)
    (out / FOLDER / "regret.png").unlink()
    answer = call("bayesopt", "forrester", "--draw-only", "--out", out)
    assert answer.code == 0 and answer.out.splitlines()[:5] == study[1].out.splitlines()[:5]
    assert (out / FOLDER / "regret.png").is_file()


def test_random_search_alone_predicts_nothing(tmp_path):
    answer = call("bayesopt", "--models", "random", *SMALL, "--acquisitions", "thompson", "--out", tmp_path)
    assert answer.code == 0 and "predicted.png" not in answer.out
    assert (tmp_path / "gramacy-lee" / "thompson" / "random.json").is_file()
    assert (tmp_path / "forrester" / "thompson" / "regret.png").is_file()


def test_several_acquisitions_are_compared_in_one_figure(study, tmp_path):
    home, _ = study
    names = ("expected-improvement", "thompson")
    command = ("bayesopt", "forrester", "--models", home / "tiny", "random", *SMALL, "--out", tmp_path)
    answer = call(*command, "--acquisitions", *names)
    assert answer.code == 0 and answer.out.splitlines()[-1] == f"wrote {tmp_path / 'forrester' / 'acquisitions.png'}"
    assert plt.imread(tmp_path / "forrester" / "acquisitions.png").shape[2] == 4
    records = read_acquisitions(tmp_path, Study("forrester"))
    assert list(records) == list(names)
    alone = json.loads((home / "out" / FOLDER / "tiny.json").read_text())
    assert records[names[0]]["tiny"]["simple_regret"] == alone["simple_regret"]
    figure = acquisitions_figure(records)
    assert [ax.get_title() for ax in figure.axes] == ["tiny"]  # random search chooses by no acquisition
    for line, name in zip(figure.axes[0].lines, names, strict=True):
        assert line.get_label() == name.replace("-", " ")
        np.testing.assert_allclose(line.get_ydata(), np.median(records[name]["tiny"]["simple_regret"], axis=0), atol=1e-8)
    assert acquisitions_figure({names[0]: records[names[0]]}) is None


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["forester"], 2, "unknown objective 'forester'. Did you mean 'forrester'?"),
        (["--acquisitions", "thomson"], 2, "unknown acquisition 'thomson'. Did you mean 'thompson'?"),
        (["--trials", "0"], 2, "num_trials must be a whole number of at least 1"),
        (["--trials", "some"], 2, "argument --trials: invalid int value"),
        (["--seed", "-1"], 2, "seed must lie between"),
        (["--modles", "gp"], 2, "Did you mean --models?"),
        (["--models", "nowhere", "--out", "new"], 3, "nowhere holds no model"),
        (["--models", "pair", "--out", "new"], 2, "this model predicts 2"),
        (["--models", "plane", "--out", "new"], 2, "the model reads 2"),
        (["--models", "tiny", "elsewhere/tiny", "--out", "new"], 2, "two of the models are called 'tiny'"),
        (["forrester", "--models", "elsewhere/tiny", *SMALL, "--out", "out"], 3, "is the record of another model"),
        (["forrester", "--models", "random", "--out", "out"], 3, "was made with num_trials = 3, not 100"),
        (["--draw-only", "--out", "new"], 3, "holds no records; run the command without --draw-only first"),
        (["forrester", "--draw-only", "--out", "foreign"], 3, "is not a complete record of this study"),
        (["forrester", "--draw-only", "--out", "mixed"], 3, "random.json was made with num_trials = 4, not 3"),
        (["forrester", "--models", "random", *SMALL, "--out", "tiny/card.json"], 3, "cannot write"),
    ],
)
def test_mistakes_are_one_line_that_says_what_to_do(study, monkeypatch, arguments, code, message):
    home, _ = study
    monkeypatch.chdir(home)
    (home / "foreign" / FOLDER).mkdir(parents=True, exist_ok=True)
    (home / "foreign" / FOLDER / "notes.json").write_text("{}")
    shutil.copytree(home / "out", home / "mixed", dirs_exist_ok=True)
    other = json.loads((home / "out" / FOLDER / "random.json").read_text())
    other["settings"]["num_trials"] = 4
    (home / "mixed" / FOLDER / "random.json").write_text(json.dumps(other))
    answer = call("bayesopt", *arguments)
    assert (answer.code, len(answer.err.splitlines())) == (code, 1) and message in answer.err
    assert not (home / "new").exists()


@pytest.mark.parametrize("name", ["settings", "strategy", "minimum", "simple_regret", "predicted"])
@pytest.mark.parametrize("value", [3, None, "x", [3], [["x"]], [[None]]], ids=str)
def test_a_damaged_record_is_named(study, tmp_path, name, value):
    (tmp_path / FOLDER).mkdir(parents=True)
    record = json.loads((study[0] / "out" / FOLDER / "random.json").read_text())
    (tmp_path / FOLDER / "random.json").write_text(json.dumps(record | {name: value}))
    answer = call("bayesopt", "forrester", "--draw-only", "--out", tmp_path)
    assert answer.code == 3 and "random.json is not a complete record of this study" in answer.err
