"""Image data sets: every official format is read and split as in the paper, and damage is named."""

import functools
import gzip
import http.server
import threading
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from helpers.image_files import (
    DIGITS,
    FEW_DIGITS,
    FEW_NUMBERS,
    IDX,
    NUMBERS,
    face,
    idx_bytes,
    write_digits,
    write_faces,
    write_numbers,
)
from mpnp.datasets import registry as sets
from mpnp.datasets.prepared import store_of
from mpnp.datasets.registry import IMAGE_SETS, download, prepare, prepare_own
from mpnp.errors import InputError
from mpnp.io import store
from mpnp.tasks.images import CompletionFamily, PixelFamily
from mpnp.tasks.registry import find_problem, task_dims


@pytest.mark.parametrize("zipped", [True, False])
def test_idx_files_are_read_and_the_last_fifth_validates(folder, zipped):
    write_digits(folder, zipped=zipped)
    about = prepare("mnist", folder)
    assert about == {"images": {"train": 16, "validation": 4, "test": 6}, "shape": [28, 28, 1], "subset": True}
    arrays, _ = store.load_arrays(store_of("mnist"))
    np.testing.assert_array_equal(arrays["train"], DIGITS[:16].reshape(16, 784, 1))
    np.testing.assert_array_equal(arrays["validation"], DIGITS[16:].reshape(4, 784, 1))
    np.testing.assert_array_equal(arrays["test"], FEW_DIGITS.reshape(6, 784, 1))
    assert find_problem("mnist").data == "subset: 16 train, 4 validation, 6 test"


def test_each_part_of_an_image_problem_has_its_own_images(folder):
    write_digits(folder)
    prepare("mnist", folder)
    problem = find_problem("mnist")
    for family, images in ((problem.training, DIGITS[:16]), (problem.validation, DIGITS[16:]), (problem.test, FEW_DIGITS)):
        np.testing.assert_array_equal(family.pixels, images.reshape(len(images), 784, 1))
    assert isinstance(problem.training, PixelFamily)
    assert isinstance(problem.validation, CompletionFamily) and isinstance(problem.test, CompletionFamily)


def numbered(count):
    """Images of one pixel, told apart by its value."""
    return np.arange(count).astype(np.uint8).reshape(count, 1, 1, 1)


@pytest.mark.parametrize("name, file_size", [("mnist", 60_000), ("svhn", 73_257)])
def test_official_files_are_split_as_in_the_paper(name, file_size):
    read = lambda _, file: numbered(file_size if "train" in file else 7)  # noqa: E731
    official = IMAGE_SETS[name].official
    parts = functools.partial(sets._two_files, read, "train", "test", official["train"])(Path())
    assert {part: len(images) for part, images in parts.items()} == {**official, "test": 7}
    np.testing.assert_array_equal(np.concatenate([parts["train"], parts["validation"]]), numbered(file_size))


def test_matlab_files_are_read(folder):
    write_numbers(folder)
    assert prepare("svhn", folder)["images"] == {"train": 8, "validation": 2, "test": 4}
    np.testing.assert_array_equal(store.load_arrays(store_of("svhn"))[0]["test"], FEW_NUMBERS.reshape(4, 1024, 3))
    assert task_dims("svhn") == (2, 3)


@pytest.mark.parametrize("zipped", [True, False])
def test_faces_are_cut_to_their_middle_and_split_by_the_official_list(folder, zipped):
    write_faces(folder, zipped=zipped)
    assert prepare("celeba", folder)["images"] == {"train": 4, "validation": 1, "test": 1}
    arrays, _ = store.load_arrays(store_of("celeba"))
    for part, number in (("train", 1), ("validation", 5), ("test", 6)):
        np.testing.assert_array_equal(arrays[part][0], np.broadcast_to(np.array([10 * number, 100, 200]), (1024, 3)))


def test_own_pictures_and_arrays_are_read(folder):
    for number in range(12):
        face(number).save(folder / f"{number:02d}.PNG" if number % 2 else folder / f"{number:02d}.png")
    about = prepare_own("images/faces", folder, size=16, channels=1)
    assert about["images"] == {"train": 10, "validation": 1, "test": 1} and about["shape"] == [16, 16, 1]
    assert task_dims("images/faces") == (2, 1)
    np.save(folder / "own.npy", NUMBERS[:, :20])
    assert prepare_own("images/wide", folder / "own.npy")["shape"] == [20, 32, 3]
    parts = store.load_arrays(store_of("images/wide"))[0]
    stored = np.concatenate([parts[part] for part in ("train", "validation", "test")])
    assert {image.tobytes() for image in stored} == {image.tobytes() for image in NUMBERS[:, :20]}


def damage(content, folder, name):
    (folder / name).write_bytes(content)


def spoil_a_face(folder):
    """A byte of the first picture, in the middle of the zip file, is another one."""
    archive = folder / "img_align_celeba.zip"
    content = bytearray(archive.read_bytes())
    content[100] ^= 0xFF
    archive.write_bytes(content)


def write_small_digits(folder):
    (folder / f"{IDX}.gz").write_bytes(gzip.compress(idx_bytes(DIGITS[:, ::2, ::2])))


@pytest.mark.parametrize(
    "name, spoil, complaint",
    [
        ("mnist", lambda folder: (folder / f"{IDX}.gz").unlink(), "train-images-idx3-ubyte and .* are missing"),
        ("mnist", functools.partial(damage, gzip.compress(idx_bytes(DIGITS)[:-5]), name=f"{IDX}.gz"), "cut short or damaged"),
        ("mnist", functools.partial(damage, gzip.compress(idx_bytes(DIGITS))[:-50], name=f"{IDX}.gz"), "cannot be read"),
        ("mnist", functools.partial(damage, gzip.compress(b"<html>"), name=f"{IDX}.gz"), "not an IDX file"),
        ("mnist", functools.partial(damage, gzip.compress(b"x" * 99)[:15] + b"\xff" * 20, name=f"{IDX}.gz"), "cannot be read"),
        ("mnist", functools.partial(damage, gzip.compress(b""), name=f"{IDX}.gz"), "begins with nothing"),
        ("mnist", functools.partial(damage, gzip.compress(b"\0\0\x08\3"), name=f"{IDX}.gz"), "cut short or damaged"),
        ("svhn", lambda folder: (folder / "test_32x32.mat").unlink(), "test_32x32.mat is missing"),
        ("svhn", functools.partial(damage, b"nonsense", name="train_32x32.mat"), "cannot be read"),
        ("svhn", lambda folder: savemat(folder / "train_32x32.mat", {"X": np.zeros((2, 2))}), "images of 32 by 32 by 3 bytes"),
        ("svhn", lambda folder: savemat(folder / "train_32x32.mat", {"Y": np.zeros((2, 2))}), "cannot be read"),
        ("celeba", lambda folder: (folder / "list_eval_partition.txt").unlink(), "list_eval_partition.txt is missing"),
        ("celeba", functools.partial(damage, b"000001.png three\n", name="list_eval_partition.txt"), "line 1 of"),
        (
            "celeba",
            functools.partial(damage, b"000001.png 0\n", name="list_eval_partition.txt"),
            "no pictures of the validation",
        ),
        ("celeba", lambda folder: (folder / "img_align_celeba.zip").unlink(), "neither img_align_celeba nor"),
        ("celeba", functools.partial(damage, b"PK", name="img_align_celeba.zip"), "cannot be read"),
        ("celeba", spoil_a_face, "000001.png of .*img_align_celeba cannot be read .*; fetch CelebA again"),
        ("mnist", write_small_digits, "images of 14 x 14 x 1, but those of mnist are 28 x 28 x 1"),
        (
            "celeba",
            functools.partial(damage, b"1.png 0\n2.png 1\n3.png 2\n", name="list_eval_partition.txt"),
            "1.png is listed in list_eval_partition.txt but missing",
        ),
    ],
)
def test_damage_is_named_with_the_file_and_nothing_is_kept(folder, name, spoil, complaint):
    write_digits(folder)
    write_numbers(folder)
    write_faces(folder, zipped=True)
    spoil(folder)
    with pytest.raises(InputError, match=complaint):
        prepare(name, folder)
    assert not store_of(name).exists()


@pytest.mark.parametrize(
    "content, complaint",
    [
        (np.zeros((12, 8, 8)), r"must hold bytes .* holds float64 of \(12, 8, 8\)$"),
        (np.zeros((12, 257, 8), np.uint8), "too large; the maximum is 256 x 256"),
        (np.zeros((12, 8, 8, 2), np.uint8), "must hold bytes"),
        (np.zeros((3, 8, 8), np.uint8), "holds 3 images; at least 10"),
    ],
)
def test_arrays_that_are_no_images_are_refused(folder, content, complaint):
    np.save(folder / "own.npy", content)
    with pytest.raises(InputError, match=complaint):
        prepare_own("images/own", folder / "own.npy")


def test_files_are_fetched_and_checked(folder, monkeypatch):
    write_digits(folder)
    import pooch

    names = [f"{IDX}.gz", "t10k-images-idx3-ubyte.gz"]
    checksums = {name: f"md5:{pooch.file_hash(folder / name, alg='md5')}" for name in names}
    monkeypatch.setitem(sets.IMAGE_SETS, "mnist", sets.ImageSet(sets._digits, IMAGE_SETS["mnist"].official, "", checksums))
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    monkeypatch.setattr(http.server.SimpleHTTPRequestHandler, "log_message", lambda *_: None)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/"
        fetched = download("mnist", address=address)
        assert prepare("mnist", fetched)["images"]["train"] == 16
        (fetched / names[0]).unlink()
        (folder / names[0]).write_bytes(b"something else")
        with pytest.raises(InputError, match="cannot download mnist"):
            download("mnist", address=address)
        assert not (fetched / names[0]).exists()
        (folder / names[0]).unlink()
        with pytest.raises(InputError, match="download its files by hand"):
            download("mnist", address=address)
        server.shutdown()
    with pytest.raises(InputError, match="get it from its site"):
        download("celeba")
