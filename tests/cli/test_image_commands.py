"""Images on the command line: prepared, trained on and completed, and mistakes in one line."""

import numpy as np
import pytest
from PIL import Image

from helpers.image_files import DIGITS, write_digits
from mpnp.cli import main


def run(*arguments) -> int:
    return main([str(argument) for argument in arguments])


@pytest.mark.filterwarnings("ignore:do not trust:UserWarning")  # after two steps on noise
def test_from_files_to_a_completed_picture_on_the_command_line(folder, tmp_path, capsys):
    write_digits(folder)
    assert run("data", "mnist", "--from", folder) == 0
    assert "16 train, 4 validation, 6 test images of 28 x 28 x 1 (not the official files" in capsys.readouterr().out
    out, picture = tmp_path / "run", tmp_path / "digit.png"
    small = ("--width", 16, "--num-heads", 2, "--batch-size", 4, "--num-samples", 2, "--validation-tasks", 4)
    assert run("train", "--model", "cnp", "--task", "mnist", "--steps", 2, *small, "--out", out, "--quiet") == 0
    assert run("evaluate", out, "--num-tasks", 4, "--json") == 0
    assert '"data": "subset: 16 train, 4 validation, 6 test"' in capsys.readouterr().out
    assert run("evaluate", out, "--num-tasks", 4) == 0
    assert "\ndata: subset: 16 train, 4 validation, 6 test\n" in capsys.readouterr().out
    Image.fromarray(DIGITS[0]).save(picture)
    assert run("complete", out, picture, "--keep", "10%", "--out", tmp_path / "done.png") == 0
    assert "78 of 784 pixels shown" in capsys.readouterr().out
    with Image.open(tmp_path / "done.png") as drawn:
        assert drawn.width > 300


def save_digit(path, ink, paper):
    digit = np.full((28, 28), paper, np.uint8)
    digit[4:24, 13:16] = ink
    Image.fromarray(digit).save(path)


@pytest.mark.filterwarnings("always:do not trust:UserWarning")
def test_only_a_picture_unlike_those_of_training_is_warned_about(tmp_path, capsys):
    """A one, white on black as MNIST's are, and the same as ink on paper."""
    for ink, paper in ((255, 0), (0, 255)):
        save_digit(tmp_path / "one.png", ink, paper)
        assert run("complete", "mpanp-mnist", tmp_path / "one.png", "--out", tmp_path / "done.png", "--num-samples", 2) == 0
        assert ("mpnp: warning: do not trust this completion" in capsys.readouterr().err) == (paper == 255)


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (("data", "minst", "--download"), "unknown data set 'minst'"),
        (("data", "mnist"), "say where the files are"),
        (("data", "mnist", "--from", "nowhere"), "nowhere is not a folder"),
        (("data", "images/own", "--from", "nowhere"), "nowhere is neither a folder of pictures nor a .npy file"),
        (("data", "images/", "--from", "x"), "followed by letters"),
        (("data", "images/..", "--from", "."), "followed by letters"),
        (("data", "images//tmp/photos", "--from", "."), "followed by letters"),
        (("data", "images/own", "--from", ".", "--size", "0"), "--size must lie between 3 and 256"),
        (("data", "images/own", "--from", ".", "--size", "100000"), "--size must lie between 3 and 256"),
        (("data", "images/own", "--from", "nowhere.npy"), "nowhere.npy does not exist"),
        (("data", "images/own", "--from", "nowhere.npy", "--channels", "1"), "--size and --channels are for"),
        (("data", "mnist", "--from", ".", "--size", "14"), "--size and --channels are for"),
        (("data", "lotka-volterra", "--from", "."), "is simulated and reads no files"),
        (("data", "celeba", "--download"), "cannot be downloaded automatically"),
        (
            ("train", "--model", "cnp", "--task", "images/cats"),
            "not on this machine yet; prepare them with 'mpnp data images/cats",
        ),
        (("train", "--model", "cnp", "--task", "mnist"), "not on this machine yet; prepare them with 'mpnp data mnist"),
        (("complete", "mpanp-rbf", "x.png"), "was trained on rbf, not on images"),
        (("complete", "mpanp-rbf", "x.png", "--out", "x.nonsense"), "cannot write a figure"),
    ],
)
def test_a_mistake_is_one_line(folder, tmp_path, monkeypatch, capsys, arguments, complaint):
    monkeypatch.chdir(tmp_path)
    assert run(*arguments) == 2
    error = capsys.readouterr().err
    assert complaint in error and error.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} <= {"files", "kept"}
