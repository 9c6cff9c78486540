"""Images: every official format is read, damage is named, tasks are cut as in the paper, pictures are completed."""

import functools
import gzip
import http.server
import io
import threading
import zipfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat
from scipy.stats import norm

from models import SETTINGS
from mpnp import stores
from mpnp.cli import main
from mpnp.completion import Completion, choose_pixels, complete, completion_figure, read_keep
from mpnp.errors import InputError
from mpnp.images import sets
from mpnp.images.sets import IMAGE_SETS, download, prepare, prepare_own
from mpnp.images.shape import read_picture
from mpnp.models.catalogue import build
from mpnp.networks.predictive import Predictive
from mpnp.tasks.catalogue import find_problem, task_dims
from mpnp.tasks.image_sets import store_of
from mpnp.tasks.images import CompletionFamily, PixelFamily, positions
from mpnp.tasks.sources import fixed_tasks

RNG = np.random.default_rng(0)
DIGITS, FEW_DIGITS = (RNG.integers(0, 256, (count, 28, 28), np.uint8) for count in (20, 6))
NUMBERS, FEW_NUMBERS = (RNG.integers(0, 256, (count, 32, 32, 3), np.uint8) for count in (10, 4))


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


@pytest.mark.parametrize("zipped", [True, False])
def test_idx_files_are_read_and_the_last_fifth_validates(folder, zipped):
    write_digits(folder, zipped=zipped)
    about = prepare("mnist", folder)
    assert about == {"images": {"train": 16, "validation": 4, "test": 6}, "shape": [28, 28, 1], "subset": True}
    arrays, _ = stores.load_arrays(store_of("mnist"))
    np.testing.assert_array_equal(arrays["train"], DIGITS[:16].reshape(16, 784, 1))
    np.testing.assert_array_equal(arrays["validation"], DIGITS[16:].reshape(4, 784, 1))
    assert find_problem("mnist").data == "subset: 16 train, 4 validation, 6 test"


@pytest.mark.parametrize("name, file_size", [("mnist", 60_000), ("svhn", 73_257)])
def test_official_files_are_split_as_in_the_paper(name, file_size):
    read = lambda _, file: np.zeros((file_size if "train" in file else 7, 1, 1, 1), np.uint8)  # noqa: E731
    official = IMAGE_SETS[name].official
    parts = functools.partial(sets._two_files, read, "train", "test", official["train"])(Path())
    assert {part: len(images) for part, images in parts.items()} == {**official, "test": 7}


def test_matlab_files_are_read(folder):
    write_numbers(folder)
    assert prepare("svhn", folder)["images"] == {"train": 8, "validation": 2, "test": 4}
    np.testing.assert_array_equal(stores.load_arrays(store_of("svhn"))[0]["test"], FEW_NUMBERS.reshape(4, 1024, 3))
    assert task_dims("svhn") == (2, 3)


@pytest.mark.parametrize("zipped", [True, False])
def test_faces_are_cut_to_their_middle_and_split_by_the_official_list(folder, zipped):
    write_faces(folder, zipped=zipped)
    assert prepare("celeba", folder)["images"] == {"train": 4, "validation": 1, "test": 1}
    arrays, _ = stores.load_arrays(store_of("celeba"))
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
    parts = stores.load_arrays(store_of("images/wide"))[0]
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


IDX = "train-images-idx3-ubyte"


@pytest.mark.parametrize(
    "name, spoil, complaint",
    [
        ("mnist", lambda folder: (folder / f"{IDX}.gz").unlink(), "train-images-idx3-ubyte is missing"),
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
            "no picture of the validation",
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
        (np.zeros((12, 257, 8), np.uint8), "too large; make them 256 x 256 at most"),
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
        with pytest.raises(InputError, match="cannot fetch mnist"):
            download("mnist", address=address)
        assert not (fetched / names[0]).exists()
        (folder / names[0]).unlink()
        with pytest.raises(InputError, match="fetch its files by hand"):
            download("mnist", address=address)
        server.shutdown()
    with pytest.raises(InputError, match="get it from its site"):
        download("celeba")


def some_family(kind):
    pixels = jnp.asarray(NUMBERS.reshape(len(NUMBERS), 1024, 3))
    return kind(pixels, height=32, width=32, y_dim=3)


@functools.cache
def training_tasks():
    return jax.jit(jax.vmap(some_family(PixelFamily).sample))(jax.random.split(jax.random.key(0), 2_000))


def test_a_training_task_is_200_pixels_under_the_papers_protocol():
    tasks = training_tasks()
    assert tasks.x.shape == (2_000, 200, 2) and tasks.y.shape == (2_000, 200, 3)
    context, target = (np.asarray(mask.sum(axis=-1)) for mask in (tasks.context_mask, tasks.target_mask))
    assert (context.min(), context.max()) == (3, 197) and target.min() == 3 and (context + target).max() == 200
    assert not (tasks.context_mask & tasks.target_mask).any()


def lookup(x) -> np.ndarray:
    """The numbers of the pixels at given positions."""
    return np.rint((np.asarray(x) + 0.5) * 31).astype(int) @ np.array([32, 1])


def test_a_point_is_a_pixel_of_one_image_at_its_place_and_in_its_colour():
    tasks = training_tasks()
    flat = NUMBERS.reshape(len(NUMBERS), 1024, 3)
    met = set()
    for task in range(50):
        mask = np.asarray(tasks.context_mask[task] | tasks.target_mask[task])
        numbers = lookup(tasks.x[task])[mask]
        assert len(set(numbers)) == mask.sum()  # no pixel twice
        bytes_ = np.rint((np.asarray(tasks.y[task])[mask] + 0.5) * 255)
        (image,) = [number for number in range(len(flat)) if (flat[number][numbers] == bytes_).all()]
        met.add(image)
    assert len(met) > 5


def test_evaluation_meets_every_image_once_and_asks_for_all_the_rest():
    tasks = fixed_tasks(some_family(CompletionFamily), 1).batch(jnp.arange(len(NUMBERS)))
    assert (np.asarray(tasks.context_mask | tasks.target_mask)).all()
    context = np.asarray(tasks.context_mask.sum(axis=-1))
    assert context.min() >= 3 and context.max() <= 197 and len(set(context)) > 5
    for number, image in enumerate(NUMBERS.reshape(len(NUMBERS), 1024, 3)):
        np.testing.assert_allclose(tasks.y[number], image[lookup(tasks.x[number])] / 255 - 0.5, atol=1e-6)


def test_positions_reach_from_corner_to_corner():
    where = positions(3, 2)
    assert where.tolist() == [[-0.5, -0.5], [-0.5, 0.5], [0, -0.5], [0, 0.5], [0.5, -0.5], [0.5, 0.5]]


@pytest.mark.parametrize("text, count", [("10%", 78), ("80", 80), ("0.5%", 4)])
def test_how_much_to_keep_is_a_share_or_a_number(text, count):
    assert read_keep(text, 784) == count


@pytest.mark.parametrize("text", ["0", "100%", "-3", "half", "", "%", "785", "inf%", "nan%"])
def test_a_share_that_makes_no_sense_is_refused(text):
    with pytest.raises(InputError, match="--keep must"):
        read_keep(text, 784)


@pytest.mark.parametrize("name", ["cnp", "mpanp"])
def test_a_completion_depends_on_the_pixels_shown_alone(name):
    model = build(name, key=jax.random.key(0), x_dim=2, y_dim=1, settings=SETTINGS)
    shown = choose_pixels(28, 28, 78, 0)
    image, other = DIGITS[0][..., None], np.where(shown, DIGITS[0], 255 - DIGITS[0])[..., None]
    first, second = (complete(model, picture, shown, num_samples=3) for picture in (image, other))
    np.testing.assert_array_equal(first.mean, second.mean)
    assert first.mean.shape == (28, 28, 1) and first.std.shape == (28, 28)
    np.testing.assert_allclose(first.draws.shape, (model.num_components(3), 28, 28, 1))
    figure = completion_figure({"a": first, "b": second})
    assert len(figure.axes) == 2 * (4 + (0 if name == "cnp" else 3))


def test_the_likelihood_of_pixels_shown_is_that_of_the_gaussians_predicted_there():
    shown, image = np.array([[True, False], [False, True]]), np.array([[[255], [7]], [[9], [0]]], np.uint8)
    predictive = Predictive(jnp.array([[[0.5], [9.0], [9.0], [-0.5]]]), jnp.array([[[0.1], [9.0], [9.0], [0.2]]]))
    expected = np.mean(norm.logpdf([0.5, -0.5], [0.5, -0.5], [0.1, 0.2]))
    np.testing.assert_allclose(Completion(image, shown, predictive).log_likelihood, expected, rtol=1e-6)


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


@pytest.mark.parametrize("height, width", [(8, 8), (4, 16)])
def test_a_figure_is_as_high_as_its_rows(height, width):
    """Panels fill the figure but for titles and labels, whatever the proportions."""
    image, shown = np.zeros((height, width, 1), np.uint8), choose_pixels(height, width, 5, 0)
    predictive = Predictive(jnp.zeros((3, height * width, 1)), jnp.ones((3, height * width, 1)))
    figure = completion_figure(dict.fromkeys("abc", Completion(image, shown, predictive)))
    figure.draw_without_rendering()
    panels = [ax.get_position() for ax in figure.axes]
    assert min(panel.y0 for panel in panels) < 0.08
    gaps = {round(above.y0 - below.y1, 3) * figure.get_figheight() for above, below in zip(panels, panels[7:], strict=False)}
    assert 0 < max(gaps) < 0.2


def test_a_picture_is_turned_as_the_camera_was_held(tmp_path):
    upright = np.arange(0, 240, 15, dtype=np.uint8).reshape(4, 4)
    orientation = Image.Exif()
    orientation[0x0112] = 6  # to be turned clockwise by a quarter
    Image.fromarray(np.rot90(upright)).save(tmp_path / "turned.png", exif=orientation)
    np.testing.assert_array_equal(read_picture(tmp_path / "turned.png", (4, 4, 1))[..., 0], upright)


@pytest.mark.parametrize("mode, clear, black", [("RGBA", (0, 0, 0, 0), (0, 0, 0, 255)), ("LA", (0, 0), (0, 255))])
def test_a_transparent_picture_lies_on_white(tmp_path, mode, clear, black):
    picture = Image.new(mode, (4, 4), clear)
    picture.putpixel((1, 2), black)
    picture.save(tmp_path / "clear.png")
    expected = np.full((4, 4, 3), 255)
    expected[2, 1] = 0
    np.testing.assert_array_equal(read_picture(tmp_path / "clear.png", (4, 4, 3)), expected)


def test_a_picture_is_cut_to_the_proportions_of_the_model(tmp_path, monkeypatch):
    path = tmp_path / "wide.png"
    picture = np.zeros((40, 100), np.uint8)
    picture[:, 30:70] = 200
    Image.fromarray(picture).save(path)
    assert read_picture(path, (8, 8, 1)).tolist() == np.full((8, 8, 1), 200).tolist()
    assert read_picture(path, (4, 10, 3)).shape == (4, 10, 3)
    ramp = np.linspace(0, 65535, 64 * 64).reshape(64, 64).astype(np.uint16)
    Image.fromarray(ramp).save(path)  # 16 bits a pixel
    small = read_picture(path, (8, 8, 1))
    assert small.min() < 30 and small.max() > 225 and len(np.unique(small)) > 5
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1_000)
    with pytest.raises(InputError, match=r"wide\.png has more pixels than any photograph; save it smaller"):
        read_picture(path, (8, 8, 1))
    path.write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"wide\.png cannot be read as a picture"):
        read_picture(path, (8, 8, 1))


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


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (("data", "minst", "--download"), "unknown data set 'minst'"),
        (("data", "mnist"), "where are the files"),
        (("data", "mnist", "--from", "nowhere"), "nowhere is not a folder"),
        (("data", "images/own", "--from", "nowhere"), "nowhere is neither a folder of pictures nor a .npy file"),
        (("data", "images/", "--from", "x"), "plain name"),
        (("data", "images/..", "--from", "."), "plain name"),
        (("data", "images//tmp/photos", "--from", "."), "plain name"),
        (("data", "images/own", "--from", ".", "--size", "0"), "--size must lie between 3 and 256"),
        (("data", "images/own", "--from", ".", "--size", "100000"), "--size must lie between 3 and 256"),
        (("data", "images/own", "--from", "nowhere.npy"), "nowhere.npy does not exist"),
        (("data", "images/own", "--from", "nowhere.npy", "--channels", "1"), "for folders of your own pictures"),
        (("data", "mnist", "--from", ".", "--size", "14"), "for folders of your own pictures"),
        (("data", "lotka-volterra", "--from", "."), "is simulated, from no file"),
        (("data", "celeba", "--download"), "may not be fetched by a program"),
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
