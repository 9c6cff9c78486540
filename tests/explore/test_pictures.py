"""The page of images: what the server answers about pixels, and what it refuses."""

import json
import random

import numpy as np
import pytest
from PIL import Image

from helpers.fitted_models import fitted, of_images
from mpnp.errors import InputError
from mpnp.explore.answers import Answers
from mpnp.explore.gallery import Gallery
from mpnp.explore.pictures import Pictures, is_model_of_images
from mpnp.inference.completion import complete

pytest.importorskip("uvicorn", reason="needs the extra: pip install 'mpnp[explore]'")
testclient = pytest.importorskip("starlette.testclient", reason="needs httpx")

from mpnp.explore.server import make_app  # noqa: E402

SOME = [[0, 0], [400, 255], [783, 7]]


def request(**changes):
    return {"model": "digits", "draws": 3, "pixels": SOME} | changes


@pytest.fixture(scope="module")
def pictures():
    return Pictures.of({"digits": of_images()})


@pytest.fixture(scope="module")
def client(pictures):
    with testclient.TestClient(make_app(None, pictures), raise_server_exceptions=False) as client:
        yield client


def test_the_completion_is_that_of_the_model(pictures):
    image, shown = np.zeros((28, 28, 1), np.uint8), np.zeros((28, 28), bool)
    for place, colour in SOME:
        image.ravel()[place], shown.ravel()[place] = colour, True
    wanted = complete(pictures.models["digits"].network, image, shown, num_samples=3)
    answer = pictures(request())
    np.testing.assert_allclose(np.ravel(answer["mean"]) / 255, wanted.mean.ravel(), atol=1 / 255)
    np.testing.assert_allclose(answer["std"], wanted.std.ravel(), atol=1e-3)
    assert np.shape(answer["draws"]) == (3, 784, 1) and answer["implausible"] == (wanted.log_likelihood < 0)


def test_without_pixels_it_is_the_prior_and_nothing_is_implausible(pictures):
    answer = pictures(request(pixels=[]))
    assert len(answer["mean"]) == 784 and not answer["implausible"]


def test_pages_have_places_that_depend_on_what_there_is_to_explore(client, pictures):
    assert '"shape":[28,28,1]' in client.get("/").text and client.get("/images").status_code == 404
    assert client.post("/api/picture", json=request()).status_code == 200
    app = make_app(Answers(Gallery({"mine": fitted("cnp")})), pictures, token="secret")
    with testclient.TestClient(app) as both:
        assert '"path":"images"' in both.get("/?token=secret").text and both.get("/images").status_code == 403
        assert '"shape"' in both.get("/images?token=secret").text
        assert both.post("/api/picture", json=request()).status_code == 403


def test_the_first_pictures_are_those_of_the_files(tmp_path):
    Image.new("RGB", (60, 40), (255, 0, 0)).save(tmp_path / "red.png")
    (picture,) = Pictures.of({"a": of_images()}, [tmp_path / "red.png"]).describe()["pictures"]
    assert picture == {"name": "red", "pixels": [[76]] * 784}


def test_models_of_several_shapes_or_of_large_images_are_refused(monkeypatch):
    with pytest.raises(InputError, match="2 shapes"):
        Pictures.of({"a": of_images(), "b": of_images("svhn")})
    monkeypatch.setattr("mpnp.explore.pictures.MOST_PIXELS", 100)
    with pytest.raises(InputError, match="at most 100 pixels"):
        Pictures.of({"a": of_images()})


def test_what_is_a_model_of_images():
    assert is_model_of_images(of_images()) and not is_model_of_images(fitted("cnp"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "../etc"}, "unknown model"),
        ({"draws": 10**9}, "draws"),
        ({"pixels": "all"}, "list of at most 784"),
        ({"pixels": [[0, 1]] * 785}, "list of at most 784"),
        ({"pixels": [[0]]}, "its place and 1 colours"),
        ({"pixels": [[0, True]]}, "its place and 1 colours"),
        ({"pixels": [[784, 1]]}, "below 784"),
        ({"pixels": [[-1, 1]]}, "below 784"),
        ({"pixels": [[0, 256]]}, "colours below 256"),
    ],
)
def test_bad_requests_are_refused_in_clear_words(client, changes, message):
    answer = client.post("/api/picture", json=request(**changes))
    assert answer.status_code == 400 and message in answer.json()["error"]


def test_random_requests_never_break_it(client):
    rng = random.Random(0)
    values = [None, True, -1, 3, 1.5, 1e308, "", "digits", [], [[]], [[0, 0]], [[0, None]], [[1.0, 2]], [["0", "1"]], {"a": 1}]
    for _ in range(200):
        content = request(**{name: rng.choice(values) for name in rng.sample(sorted(request()), rng.randint(1, 2))})
        answer = client.post("/api/picture", content=json.dumps(content), headers={"content-type": "application/json"})
        assert answer.status_code in (200, 400), (content, answer.text)
