"""The server answers what the page asks, and refuses everything else in clear words."""

import concurrent.futures
import dataclasses
import json
import random

import numpy as np
import pytest

from helpers.fitted_models import fitted, some_curves
from mpnp.explore.answers import Answers
from mpnp.explore.gallery import Gallery
from mpnp.inference.model import FittedModel

pytest.importorskip("uvicorn", reason="needs the extra: pip install 'mpnp[explore]'")
testclient = pytest.importorskip("starlette.testclient", reason="needs httpx")

from mpnp.explore.server import LARGEST_BODY, address, listen, make_app, make_token  # noqa: E402

JSON = {"content-type": "application/json"}


def request(**changes):
    content = {"model": "mine", "part": "band", "x": [20.0, 30.0], "y": [[301.0], [296.0]], "output": 0, "grid": [15, 40, 16]}
    return content | {"band": 0.9, "draws": 3, "method": "resample", "future": 4, "noise": False, "seed": 0} | changes


@pytest.fixture(scope="module")
def models():
    return {"mine": fitted("mpnp"), "wide": fitted("cnp", some_curves(outputs=2, missing=True))}


@pytest.fixture(scope="module")
def client(models):
    with testclient.TestClient(make_app(Answers(Gallery(models))), raise_server_exceptions=False) as client:
        yield client


def post(client, content, **headers):
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    return client.post("/api/answer", content=text, headers=JSON | headers)


def test_the_page_holds_models_and_axes(client):
    page = client.get("/")
    assert page.status_code == 200 and "default-src 'none'" in page.headers["content-security-policy"]
    data = json.loads(page.text.partition('id="data">')[2].partition("</script>")[0])
    assert [(each["name"], each["group"], each["pseudo"]) for each in data["models"]] == [("mine", 0, True), ("wide", 1, False)]
    assert data["groups"][1]["outputs"] == ["y0", "y1"]


def test_the_band_is_that_of_the_model(client, models):
    answer = post(client, request()).json()
    wanted = (
        models["mine"].condition([20.0, 30.0], [301.0, 296.0]).predict(np.linspace(15, 40, 16), "full", quantiles=[0.05, 0.95])
    )
    np.testing.assert_allclose(answer["mean"], wanted["mean"], rtol=1e-4)
    np.testing.assert_allclose(np.transpose([answer["low"], answer["high"]]), wanted["quantiles"], rtol=1e-4)


def test_the_band_of_a_model_that_scales_curves_by_their_context_is_that_of_the_model():
    model = fitted("tnp")
    model = FittedModel(model.network, dataclasses.replace(model.card, scaled_by_context=True))
    answer = Answers(Gallery({"mine": model}))(request(grid=[20, 30, 5]))
    np.testing.assert_allclose(
        answer["mean"], model.condition([20.0, 30.0], [301.0, 296.0]).predict(np.linspace(20, 30, 5)), rtol=1e-4
    )


def test_functions_are_those_of_the_model(client, models):
    posterior = models["mine"].condition([20.0, 30.0], [301.0, 296.0])
    for method, num_future in (("resample", 4), ("generate", None)):
        answer = post(client, request(part="draws", method=method, seed=5)).json()
        wanted = posterior.sample(np.linspace(15, 40, 16), 3, 5, method=method, num_future=num_future)
        np.testing.assert_allclose(answer["draws"], wanted, rtol=1e-4)


def test_the_pseudo_context_alone_gives_functions(client):
    functions = np.array(post(client, request(part="pseudo")).json()["pseudo"])
    assert functions.shape == (3, 16) and np.isfinite(functions).all()


def test_one_of_several_outputs_is_shown(client):
    one, other = (
        post(client, request(model="wide", y=[[301.0, None], [None, 296.0]], output=output)).json()["mean"] for output in (0, 1)
    )
    assert one != other


def test_the_models_warnings_reach_the_page(client):
    (warning,) = post(client, request(x=[1_000.0], y=[[300.0]])).json()["warnings"]
    assert "outside the training range" in warning


NO_REQUESTS = {
    "not JSON": "{",
    "bytes that are no text": b"\xff\xfe\x00",
    "nothing": "",
    "brackets": "[" * 50_000,
    "NaN": json.dumps(request(x=[float("nan"), 1.0])),
    "infinity": json.dumps(request(grid=[0, float("inf"), 9])),
    "a huge number": json.dumps(request()).replace("20.0", "1" + "0" * 400),
    "a list": "[1, 2]",
    "null": "null",
    "an unknown model": json.dumps(request(model="mnie")),
    "a path": json.dumps(request(model="../../etc/passwd")),
    "a model that is a list": json.dumps(request(model=["mine"])),
    "an unknown part": json.dumps(request(part="__class__")),
    "too many points": json.dumps(request(x=[0.0] * 201, y=[[0.0]] * 201)),
    "too many targets": json.dumps(request(grid=[0, 1, 100_000])),
    "too many draws": json.dumps(request(part="draws", draws=10**9)),
    "too long a future": json.dumps(request(part="draws", future=10**6)),
    "a grid that descends": json.dumps(request(grid=[1, 0, 9])),
    "texts": json.dumps(request(x=["1", "2"])),
    "truth values": json.dumps(request(x=[True, False])),
    "fewer outputs": json.dumps(request(y=[[1.0]])),
    "no outputs": json.dumps(request(y=[[], []])),
    "a band of everything": json.dumps(request(band=1)),
    "a negative seed": json.dumps(request(seed=-1)),
    "another output": json.dumps(request(output=1)),
    "numbers far away": json.dumps(request(y=[[1e300], [-1e300]])),
    "no exact posterior": json.dumps(request(part="exact")),
}


@pytest.mark.parametrize("name", NO_REQUESTS)
def test_a_bad_request_is_refused_in_words(client, name):
    answer = post(client, NO_REQUESTS[name])
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert 10 < len(error) < 400 and "Traceback" not in error


def test_other_types_sizes_paths_and_methods_are_refused(client):
    assert client.post("/api/answer", content="{}", headers={"content-type": "text/plain"}).status_code == 415
    assert post(client, " " * (LARGEST_BODY + 1)).status_code == 413
    assert client.get("/api/answer").status_code == 405
    for path in ("/../pyproject.toml", "/%2e%2e/%2e%2e/etc/passwd", "/page.js", "/api/answer/..", "//etc/passwd", "/%00"):
        assert client.get(path).status_code in (400, 404), path


def test_pages_of_other_sites_cannot_ask(client):
    assert client.get("/", headers={"host": "evil.example"}).status_code == 400


def test_beyond_this_machine_a_token_is_needed(models):
    token = make_token("0.0.0.0")
    assert len(token) > 20 and make_token("127.0.0.1") == ""
    with testclient.TestClient(make_app(Answers(Gallery(models)), token=token)) as client:
        assert client.get("/").status_code == 403 and client.get("/?token=wrong").status_code == 403
        assert client.get(f"/?token={token}").status_code == 200
        assert post(client, request()).status_code == 403
        assert post(client, request(), **{"x-token": token}).status_code == 200


def test_random_requests_never_break_it(client):
    rng = random.Random(0)
    values = [
        None,
        True,
        -1,
        0,
        3,
        1.5,
        1e308,
        "",
        "mine",
        "\u0000",
        "band",
        [],
        [0.0],
        [[1.0]],
        [None],
        {},
        {"a": 1},
        [0, 1, 8],
    ]
    for _ in range(1_000):
        content = request(**{name: rng.choice(values) for name in rng.sample(sorted(request()), rng.randint(1, 3))})
        answer = post(client, content)
        assert answer.status_code in (200, 400), (content, answer.text)
        assert isinstance(answer.json(), dict)


def test_many_clients_at_once_are_served(client):
    with concurrent.futures.ThreadPoolExecutor(50) as clients:
        answers = list(clients.map(lambda seed: post(client, request(seed=seed)).status_code, range(50)))
    assert answers == [200] * 50


def test_the_printed_address_is_that_of_the_socket():
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert address(listener, "secret") == f"http://127.0.0.1:{port}/?token=secret"
        with pytest.raises(ValueError, match="choose another --host or --port"):
            listen("127.0.0.1", port)
