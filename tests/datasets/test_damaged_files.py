"""Files from strangers: damage is reported with our own error, and nothing is allocated on the word of a header."""

import contextlib
import gzip
import io
import tracemalloc

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from helpers.image_files import IDX, RNG, face, write_digits, write_faces, write_numbers
from mpnp.datasets import crop, mnist, svhn
from mpnp.datasets.crop import read_picture
from mpnp.datasets.prepared import store_of
from mpnp.datasets.registry import prepare, prepare_own
from mpnp.errors import InputError

LIST = "list_eval_partition.txt"


def encoded(ending: str, **options) -> bytes:
    file = io.BytesIO()
    Image.fromarray(RNG.integers(0, 256, (9, 12, 3), np.uint8)).save(file, ending, **options)
    return file.getvalue()


@pytest.mark.parametrize("ending", ["png", "jpeg", "gif", "bmp", "tiff", "webp", "ppm"])
def test_a_damaged_picture_is_read_or_refused(tmp_path, ending):
    content, path, rng = encoded(ending), tmp_path / f"picture.{ending}", np.random.default_rng(0)
    assert read_picture(io.BytesIO(content), (4, 4, 3)).shape == (4, 4, 3)
    for _ in range(60):
        damaged = bytearray(content[: rng.integers(1, len(content) + 1)])
        for place in rng.integers(0, len(damaged), 3):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            assert read_picture(path, (4, 4, 3)).shape == (4, 4, 3)
        except InputError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize("error", [SyntaxError, TypeError, NotImplementedError, RecursionError])
def test_whatever_a_decoder_raises_is_an_input_error(tmp_path, monkeypatch, error):
    def fail(*_, **__):
        raise error("odd")

    (tmp_path / "picture.png").write_bytes(encoded("png"))
    monkeypatch.setattr(Image, "open", fail)
    with pytest.raises(InputError, match=r"cannot be read as a picture \(odd\)"):
        read_picture(tmp_path / "picture.png", (4, 4, 3))


def test_a_picture_with_too_many_pixels_is_refused_before_it_is_decoded(tmp_path, monkeypatch):
    path = tmp_path / "large.png"
    Image.new("L", (1000, 1001)).save(path)
    monkeypatch.setattr(crop, "MOST_PIXELS", 1000 * 1000)
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", None)  # not to be called
    with pytest.raises(InputError, match="too many pixels"):
        read_picture(path, (4, 4, 1))


def test_a_jpeg_with_thousands_of_scans_is_refused(tmp_path):
    content = encoded("jpeg", progressive=True)
    last = content.rindex(b"\xff\xda")
    repeated = content[:last] + content[last:-2] * 1000 + content[-2:]
    with pytest.raises(InputError, match="scans are too many"):
        read_picture(io.BytesIO(repeated), (4, 4, 3))


def test_formats_that_start_other_programs_are_not_decoded(tmp_path):
    path = tmp_path / "picture.png"
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n")
    with pytest.raises(InputError, match="cannot be read as a picture"):
        read_picture(path, (4, 4, 3))


@pytest.mark.parametrize("shape", [(2**31, 28, 28), (60_000, 2**16, 2**16), (2**32 - 1,) * 3])
def test_the_header_of_an_idx_file_is_checked_before_it_is_unpacked(folder, shape):
    write_digits(folder)
    packed = gzip.compress(mnist.MAGIC + np.array(shape, ">u4").tobytes() + bytes(1000))
    (folder / f"{IDX}.gz").write_bytes(packed)
    with pytest.raises(InputError, match=r"declares .* more than 2,147,483,648 bytes"):
        prepare("mnist", folder)


def test_no_more_is_unpacked_than_the_header_declares(folder):
    write_digits(folder)
    packed = gzip.compress(mnist.MAGIC + np.array((10, 28, 28), ">u4").tobytes() + bytes(2**26))
    (folder / f"{IDX}.gz").write_bytes(packed)
    tracemalloc.start()
    with pytest.raises(InputError, match="7,841 bytes or more of images instead of 7,840"):
        prepare("mnist", folder)
    assert tracemalloc.get_traced_memory()[1] < 2**23
    tracemalloc.stop()


def test_the_header_of_a_matlab_file_is_checked_before_it_is_unpacked(folder, monkeypatch):
    write_numbers(folder)
    savemat(folder / "train_32x32.mat", {"X": np.zeros((32, 32, 3, 11), np.uint8)}, do_compression=True)
    monkeypatch.setattr(svhn, "MOST_IMAGES", 10)
    monkeypatch.setattr("scipy.io.loadmat", None)  # not to be called
    with pytest.raises(InputError, match=r"at most 10 images .* shape \(32, 32, 3, 11\)"):
        prepare("svhn", folder)


def test_an_array_that_claims_terabytes_is_refused(folder):
    with (folder / "own.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (10**9, 1024, 3)})
        file.write(bytes(100))
    with pytest.raises(InputError, match="cannot be read as an array"):
        prepare_own("images/own", folder / "own.npy")


def test_an_archive_of_arrays_is_not_taken_for_an_array(folder):
    with (folder / "own.npy").open("wb") as file:
        np.savez(file, a=np.zeros(3))
    with pytest.raises(InputError, match="cannot be read as an array"):
        prepare_own("images/own", folder / "own.npy")


@pytest.mark.parametrize("name", ["../../../outside.png", "/outside.png", "..", "img_align_celeba/../x.png", "sub/1.png"])
@pytest.mark.parametrize("zipped", [True, False])
def test_a_list_cannot_name_files_outside_its_folder(folder, name, zipped):
    write_faces(folder, zipped=zipped)
    face(1).save(folder.parent / "outside.png")
    (folder / LIST).write_text(f"000001.png 0\n{name} 1\n000003.png 2\n")
    with pytest.raises(InputError, match=r"line 2 of .* must name a file in img_align_celeba"):
        prepare("celeba", folder)
    assert not store_of("celeba").exists()


@pytest.mark.parametrize("name", ["inner.png", "n" * 300, "nul\0.png"], ids=["directory", "long", "nul"])
@pytest.mark.parametrize("zipped", [True, False])
def test_listed_names_that_are_no_files_are_refused(folder, name, zipped):
    write_faces(folder, zipped=zipped)
    if not zipped:
        (folder / "img_align_celeba" / "inner.png").mkdir()
    (folder / LIST).write_text(f"{name} 0\n000002.png 1\n000003.png 2\n")
    with pytest.raises(InputError, match=r"cannot be read|missing from") as refusal:
        prepare("celeba", folder)
    assert len(str(refusal.value)) < 400


def test_encrypted_faces_are_refused(folder):
    write_faces(folder, zipped=True)
    archive = folder / "img_align_celeba.zip"
    content = bytearray(archive.read_bytes())
    for mark, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        content[content.find(mark) + offset] |= 1
    archive.write_bytes(content)
    with pytest.raises(InputError, match=r"000001\.png of .* cannot be read \(.*encrypted"):
        prepare("celeba", folder)


def test_a_damaged_archive_is_refused_wherever_the_damage_is(folder):
    write_faces(folder, zipped=True)
    archive = folder / "img_align_celeba.zip"
    content = archive.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(60):
        damaged = bytearray(content)
        for place in rng.integers(len(damaged) - 500, len(damaged), 3):  # the directory of the archive
            damaged[place] = rng.integers(256)
        archive.write_bytes(damaged)
        with contextlib.suppress(InputError):
            prepare("celeba", folder)


@pytest.mark.parametrize("name", ["images/" + "n" * 300, "images/..", "images/a/../b", "images/"])
def test_names_of_image_sets_are_short_and_plain(folder, name):
    with pytest.raises(InputError, match="at most 100"):
        prepare_own(name, folder)
