"""Official files of image data sets, small and made up."""

import gzip
import io
import zipfile

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

RNG = np.random.default_rng(0)
DIGITS, FEW_DIGITS = (RNG.integers(0, 256, (count, 28, 28), np.uint8) for count in (20, 6))
NUMBERS, FEW_NUMBERS = (RNG.integers(0, 256, (count, 32, 32, 3), np.uint8) for count in (10, 4))
IDX = "train-images-idx3-ubyte"


def idx_bytes(images: np.ndarray) -> bytes:
    return b"\x00\x00\x08\x03" + np.array(images.shape, ">u4").tobytes() + images.tobytes()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder for official files; data are kept beside it."""
    monkeypatch.setenv("MPNP_DATA", str(tmp_path / "kept"))
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


def write_digits(folder, *, zipped=True):
    for name, images in (("train-images-idx3-ubyte", DIGITS), ("t10k-images-idx3-ubyte", FEW_DIGITS)):
        if zipped:
            (folder / f"{name}.gz").write_bytes(gzip.compress(idx_bytes(images)))
        else:
            (folder / name).write_bytes(idx_bytes(images))


def write_numbers(folder):
    for name, images in (("train_32x32.mat", NUMBERS), ("test_32x32.mat", FEW_NUMBERS)):
        savemat(folder / name, {"X": np.moveaxis(images, 0, -1), "y": np.ones((len(images), 1))})


def face(number: int) -> Image.Image:
    """Half a face wide and tall as CelebA's: its middle square has a colour of its own, the margins are black."""
    picture = np.zeros((218, 178, 3), np.uint8)
    picture[20:198] = (10 * number, 100, 200)
    return Image.fromarray(picture)


def write_faces(folder, *, zipped):
    names = [f"{number:06d}.png" for number in range(1, 7)]
    (folder / "list_eval_partition.txt").write_text("".join(f"{name} {max(0, i - 3)}\n" for i, name in enumerate(names)))
    if zipped:
        with zipfile.ZipFile(folder / "img_align_celeba.zip", "w") as archive:
            for number, name in enumerate(names, 1):
                content = io.BytesIO()
                face(number).save(content, "PNG")
                archive.writestr(f"img_align_celeba/{name}", content.getvalue())
    else:
        (folder / "img_align_celeba").mkdir()
        for number, name in enumerate(names, 1):
            face(number).save(folder / "img_align_celeba" / name)
